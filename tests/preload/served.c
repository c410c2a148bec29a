/* Computes one product per word of the command line, and prints who computed it: "served" (KernelScout, and
 * the result is right), "passed" (the stand-in for the library, which leaves 16-bit results untouched), or
 * "wrong". */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bf16.h"
#include "stand_in_blas.h"

enum { N = 0, T = 1, R32F = 0, R16F = 2, R16BF = 14, F32 = 68 };
enum { kThreads = 8, kCallsOfAThread = 125 };
enum { M = 120, COLUMNS = 96, K = 4096, kWorkspace = 1 << 20 };

static struct stand_in_handle handle;
static uint16_t a[K * M + 8] __attribute__((aligned(256))), b[K * COLUMNS + 8] __attribute__((aligned(256))),
    c[M * COLUMNS + 8] __attribute__((aligned(256))), bias[M] __attribute__((aligned(256)));
static char workspace[kWorkspace] __attribute__((aligned(256)));
static const float one = 1, two = 2, zero = 0;

/* Sums of few whole numbers, which fp32 holds. */
static void fill(void) {
  for (int i = 0; i < M; ++i)
    for (int l = 0; l < K; ++l) a[i * K + l] = to_bf16((float)((i + l) % 5 - 2));
  for (int j = 0; j < COLUMNS; ++j)
    for (int l = 0; l < K; ++l) b[j * K + l] = to_bf16((float)((j * 3 + l) % 3 - 1));
  for (int i = 0; i < M * COLUMNS; ++i) c[i] = 0x7fc0; /* not a number */
}

static int is_right(float alpha) {
  for (int j = 0; j < COLUMNS; ++j) {
    for (int i = 0; i < M; ++i) {
      float sum = 0;
      for (int l = 0; l < K; ++l) sum += from_bf16(a[i * K + l]) * from_bf16(b[j * K + l]);
      if (c[i + j * M] != to_bf16(alpha * sum)) return 0;
    }
  }
  return 1;
}

/* cuDNN computes nothing here. */
static int convolve(void) {
  static struct stand_in_plan plan = {
      .json = STAND_IN_PLAN(
          STAND_IN_TENSOR("1", "HALF", "2,8,4,4", "128,1,32,8") "," STAND_IN_TENSOR(
              "2", "HALF", "16,8,1,1", "8,1,8,8") "," STAND_IN_TENSOR("3", "HALF", "2,16,4,4", "256,1,64,16"),
          STAND_IN_CONVOLUTION("FORWARD", "\"pad\":[0,0],\"stride\":[1,1],\"dilation\":[1,1]",
                               "\"X\":\"1\",\"W\":\"2\",\"Y\":\"3\""))};
  return cudnnBackendExecute(&handle, &plan, NULL);
}

static int gemm_at(const float* alpha, const float* beta, const uint16_t* from, int compute) {
  return cublasGemmEx(&handle, T, N, M, COLUMNS, K, alpha, from, R16BF, K, b, R16BF, K, beta, c, R16BF, M,
                      compute, -1);
}
static int gemm(void) { return gemm_at(&one, &zero, a, F32); }

static int batched(long long gap) {
  return cublasGemmStridedBatchedEx(&handle, T, N, M / 2, COLUMNS, K, &one, a, R16BF, K, M / 2 * K, b, R16BF,
                                    K, COLUMNS * K, &zero, c, R16BF, M / 2, M / 2 * COLUMNS + gap,
                                    1 + (gap != 0), F32, -1);
}

/* odd:MxNxK, row-major; is not computed. */
static int odd(const char* sizes) {
  long m, n, k;
  if (sscanf(sizes, "%ldx%ldx%ld", &m, &n, &k) != 3) exit(9);
  void* const first = aligned_alloc(256, (size_t)(n * k * 2 + 255) / 256 * 256);
  void* const second = aligned_alloc(256, (size_t)(m * k * 2 + 255) / 256 * 256);
  void* const result = aligned_alloc(256, (size_t)(m * n * 2 + 255) / 256 * 256);
  memset(first, 0, (size_t)(n * k * 2));
  memset(second, 0, (size_t)(m * k * 2));
  memset(result, 0, (size_t)(m * n * 2));
  const int status = cublasGemmEx(&handle, T, N, (int)n, (int)m, (int)k, &one, first, R16BF, (int)k, second,
                                  R16BF, (int)k, &zero, result, R16BF, (int)n, F32, -1);
  free(first);
  free(second);
  free(result);
  return status;
}

static struct stand_in_operation operation = {.compute = F32, .transa = T, .epilogue = 1};

