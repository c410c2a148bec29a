/* A CUDA runtime whose allocations fail as often as STAND_IN_MALLOC_FAILS says. */
#include <stdlib.h>

#include "stand_in_blas.h"

enum { kNoMemory = 2 };
static int last, mallocs;

int cudaGetLastError(void) {
  const int error = last;
  last = 0;
  return error;
}
int cudaMalloc(void** memory, size_t bytes) {
  const char* const failures = getenv("STAND_IN_MALLOC_FAILS");
  if (mallocs++ < (failures ? atoi(failures) : 0)) return last = kNoMemory;
  *memory = malloc(bytes);
  return 0;
}
int stand_in_mallocs(void) { return mallocs; }
