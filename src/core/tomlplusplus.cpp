/// toml++, compiled into the library.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
