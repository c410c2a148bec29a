/* Calls the libraries in one way each; built into a program, and as a library that a program opens with local
 * scope. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_calls.h"
#include "stand_in_blas.h"

enum { kThreads = 8, kCallsOfAThread = 1000 };
enum { N = 0, T = 1, R32F = 0, R16F = 2, R16BF = 14, C32F = 4, F32 = 68, F32_TF32 = 77 };

static struct stand_in_handle handle;
static float a[4096], b[4096], c[4096];
static const float one = 1, half = 0.5F, zero = 0;

static void fill(void) {
  for (int i = 0; i < 4096; ++i) {
    a[i] = (float)(i % 7) - 3;
    b[i] = (float)(i % 5) - 2;
    c[i] = (float)(i % 3);
  }
}

/* Everything that a result depends on. */
static double checksum(void) {
  double sum = 0;
  for (int i = 0; i < 4096; ++i) sum += (i % 11 + 1) * (double)c[i];
  return sum;
}

static int gemm(int transa, int transb, int m, int n, int k, int lda, int ldb, int ldc, int type, int compute,
                const float* beta) {
  return cublasGemmEx(&handle, transa, transb, m, n, k, &one, a, type, lda, b, type, ldb, beta, c, type, ldc,
                      compute, -1);
}

/* One product for each form in which a problem arrives. */
static int all(void) {
  int failed = 0;
  failed |= gemm(T, N, 5, 7, 3, 3, 3, 5, R16BF, F32, &zero);     /* rcr */
  failed |= gemm(N, N, 5, 7, 3, 5, 3, 5, R16F, F32, &zero);      /* rrr */
  failed |= gemm(N, T, 5, 7, 3, 5, 7, 5, R32F, F32, &zero);      /* crr */
  failed |= gemm(T, T, 5, 7, 3, 3, 7, 5, R32F, F32_TF32, &zero); /* ccr */
  failed |= gemm(T, N, 5, 7, 3, 4, 6, 8, R32F, F32, &half);      /* gaps, accumulates */
  failed |= gemm(T, N, 5, 7, 3, 3, 3, 5, C32F, F32, &zero);      /* complex */
  failed |= cublasGemmEx_64(&handle, T, N, 9, 7, 3, &one, a, R32F, 3, b, R32F, 3, &zero, c, R32F, 9, F32, -1);
  failed |= cublasGemmStridedBatchedEx(&handle, N, N, 4, 6, 8, &one, a, R32F, 4, 32, b, R32F, 8, 48, &zero, c,
                                       R32F, 4, 24, 3, F32, -1);
  failed |= cublasGemmStridedBatchedEx(&handle, N, N, 4, 6, 8, &one, a, R32F, 4, 0, b, R32F, 8, 48, &zero, c,
                                       R32F, 4, 24, 3, F32, -1); /* a shared operand */
  failed |= cublasSgemmStridedBatched(&handle, T, N, 4, 6, 8, &one, a, 8, 32, b, 8, 48, &zero, c, 4, 24, 2);
  failed |= cublasSgemm_v2(&handle, N, N, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2);
  failed |= cublasSgemm_v2(&handle, N, N, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2);
  handle.math_mode = 3 | 16; /* TF32 */
  failed |= cublasSgemm_v2(&handle, N, N, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2);
  handle.math_mode = 0;
  handle.pointer_mode = 1;
  failed |= cublasSgemm_v2(&handle, N, N, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2);
  handle.pointer_mode = 0;
  failed |= cublasSetWorkspace_v2(&handle, c, sizeof c);
  return failed;
}

