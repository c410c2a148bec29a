/* A HIP runtime whose GPU is this machine's CPU, for tests of backend hip: memory is malloc's, work is done
 * when it is asked for. It describes a recorded GPU, and breaks in the way that the environment names:
 *
 *   STAND_IN_GPU    mi300x (default), mi350x, none
 *   STAND_IN_FAULT  launch: every launch is reported as failed     hang: waiting for timed work does not end
 *                   sticky: after the first timed work every call fails
 *
 * The numbers of the two GPUs are those that their data sheets and the runtime's own reports tell. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { success = 0, out_of_memory = 2, illegal_address = 700, launch_failure = 719 };

static int broken;   /* what a kernel did to the device stays */
static int launched; /* timed work that was not waited for yet */

static int fault(const char* name) {
  const char* const asked = getenv("STAND_IN_FAULT");
  return asked && strcmp(asked, name) == 0;
}
static int gpu(const char* name) {
  const char* const asked = getenv("STAND_IN_GPU");
  return strcmp(asked ? asked : "mi300x", name) == 0;
}
static int status(void) { return broken ? illegal_address : success; }

int hipInit(unsigned flags) { return flags == 0 ? status() : 1; }
int hipRuntimeGetVersion(int* version) { return *version = 60342131, success; }
int hipDriverGetVersion(int* version) { return *version = 60342131, success; }
int hipGetDeviceCount(int* count) { return *count = gpu("none") ? 0 : 2, success; }

#if !defined(STAND_IN_OLD)
/* hipDeviceProp_tR0600 by the places of its fields. */
static void put(char* properties, size_t at, const void* value, size_t bytes) {
  memcpy(properties + at, value, bytes);
}
static void put_int(char* properties, size_t at, int value) { put(properties, at, &value, sizeof value); }

int hipGetDevicePropertiesR0600(char* properties, int device) {
  if (device < 0 || device > 1) return 101;
  const int newer = gpu("mi350x");
  const size_t memory = newer ? 309220868096u : 206141652992u, lds = newer ? 163840 : 65536;
  const char* const name = newer ? "AMD Instinct MI350X" : "AMD Instinct MI300X";
  const char* const arch = newer ? "gfx950:sramecc+:xnack-" : "gfx942:sramecc+:xnack-";
  memset(properties, 0, 1472);
  put(properties, 0, name, strlen(name) + 1);
  put(properties, 288, &memory, sizeof memory);
  put(properties, 296, &lds, sizeof lds);
  put_int(properties, 308, 64);                        /* lanes of a wave */
  put_int(properties, 348, newer ? 2200000 : 2100000); /* kHz */
  put_int(properties, 388, newer ? 256 : 304);         /* units */
  put_int(properties, 616, 4194304);                   /* L2 */
  put_int(properties, 624, 2048);                      /* threads of a unit */
  put(properties, 1160, arch, strlen(arch) + 1);
  return success;
}
#endif

int hipSetDevice(int device) { return device <= 1 ? status() : 101; }
int hipMalloc(void** memory, size_t bytes) {
  *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *memory ? status() : out_of_memory;
}
int hipFree(void* memory) {
  free(memory);
  return status();
}
int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  (void)kind, (void)stream;
  memcpy(to, from, bytes);
  return status();
}
int hipMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                     size_t height, int kind, void* stream) {
  (void)kind, (void)stream;
  if (width > to_pitch || width > from_pitch) return 12;
  for (size_t line = 0; line < height; ++line)
    memcpy((char*)to + line * to_pitch, (const char*)from + line * from_pitch, width);
  return status();
}
int hipMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  (void)stream;
  memset(to, value, bytes);
  return status();
}
int hipMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, void* stream) {
  (void)stream;
  for (size_t line = 0; line < height; ++line) memset((char*)to + line * pitch, value, width);
  return status();
}

typedef struct event {
  struct timespec at;
} event;

int hipEventCreate(void** made) {
  *made = calloc(1, sizeof(event));
  return status();
}
int hipEventRecord(void* at, void* stream) {
  (void)stream;
  clock_gettime(CLOCK_MONOTONIC, &((event*)at)->at);
  launched = 1;
  return status();
}
int hipEventSynchronize(void* at) {
  (void)at;
  while (fault("hang")) pause();
  if (fault("sticky") && launched) broken = 1;
  return status();
}
int hipEventElapsedTime(float* ms, void* start, void* stop) {
  const struct timespec a = ((event*)start)->at, b = ((event*)stop)->at;
  *ms = (float)(1e3 * (double)(b.tv_sec - a.tv_sec) + 1e-6 * (double)(b.tv_nsec - a.tv_nsec));
  return status();
}
int hipStreamSynchronize(void* stream) {
  (void)stream;
  return status();
}
int hipStreamQuery(void* stream) {
  (void)stream;
  return status();
}
int hipGetLastError(void) { return fault("launch") ? launch_failure : status(); }
const char* hipGetErrorString(int code) {
  return code == launch_failure    ? "unspecified launch failure"
         : code == illegal_address ? "an illegal memory access was encountered"
         : code == out_of_memory   ? "out of memory"
                                   : "another error";
}
