#pragma once
/* What _dl_find_object of glibc 2.35 tells an unwinder (dlfcn.h; needs _GNU_SOURCE), from the list of loaded
 * objects. */
#include <dlfcn.h>

#ifdef DLFO_EH_SEGMENT_TYPE
#ifdef __cplusplus
extern "C" {
#endif
/** Bounds and tables of the object that holds an address; its link_map stays NULL. 0, or -1 where no object
 * with tables holds it. */
int kscout_find_object(void* address, struct dl_find_object* result);
#ifdef __cplusplus
}
#endif
#endif
