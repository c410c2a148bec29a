#pragma once
// Sets Highway to one instruction set, chosen by the including source: KSCOUT_HWY_TARGET, or scalar code.
// Highway itself would compile one source for every target and pick the best at run time. Here the config
// names the target, and one source per target keeps compile times short.
#ifdef KSCOUT_HWY_TARGET
#define HWY_COMPILE_ONLY_STATIC
#define HWY_BASELINE_TARGETS KSCOUT_HWY_TARGET
#define HWY_DISABLE_PCLMUL_AES
#else
#define HWY_COMPILE_ONLY_SCALAR  // one lane; EMU128 is miscompiled by GCC 12 (its bug 106322)
#endif
#include <hwy/cache_control.h>
#include <hwy/highway.h>
