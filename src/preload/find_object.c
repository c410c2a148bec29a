/* Where the tables of an exception's frames are: GCC's unwinder, which is linked into the core, asks
 * glibc 2.35 and later for it. The core's own function of that name keeps the wheel fit for glibc 2.34 (RHEL
 * 9). */
#define _GNU_SOURCE
#include "preload/find_object.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef DLFO_EH_SEGMENT_TYPE
typedef struct {
  uintptr_t address;
  struct dl_find_object* result;
} Search;

static int visit(struct dl_phdr_info* object, size_t size, void* data) {
  const Search* search = data;
  uintptr_t tables = 0, begin = UINTPTR_MAX, end = 0;
  int holds = 0;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    const uintptr_t from = object->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
    if (part->p_type == DLFO_EH_SEGMENT_TYPE) tables = from;
    if (part->p_type != PT_LOAD) continue;
    if (from < begin) begin = from;
    if (to > end) end = to;
    if (search->address >= from && search->address < to) holds = 1;
  }
  if (!holds) return 0;
  search->result->dlfo_map_start = (void*)begin;  // NOLINT(performance-no-int-to-ptr)
  search->result->dlfo_map_end = (void*)end;      // NOLINT(performance-no-int-to-ptr)
  search->result->dlfo_eh_frame = (void*)tables;  // NOLINT(performance-no-int-to-ptr)
  return 1;
}

int kscout_find_object(void* address, struct dl_find_object* result) {
  Search search = {(uintptr_t)address, result};
  memset(result, 0, sizeof *result);
  return dl_iterate_phdr(visit, &search) && result->dlfo_eh_frame ? 0 : -1;
}
#endif