static int matmul(const float* beta, const void* from, size_t workspace_bytes) {
  struct stand_in_matrix first = {R16BF, 0, K, M, K, 1, 0}, second = {R16BF, 0, K, COLUMNS, K, 1, 0};
  struct stand_in_matrix result = {R16BF, 0, M, COLUMNS, M, 1, 0};
  return cublasLtMatmul(&handle, &operation, &one, a, &first, b, &second, beta, from, &result, c, &result,
                        NULL, workspace, workspace_bytes, (void*)0x30);
}

static void* many(void* of) {
  (void)of;
  for (int i = 0; i < kCallsOfAThread; ++i) gemm();
  return NULL;
}
static int threads(void* (*run)(void*)) {
  pthread_t running[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&running[i], NULL, run, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(running[i], NULL);
  return 0;
}

static atomic_int started;
static void* many_on_two_devices(void* of) {
  stand_in_use_device(atomic_fetch_add(&started, 1) % 2);
  return many(of);
}

/* Problems of two types and many depths, of which the models know all. */
static int one_of_many(int which) {
  const int type = which % 2 ? R16F : R16BF, depth = K - 64 * (which % 24);
  return cublasGemmEx(&handle, T, N, M, COLUMNS, depth, &one, a, type, K, b, type, K, &zero, c, type, M, F32,
                      -1);
}
static void* many_problems(void* of) {
  const int first = atomic_fetch_add(&started, 1);
  (void)of;
  for (int i = 0; i < kCallsOfAThread; ++i) one_of_many(first + i);
  return NULL;
}
static void* problems_without_end(void* of) {
  for (int i = 0;; ++i) {
    one_of_many(i);
    if (i == 0) atomic_fetch_add(&started, 1);
  }
  return of;
}
/* Returns while threads compute. */
static int leave(void) {
  pthread_t thread;
  for (int i = 0; i < kThreads; ++i) pthread_create(&thread, NULL, problems_without_end, NULL);
  while (atomic_load(&started) < kThreads) usleep(100);
  return 0;
}

static int allocating_threads(void);
static int call(const char* word) {
  if (strcmp(word, "gemm") == 0) return gemm();
  if (strcmp(word, "convolve") == 0) return convolve();
  if (strcmp(word, "twice") == 0) return gemm_at(&two, &zero, a, F32);
  if (strcmp(word, "pedantic") == 0) return gemm_at(&one, &zero, a, F32 + 1);
  if (strcmp(word, "fp16_sums") == 0) return gemm_at(&one, &zero, a, 64);
  if (strcmp(word, "unaligned") == 0) return gemm_at(&one, &zero, a + 1, F32);
  if (strcmp(word, "gaps") == 0) return batched(64);
  if (strcmp(word, "matmul") == 0) return matmul(&zero, c, kWorkspace);
  if (strcmp(word, "matmul_small_workspace") == 0) return matmul(&zero, c, 64);
  if (strcmp(word, "matmul_addend") == 0) return matmul(&one, b, kWorkspace);
  if (strcmp(word, "threads") == 0) return threads(many);
  if (strcmp(word, "two_devices") == 0) return threads(many_on_two_devices);
  if (strcmp(word, "many_problems") == 0) return threads(many_problems);
  if (strcmp(word, "leave") == 0) return leave();
  if (strcmp(word, "allocating_threads") == 0) return allocating_threads();
  if (strncmp(word, "odd:", 4) == 0) return odd(word + 4);
  if (strcmp(word, "small") == 0)
    return cublasGemmEx(&handle, T, N, 8, 8, 64, &one, a, R16BF, 64, b, R16BF, 64, &zero, c, R16BF, 8, F32,
                        -1);
  if (strcmp(word, "fp32") == 0)
    return cublasSgemm_v2(&handle, N, N, 32, 32, 1024, &one, (float*)a, 32, (float*)b, 1024, &zero, (float*)c,
                          32);
  if (strcmp(word, "zero_alpha") == 0) return gemm_at(&zero, &zero, a, F32);
  if (strcmp(word, "device_alpha") == 0) {
    handle.pointer_mode = 1;
    const int status = gemm();
    handle.pointer_mode = 0;
    return status;
  }
  if (strcmp(word, "share") == 0) {
    handle.multiprocessors = 16;
    const int status = gemm();
    handle.multiprocessors = 0;
    return status;
  }
  if (strcmp(word, "scaled") == 0) {
    operation.scale_a = &one;
    const int status = matmul(&zero, c, kWorkspace);
    operation.scale_a = NULL;
    return status;
  }
  if (strcmp(word, "aux") == 0) {
    operation.epilogue = 164;
    const int status = matmul(&zero, c, kWorkspace);
    operation.epilogue = 1;
    return status;
  }
  if (strcmp(word, "relu") == 0 || strcmp(word, "gelu") == 0) {
    operation.epilogue = strcmp(word, "relu") == 0 ? 2 : 32;
    const int status = matmul(&zero, c, kWorkspace);
    operation.epilogue = 1;
    return status;
  }
  if (strcmp(word, "biased") == 0) {
    operation.epilogue = 4;
    operation.bias = bias;
    const int status = matmul(&zero, c, kWorkspace);
    operation.epilogue = 1;
    return status;
  }
  fprintf(stderr, "%s: unknown word\n", word);
  exit(9);
}

/* How often the runtime was asked, and what it and its last error are. */
static void allocate(void) {
  void* memory = NULL;
  const int before = stand_in_mallocs(), status = cudaMalloc(&memory, 64);
  printf("mallocs %d status %d error %d\n", stand_in_mallocs() - before, status, cudaGetLastError());
  free(memory);
}
static void* allocations(void* of) {
  void* memory = NULL;
  for (int i = 0; i < kCallsOfAThread; ++i) cudaMalloc(&memory, 64);
  return of;
}
static int allocating_threads(void) {
  pthread_t running;
  pthread_create(&running, NULL, allocations, NULL);
  const int status = threads(many_problems);
  pthread_join(running, NULL);
  return status;
}

/* Words that only change the handle or the memory. */
static int change(const char* word) {
  if (strcmp(word, "cudaMalloc") == 0) return allocate(), 1;
  if (strcmp(word, "cudaMalloc_in_capture") == 0) {
    int mode = 2;
    cuThreadExchangeStreamCaptureMode(&mode);
    allocate();
    cuThreadExchangeStreamCaptureMode(&mode);
    return 1;
  }
  if (strcmp(word, "scarce") == 0) return setenv("STAND_IN_FREE_MIB", "20", 1), 1;
  if (strcmp(word, "plenty") == 0) return setenv("STAND_IN_FREE_MIB", "900", 1), 1;
  if (strcmp(word, "own_workspace") == 0) return cublasSetWorkspace_v2(&handle, workspace, kWorkspace), 1;
  if (strcmp(word, "tiny_workspace") == 0) return cublasSetWorkspace_v2(&handle, workspace, 64), 1;
  if (strcmp(word, "stream") == 0) return cublasSetStream_v2(&handle, (void*)0x40), 1;
  if (strcmp(word, "captured_stream") == 0) return cublasSetStream_v2(&handle, STAND_IN_CAPTURED), 1;
  if (strncmp(word, "device:", 7) == 0) return stand_in_use_device(atoi(word + 7)), 1;
  if (strcmp(word, "destroy") == 0) return cublasDestroy_v2(&handle), 1;
  return 0;
}

static const char* computed_by(const char* word) {
  const long before = stand_in_calls() + stand_in_inner_calls();
  fill();
  const int status = call(word);
  const long passed = stand_in_calls() + stand_in_inner_calls() - before;
  if (status != 0) return "failed";
  if (strcmp(word, "leave") == 0) return "left";
  if (strcmp(word, "convolve") == 0) return "passed";
  if (strcmp(word, "threads") == 0 || strcmp(word, "two_devices") == 0 ||
      strcmp(word, "many_problems") == 0 || strcmp(word, "allocating_threads") == 0)
    return passed == 0 ? "served" : passed == kThreads * kCallsOfAThread ? "passed" : "mixed";
  if (passed == 1) return c[0] == 0x7fc0 || strcmp(word, "fp32") == 0 ? "passed" : "wrong";
  if (getenv("HOST_GPU_SKIP")) return "served";
  return passed == 0 && is_right(strcmp(word, "twice") == 0 ? 2 : 1) ? "served" : "wrong";
}

int main(int argc, char** argv) {
  fprintf(stdout, "workspace %p\n", (void*)workspace);
  for (int i = 1; i < argc; ++i) {
    if (change(argv[i])) continue;
    if (strcmp(argv[i], "fork") == 0) {
      fflush(stdout);
      const pid_t child = fork();
      if (child == 0) {
        printf("child %s\n", computed_by("gemm"));
        fflush(stdout);
        _exit(0);
      }
      waitpid(child, NULL, 0);
      continue;
    }
    printf("%s %s\n", argv[i], computed_by(argv[i]));
    fflush(stdout);
  }
  return 0;
}
