#include <string.h>

#include <kscout/kscout.h>

/* 0 when the library that is loaded is the one this was compiled for. */
int library_differs_from_header(void) {
  return kscout_abi_version() != KSCOUT_ABI_VERSION || strcmp(kscout_version(), KSCOUT_VERSION) != 0;
}
