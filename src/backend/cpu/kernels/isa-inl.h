// Included first by each kernel source, after it chose KSCOUT_HWY_TARGET: sets Highway to exactly that
// target. Highway's own mechanism compiles one source for every target and picks the best at run time; here
// the config says which target runs, and one source per target keeps compile times short.
#define HWY_COMPILE_ONLY_STATIC
#define HWY_BASELINE_TARGETS KSCOUT_HWY_TARGET
#define HWY_DISABLE_PCLMUL_AES
#include <hwy/cache_control.h>
#include <hwy/highway.h>
