// toml++, compiled into the library.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>

static_assert(TOML_LIB_MAJOR == 3, "toml++ 3 is needed");
