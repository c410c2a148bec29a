#include <kscout/selector.h>
