/* A driver of two GPUs that are none. The variable named in each comment changes an answer. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in_blas.h"

#pragma weak stand_in_calls
#pragma weak stand_in_inner_calls
#pragma weak stand_in_executions

static int contexts[2];
static _Thread_local int current_device;
static _Thread_local int other; /* STAND_IN_OTHER_CONTEXT: the current one is not the primary one */

void stand_in_use_device(int device) { current_device = device; }

static long number(const char* name, long otherwise) {
  const char* const value = getenv(name);
  return value ? strtol(value, NULL, 10) : otherwise;
}

int cuCtxGetDevice(int* device) {
  *device = current_device;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  strncpy(name, "Stand-in", (size_t)size);
  return 0;
}
int cuDevicePrimaryCtxRetain(void** primary, int device) {
  *primary = &contexts[device];
  return 0;
}
int cuCtxGetCurrent(void** current) {
  *current = number("STAND_IN_OTHER_CONTEXT", 0) ? (void*)&other : (void*)&contexts[current_device];
  return 0;
}
int cuCtxSetCurrent(void* context) {
  current_device = context == &contexts[1];
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
/* STAND_IN_SIDE_MIB: so much memory an allocation may have, of the host's; else there is none. */
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (bytes > (size_t)number("STAND_IN_SIDE_MIB", 0) << 20) return 2;
  *address = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *address ? 0 : 2;
}
int cuMemFree_v2(uint64_t address) {
  free((void*)(uintptr_t)address);
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  if (stream == STAND_IN_CAPTURED) abort();
  memcpy((void*)(uintptr_t)to, from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  if (stream == STAND_IN_CAPTURED) abort();
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return 0;
}
int cuStreamSynchronize(void* stream) {
  if (stream == STAND_IN_CAPTURED) abort();
  return 0;
}
/* Events know how many calls the libraries had got. STAND_IN_EVENTS=create|record|query|elapsed: that fails.
 * STAND_IN_PENDING: so many queries find an event that the GPU has not reached. A time is STAND_IN_LIBRARY_US
 * where a call of the libraries lies between the events, else STAND_IN_PICK_US. */
static int fails(const char* at) {
  const char* const named = getenv("STAND_IN_EVENTS");
  return named && strcmp(named, at) == 0 ? 999 : 0;
}
static long calls(void) {
  return (stand_in_calls ? stand_in_calls() + stand_in_inner_calls() : 0) +
         (stand_in_executions ? stand_in_executions() : 0);
}

int cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  if (!(*event = calloc(1, sizeof(long)))) return 2;
  return fails("create");
}
int cuEventRecord(void* event, void* stream) {
  if (stream == STAND_IN_CAPTURED) abort(); /* it would become a node of the graph */
  *(long*)event = calls();
  return fails("record");
}
int cuEventQuery(void* event) {
  static atomic_long queries;
  (void)event;
  return atomic_fetch_add(&queries, 1) < number("STAND_IN_PENDING", 0) ? 600 : fails("query");
}
int cuEventElapsedTime(float* ms, void* begin, void* end) {
  const char* const of = *(long*)end != *(long*)begin ? "STAND_IN_LIBRARY_US" : "STAND_IN_PICK_US";
  *ms = 1e-3f * (float)number(of, 0);
  return fails("elapsed");
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  static _Thread_local int own;
  const int before = own;
  own = *mode;
  *mode = before;
  return 0;
}
