/* Executes one plan of cuDNN per word of the command line, and prints who computed it: "served" (KernelScout,
 * and the result is right), "passed" (the stand-in for the library, which computes nothing), or "wrong".
 *
 *   A, B        a plan of the problem of this name; a, b: another plan of it
 *   A!          the plan until it is served, at most kTries times
 *   destroyed:A the plan, which is then destroyed: the next one has its address */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bf16.h"
#include "stand_in_blas.h"

enum { kIds = 1000, kPointers = 1001, kWorkspaceOf = 1003, kInt64 = 3, kPointer = 6 };
enum { kImages = 2, kSize = 6, kChannels = 32, kPixels = kImages * kSize * kSize };
enum { kTries = 20000, kPauseUs = 1000, kThreads = 4, kCallsOfAThread = 200 };
enum { kIn = 120, kOut = 121, kWei = 119 };

static struct stand_in_handle handle;
static uint16_t in[kPixels * kChannels + 8] __attribute__((aligned(256))),
    wei[kChannels * 9] __attribute__((aligned(256)));
static char workspace[1 << 20] __attribute__((aligned(256)));

/* Depthwise, 3x3, channels last; problem B has one image. */
#define IN(images) STAND_IN_TENSOR("120", "BFLOAT16", images ",32,6,6", "1152,1,192,32")
#define OUT(images) STAND_IN_TENSOR("121", "BFLOAT16", images ",32,6,6", "1152,1,192,32")
#define WEI STAND_IN_TENSOR("119", "BFLOAT16", "32,1,3,3", "9,1,3,1")
#define PLAN(images)                                                                                         \
  STAND_IN_PLAN(                                                                                             \
      IN(images) "," WEI "," OUT(images),                                                                    \
      STAND_IN_CONVOLUTION("FORWARD", "\"pad\":[1,1],\"stride\":[1,1],\"dilation\":[1,1],\"groupCount\":32", \
                           "\"X\":\"120\",\"W\":\"119\",\"Y\":\"121\""))
static struct stand_in_plan plans[] = {{.json = PLAN("2"), .engine = 1},
                                       {.json = PLAN("1"), .engine = 1},
                                       {.json = PLAN("2"), .engine = 5},
                                       {.json = PLAN("1"), .engine = 5}};

static void fill(void) {
  for (int i = 0; i < kPixels * kChannels; ++i) in[i] = to_bf16((float)(i % 5 - 2));
  for (int i = 0; i < kChannels * 9; ++i) wei[i] = to_bf16((float)(i % 3 - 1));
}

static int is_right(const uint16_t* out, int images) {
  for (int n = 0; n < images; ++n)
    for (int y = 0; y < kSize; ++y)
      for (int x = 0; x < kSize; ++x)
        for (int c = 0; c < kChannels; ++c) {
          float sum = 0;
          for (int tap = 0; tap < 9; ++tap) {
            const int at_y = y + tap / 3 - 1, at_x = x + tap % 3 - 1;
            if (at_y < 0 || at_y >= kSize || at_x < 0 || at_x >= kSize) continue;
            sum += from_bf16(in[((n * kSize + at_y) * kSize + at_x) * kChannels + c]) *
                   from_bf16(wei[c * 9 + tap]);
          }
          if (out[((n * kSize + y) * kSize + x) * kChannels + c] != to_bf16(sum)) return 0;
        }
  return 1;
}

static int execute(const struct stand_in_plan* plan, const void* from, uint16_t* out, void* pack) {
  const int64_t ids[] = {kIn, kOut, kWei};
  const void *const tensors[] = {from, out, wei}, *const memory = workspace;
  cudnnBackendSetAttribute(pack, kIds, kInt64, 3, ids);
  cudnnBackendSetAttribute(pack, kPointers, kPointer, 3, tensors);
  cudnnBackendSetAttribute(pack, kWorkspaceOf, kPointer, 1, &memory);
  const int status = cudnnBackendExecute(&handle, (void*)plan, pack);
  cudnnBackendDestroyDescriptor(pack);
  return status;
}

static const char* computed_by(const struct stand_in_plan* plan, const void* from) {
  static uint16_t out[kPixels * kChannels] __attribute__((aligned(256)));
  for (int i = 0; i < kPixels * kChannels; ++i) out[i] = 0x7fc0; /* not a number */
  const long before = stand_in_executions();
  char pack;
  if (execute(plan, from, out, &pack) != 0) return "failed";
  if (stand_in_executions() != before) return out[0] == 0x7fc0 ? "passed" : "wrong";
  return getenv("HOST_GPU_SKIP") || is_right(out, (plan - plans) % 2 ? 1 : kImages) ? "served" : "wrong";
}

static void* many(void* of) {
  uint16_t* const out = aligned_alloc(256, sizeof in);
  char pack;
  for (int i = 0; i < kCallsOfAThread; ++i) execute(&plans[i % 2], in, out, &pack);
  free(out);
  return of;
}

static const char* until_served(const struct stand_in_plan* plan) {
  const char* by = "passed";
  for (int i = 0; i < kTries && strcmp(by, "passed") == 0; ++i) {
    if (i > 0) usleep(kPauseUs);
    by = computed_by(plan, in);
  }
  return by;
}

static const struct stand_in_plan* plan_of(char word) {
  const char* const found = strchr("ABab", word);
  if (!found || !word) fprintf(stderr, "%c: unknown word\n", word), exit(9);
  return &plans[found - "ABab"];
}

int main(int argc, char** argv) {
  fill();
  printf("workspace %p\n", (void*)workspace);
  for (int i = 1; i < argc; ++i) {
    const char* const word = argv[i];
    const char* by;
    if (strcmp(word, "stream") == 0 || strcmp(word, "captured_stream") == 0) {
      handle.stream = word[0] == 's' ? (void*)0x40 : STAND_IN_CAPTURED;
      continue;
    }
    if (strncmp(word, "device:", 7) == 0) {
      stand_in_use_device(atoi(word + 7));
      continue;
    }
    if (strcmp(word, "threads") == 0) {
      pthread_t running[kThreads];
      for (int t = 0; t < kThreads; ++t) pthread_create(&running[t], NULL, many, NULL);
      for (int t = 0; t < kThreads; ++t) pthread_join(running[t], NULL);
      by = "done";
    } else if (strncmp(word, "destroyed:", 10) == 0) {
      by = computed_by(plan_of(word[10]), in);
      cudnnBackendDestroyDescriptor((void*)plan_of(word[10]));
    } else if (strncmp(word, "unaligned:", 10) == 0) {
      by = computed_by(plan_of(word[10]), in + 1);
    } else if (strcmp(word, "fork") == 0) {
      fflush(stdout);
      const pid_t child = fork();
      if (child == 0) {
        printf("child %s\n", computed_by(&plans[0], in));
        fflush(stdout);
        _exit(0);
      }
      waitpid(child, NULL, 0);
      continue;
    } else {
      by = word[1] == '!' ? until_served(plan_of(word[0])) : computed_by(plan_of(word[0]), in);
    }
    printf("%s %s\n", word, by);
    fflush(stdout);
  }
  return 0;
}