static int matmul(void) {
  struct stand_in_operation operation = {.compute = F32, .transa = T, .epilogue = 36};
  struct stand_in_matrix first = {R16BF, 0, 64, 32, 64, 1, 0}, second = {R16BF, 0, 64, 16, 64, 1, 0};
  struct stand_in_matrix result = {R16BF, 0, 32, 16, 40, 1, 0};
  int found = 0, failed = 0;
  failed |= cublasLtMatmulAlgoGetHeuristic(NULL, &operation, &first, &second, &result, &result, NULL, 3, NULL,
                                           &found);
  failed |= found != 3;
  for (int i = 0; i < 2; ++i)
    failed |= cublasLtMatmul(NULL, &operation, &one, a, &first, b, &second, &zero, c, &result, c, &result,
                             NULL, NULL, 0, NULL);
  operation.epilogue = 164; /* gelu with an auxiliary output */
  failed |= cublasLtMatmul(NULL, &operation, &one, a, &first, b, &second, &zero, c, &result, c, &result, NULL,
                           NULL, 0, NULL);
  operation.epilogue = 1;
  first.order = 1;
  failed |= cublasLtMatmul(NULL, &operation, &one, a, &first, b, &second, &zero, c, &result, c, &result, NULL,
                           NULL, 0, NULL);
  failed |= cublasLtMatmul(NULL, &operation, &one, a, &first, b, &second, &zero, c, &result, c, &result, NULL,
                           NULL, 13, NULL) != 13;
  failed |= cudnnBackendExecute(NULL, NULL, NULL) != 2002;
  return failed;
}

/* Plans of cuDNN, each once, but the first one twice. */
#define NHWC_PLAN(type, strides_in, nodes)                                                                \
  STAND_IN_PLAN(STAND_IN_TENSOR("1", type, "8,64,56,56", strides_in) "," STAND_IN_TENSOR(                 \
                    "2", type, "128,32,3,3", "288,1,96,32") "," STAND_IN_TENSOR("3", type, "8,128,56,56", \
                                                                                "401408,1,7168,128"),     \
                nodes)
#define FORWARD(stride)                                                                             \
  STAND_IN_CONVOLUTION("FORWARD",                                                                   \
                       "\"pad\":[2,1],\"stride\":[" stride "],\"dilation\":[2,1],\"groupCount\":2", \
                       "\"X\":\"1\",\"W\":\"2\",\"Y\":\"3\"")
#define DENSE "200704,1,3584,64"

/* Two calls of a plan that is known to be wrong, of another one of its problem, and one of a plan that is
 * not. */
static int convolve_wrong(void) {
  enum { kEngine = 58, kWorkspace = 1 };
  static const char kPlan[] = STAND_IN_PLAN(
      STAND_IN_TENSOR("1", "HALF", "2,12,4,4", "192,1,48,12") "," STAND_IN_TENSOR(
          "2", "HALF", "16,12,1,1", "12,1,12,12") "," STAND_IN_TENSOR("3", "HALF", "2,16,4,4", "256,1,64,16"),
      STAND_IN_CONVOLUTION("FORWARD", "\"pad\":[0,0],\"stride\":[1,1],\"dilation\":[1,1]",
                           "\"X\":\"1\",\"W\":\"2\",\"Y\":\"3\""));
  static struct stand_in_plan plans[] = {
      {kPlan, 0, kEngine, kWorkspace}, {kPlan, 0, kEngine, kWorkspace}, {kPlan, 0, kEngine, 0}};
  int failed = cudnnBackendExecute(&handle, &plans[0], NULL);
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; ++i)
    failed |= cudnnBackendExecute(&handle, &plans[i], NULL);
  return failed;
}

static int convolve(void) {
  static struct stand_in_plan plans[] = {
      {.json = NHWC_PLAN("BFLOAT16", DENSE, FORWARD("1,1"))},
      {.json = STAND_IN_PLAN(
           STAND_IN_TENSOR("w", "FLOAT", "16,4,3,3", "36,9,3,1") "," STAND_IN_TENSOR(
               "x", "FLOAT", "2,4,8,8", "256,64,8,1") "," STAND_IN_TENSOR("y", "FLOAT", "2,16,4,4",
                                                                          "256,16,4,1"),
           STAND_IN_CONVOLUTION("BACKWARD_DATA", "\"pad\":[1,1],\"stride\":[2,2],\"dilation\":[1,1]",
                                "\"dX\":\"x\",\"W\":\"w\",\"dY\":\"y\"")),
       .converts_inputs = 1},
      {.json = STAND_IN_PLAN(
           STAND_IN_TENSOR("w", "HALF", "6,1,1,3,3", "9,1,9,3,1") "," STAND_IN_TENSOR(
               "x", "HALF", "2,6,1,8,8", "384,1,384,48,6") "," STAND_IN_TENSOR("y", "HALF", "2,6,1,8,8",
                                                                               "384,1,384,48,6"),
           STAND_IN_CONVOLUTION("BACKWARD_FILTER",
                                "\"pad\":[0,1,1],\"stride\":[1,1,1],\"dilation\":[1,1,1],\"groupCount\":6",
                                "\"X\":\"x\",\"dW\":\"w\",\"dY\":\"y\""))},
      {.json = NHWC_PLAN("BFLOAT16", DENSE, FORWARD("1,1") ",{\"operation\":\"a pointwise one\"}")},
      {.json = NHWC_PLAN("BFLOAT16", "401408,1,7168,128", FORWARD("1,1"))}, /* gaps */
      {.json = NHWC_PLAN("BFLOAT16", DENSE, FORWARD("2,2"))},               /* another output */
      {.json = NHWC_PLAN("INT8", DENSE, FORWARD("1,1"))},
      {.json = "no JSON"},
      {.json = NULL},
  };
  int failed = 0;
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; ++i)
    failed |= cudnnBackendExecute(&handle, &plans[i], NULL);
  failed |= cudnnBackendExecute(&handle, &plans[0], NULL);
  /* Another plan at the address of a destroyed one. */
  failed |= cudnnBackendDestroyDescriptor(&plans[0]);
  plans[0] = plans[2];
  failed |= cudnnBackendExecute(&handle, &plans[0], NULL);
  return failed;
}

