/* A driver of a GPU that is none. The variable named in each comment changes an answer. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "stand_in_blas.h"

static int context;
static _Thread_local int other; /* STAND_IN_OTHER_CONTEXT: the current one is not the primary one */

static long number(const char* name, long otherwise) {
  const char* const value = getenv(name);
  return value ? strtol(value, NULL, 10) : otherwise;
}

int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** primary, int device) {
  *primary = &context;
  return device != 0;
}
int cuCtxGetCurrent(void** current) {
  *current = number("STAND_IN_OTHER_CONTEXT", 0) ? (void*)&other : (void*)&context;
  return 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = stream == STAND_IN_CAPTURED;
  return 0;
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, uint64_t* id, void* graph, void* dependencies,
                              void* count) {
  (void)graph, (void)dependencies, (void)count;
  *status = stream == STAND_IN_CAPTURED;
  *id = *status ? 17 : 0;
  return 0;
}
int cuStreamGetId(void* stream, unsigned long long* id) {
  *id = (unsigned long long)(uintptr_t)stream;
  return 0;
}
/* STAND_IN_FREE_MIB: of 1,000 MiB. */
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = (size_t)number("STAND_IN_FREE_MIB", 900) << 20;
  *total = (size_t)1000 << 20;
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  static _Thread_local int own;
  const int before = own;
  own = *mode;
  *mode = before;
  return 0;
}
