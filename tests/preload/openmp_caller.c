/* A library with parallel loops that calls a BLAS, as PyTorch's does. */
#include <dirent.h>
#include <omp.h>
#include <stdlib.h>

enum { kSize = 256 };
void cblas_sgemm(int order, int transa, int transb, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc);

static int threads_of_process(void) {
  int count = -2; /* the folder's two entries for itself and its parent */
  DIR* const folder = opendir("/proc/self/task");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

/* Whether C = A B is right, where each element of A is 1 and each of B is `value`. Odd values transpose A. */
static int is_right(float value) {
  float* const memory = malloc(3 * kSize * kSize * sizeof(float));
  float *const a = memory, *const b = a + kSize * kSize, *const c = b + kSize * kSize;
  int right = 1;
  for (int i = 0; i < kSize * kSize; ++i) a[i] = 1, b[i] = value, c[i] = -1;
  cblas_sgemm(101, (int)value % 2 ? 112 : 111, 111, kSize, kSize, kSize, 1, a, kSize, b, kSize, 0, c, kSize);
  for (int i = 0; i < kSize * kSize; ++i) right &= c[i] == (float)kSize * value;
  free(memory);
  return right;
}

/* Multiplies outside of parallel regions, which have `threads` threads here. */
int multiply_on(int threads) {
  omp_set_num_threads(threads);
  return is_right(2);
}

/* Multiplies outside and inside of parallel regions of `threads` threads. Returns how many threads the
 * process has more than the region, or -1 for a wrong product. */
int multiply_in_team(int threads) {
  int right = 1, before = 0;
  omp_set_num_threads(threads);
#pragma omp parallel reduction(& : right)
  {
#pragma omp barrier
#pragma omp single
    before = threads_of_process();
    right = 1;
  }
  for (int i = 1; i <= 5; ++i) right &= is_right((float)i);
#pragma omp parallel reduction(& : right)
  right = is_right(1 + (float)omp_get_thread_num());
  omp_set_num_threads(1);
  for (int i = 1; i <= 5; ++i) right &= is_right((float)i);
  return right ? threads_of_process() - before : -1;
}