static void* many(void* of) {
  const long thread = (long)of;
  static _Thread_local float own[4];
  for (int i = 0; i < kCallsOfAThread; ++i) {
    cublasSgemm_v2(&handle, N, N, 1, 1, 1 + (int)thread % 4, &one, a, 1, b, 4, &zero, own, 1);
  }
  return NULL;
}

static int threads(void) {
  pthread_t started[kThreads];
  for (long i = 0; i < kThreads; ++i) pthread_create(&started[i], NULL, many, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(started[i], NULL);
  return 0;
}

/* The parent computes 1 product, the child 2 others, and a thread goes on meanwhile. */
static int forks(void) {
  int status = 0;
  pthread_t beside;
  cublasSgemm_v2(&handle, N, N, 1, 1, 9, &one, a, 1, b, 9, &zero, c, 1);
  pthread_create(&beside, NULL, many, (void*)0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (int j = 0; j < 2; ++j) cublasSgemm_v2(&handle, N, N, 1, 1, 11, &one, a, 1, b, 11, &zero, c, 1);
      _exit(7);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
  }
  pthread_join(beside, NULL);
  return 0;
}

/* A child that shares this process's memory, and ends. */
static int vforks(void) {
  int status = 0;
  cublasSgemm_v2(&handle, N, N, 1, 1, 9, &one, a, 1, b, 9, &zero, c, 1);
  const pid_t child = vfork();
  if (child == 0) _exit(7);
  waitpid(child, &status, 0);
  cublasSgemm_v2(&handle, N, N, 1, 1, 9, &one, a, 1, b, 9, &zero, c, 1);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 7;
}

int run_calls(int argc, char** argv) {
  int failed = 0, end = 0;
  fill();
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "all") == 0) failed |= all();
    if (strcmp(argv[i], "matmul") == 0) failed |= matmul();
    if (strcmp(argv[i], "convolve") == 0) failed |= convolve();
    if (strcmp(argv[i], "convolve_wrong") == 0) failed |= convolve_wrong();
    if (strcmp(argv[i], "threads") == 0) failed |= threads();
    if (strcmp(argv[i], "fork") == 0) failed |= forks();
    if (strcmp(argv[i], "vfork") == 0) failed |= vforks();
    if (strcmp(argv[i], "chdir") == 0) failed |= chdir("/");
    if (strcmp(argv[i], "close") == 0) closefrom(3);
    if (strcmp(argv[i], "exit") == 0) end = 1;
    if (strcmp(argv[i], "_exit") == 0) end = 2;
    if (strcmp(argv[i], "_Exit") == 0) end = 3;
    if (strcmp(argv[i], "quick_exit") == 0) end = 4;
    if (strcmp(argv[i], "kill") == 0) end = 5;
  }
  printf("%s, checksum %.3f, library calls %ld, inner calls %ld, pid %d\n", failed ? "failed" : "done",
         checksum(), stand_in_calls(), stand_in_inner_calls(), (int)getpid());
  fflush(stdout);
  if (end == 1) exit(31);
  if (end == 2) _exit(32);
  if (end == 3) _Exit(33);
  if (end == 4) quick_exit(34);
  if (end == 5) raise(SIGKILL);
  return failed;
}
