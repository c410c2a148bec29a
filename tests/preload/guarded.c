/* Computes one product per word of the command line on the stand-ins, and prints whether its result is right,
 * and how many calls reached the libraries. All elements of a result are equal: the sum of 1 at the first 64
 * and the last 8 positions of K. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in_blas.h"

enum { N = 0, T = 1, R32F = 0, R16F = 2, R16BF = 14, E4M3 = 28, F32 = 68 };
enum { M = 24, COLUMNS = 16, K = 4096, ITEMS = 3, BEFORE = 4, SUM = 72, kThreads = 8, kCalls = 50 };
enum { kWorkspace = 1 << 20 };

static struct stand_in_handle handle;
static char a[ITEMS * K * M * 4] __attribute__((aligned(256))),
    b[ITEMS * K * COLUMNS * 4] __attribute__((aligned(256))),
    c[ITEMS * M * COLUMNS * 4] __attribute__((aligned(256))), bias[M * 4] __attribute__((aligned(256))),
    workspace[kWorkspace];
static const float one = 1, zero = 0;

static void put(void* to, int type, long at, int value) {
  const float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  if (type == R32F) ((float*)to)[at] = number;
  if (type == R16F) ((_Float16*)to)[at] = (_Float16)number;
  if (type == R16BF) ((uint16_t*)to)[at] = (uint16_t)(bits >> 16);
  if (type == E4M3) ((uint8_t*)to)[at] = value ? 0x38 : 0;
}
static float number_at(int type, long at) {
  float value = 0;
  uint32_t bits;
  if (type == R32F) return ((const float*)c)[at];
  if (type == R16F) return (float)((const _Float16*)c)[at];
  bits = (uint32_t)((const uint16_t*)c)[at] << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Both operands have K in their lines. */
static void fill(int type, int type_c) {
  for (long i = 0; i < (long)ITEMS * M * K; ++i) put(a, type, i, 1);
  for (long i = 0; i < (long)ITEMS * COLUMNS * K; ++i) put(b, type, i, i % K < 64 || i % K >= K - 8);
  for (long i = 0; i < (long)ITEMS * M * COLUMNS; ++i) put(c, type_c, i, BEFORE);
  for (long i = 0; i < M; ++i) put(bias, type_c, i, 2);
}
static int is_right(int type_c, int items, int sum) {
  for (long i = 0; i < (long)items * M * COLUMNS; ++i)
    if (number_at(type_c, i) != (float)sum) return 0;
  return 1;
}

static int gemm(int type, int type_c, const float* beta) {
  return cublasGemmEx(&handle, T, N, M, COLUMNS, K, &one, a, type, K, b, type, K, beta, c, type_c, M, F32,
                      -1);
}
static struct stand_in_operation operation = {.compute = F32, .transa = T, .epilogue = 1};
static int matmul(uint32_t type, uint32_t type_c, const void* algorithm) {
  struct stand_in_matrix first = {type, 0, K, M, K, 1, 0}, second = {type, 0, K, COLUMNS, K, 1, 0};
  struct stand_in_matrix result = {type_c, 0, M, COLUMNS, M, 1, 0};
  return cublasLtMatmul(&handle, &operation, &one, a, &first, b, &second, &zero, c, &result, c, &result,
                        algorithm, workspace, sizeof workspace, handle.stream);
}

static void* many(void* of) {
  for (int i = 0; i < kCalls; ++i) gemm(R16BF, R16BF, &zero);
  return of;
}
static int threads(void) {
  pthread_t running[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&running[i], NULL, many, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(running[i], NULL);
  return 0;
}

struct expected {
  int type, type_c, items, sum;
};
static struct expected of_word(const char* word) {
  struct expected of = {R16BF, R16BF, 1, SUM};
  if (strstr(word, "fp16")) of.type = of.type_c = R16F;
  if (strstr(word, "fp8")) of.type = E4M3;
  if (strstr(word, "sgemm")) of.type = of.type_c = R32F;
  if (strstr(word, "fp32_result")) of.type_c = R32F;
  if (strstr(word, "batched")) of.items = ITEMS;
  if (strstr(word, "adds")) of.sum += BEFORE;
  if (strstr(word, "bias")) of.sum += 2;
  return of;
}

static int call(const char* word, const struct expected* of) {
  static const struct stand_in_algorithm own = {1, 0, {0}};
  const float* const beta = strstr(word, "adds") ? &one : &zero;
  int status;
  if (strcmp(word, "threads") == 0) return threads();
  if (strncmp(word, "gemm_64", 7) == 0)
    return cublasGemmEx_64(&handle, T, N, M, COLUMNS, K, &one, a, of->type, K, b, of->type, K, beta, c,
                           of->type_c, M, F32, -1);
  if (strncmp(word, "gemm", 4) == 0) return gemm(of->type, of->type_c, beta);
  if (strncmp(word, "batched_64", 10) == 0)
    return cublasGemmStridedBatchedEx_64(&handle, T, N, M, COLUMNS, K, &one, a, of->type, K, M * K, b,
                                         of->type, K, COLUMNS * K, beta, c, of->type_c, M, M * COLUMNS, ITEMS,
                                         F32, -1);
  if (strncmp(word, "batched", 7) == 0)
    return cublasGemmStridedBatchedEx(&handle, T, N, M, COLUMNS, K, &one, a, of->type, K, M * K, b, of->type,
                                      K, COLUMNS * K, beta, c, of->type_c, M, M * COLUMNS, ITEMS, F32, -1);
  handle.math_mode = 3; /* TF32 */
  if (strcmp(word, "sgemm_batched") == 0)
    return cublasSgemmStridedBatched(&handle, T, N, M, COLUMNS, K, &one, (float*)a, K, M * K, (float*)b, K,
                                     COLUMNS * K, beta, (float*)c, M, M * COLUMNS, ITEMS);
  if (strcmp(word, "sgemm") == 0)
    return cublasSgemm_v2(&handle, T, N, M, COLUMNS, K, &one, (float*)a, K, (float*)b, K, beta, (float*)c, M);
  handle.math_mode = 0;
  if (strncmp(word, "matmul", 6) != 0) {
    fprintf(stderr, "%s: unknown word\n", word);
    exit(9);
  }
  if (strstr(word, "bias")) operation.epilogue = 6, operation.bias = bias;
  if (strstr(word, "fp8")) operation.scale_a = &one;
  status = matmul((uint32_t)of->type, (uint32_t)of->type_c, strstr(word, "own") ? &own : NULL);
  operation.epilogue = 1;
  operation.bias = operation.scale_a = NULL;
  return status;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const struct expected of = of_word(argv[i]);
    long before;
    handle.stream = NULL;
    handle.stream = strstr(argv[i], "captured") ? STAND_IN_CAPTURED : NULL;
    handle.math_mode = 0;
    handle.pointer_mode = operation.pointer_mode = strstr(argv[i], "gpu_factors") != NULL;
    fill(of.type, of.type_c);
    before = stand_in_calls() + stand_in_inner_calls();
    if (call(argv[i], &of) != 0) return 8;
    printf("%s %s %ld\n", argv[i], is_right(of.type_c, of.items, of.sum) ? "right" : "wrong",
           stand_in_calls() + stand_in_inner_calls() - before);
    fflush(stdout);
  }
  return 0;
}
