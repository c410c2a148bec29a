/* Stands in for a BLAS on the CPU, with sums in double. As in Netlib's libraries, cblas_sgemm calls sgemm_.
 * STAND_IN_SLEEP_US: a product takes that much longer. STAND_IN_PLAIN: it has no saxpy_. STAND_IN_64: its
 * integers have 64 bits. STAND_IN_THREADS: the function that says how many threads it may use. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef STAND_IN_64
typedef int64_t integer;
#else
typedef int integer;
#endif

#ifndef STAND_IN_THREADS
#define STAND_IN_THREADS openblas_get_num_threads
#endif
static int calls, threads = 1024;

/* What OpenBLAS says about itself. */
const char* openblas_get_config(void) { return "OpenBLAS 0.3.99 STAND_IN MAX_THREADS=1024"; }
const char* openblas_get_corename(void) { return "StandIn"; }
/* The products that arrived, also those that the library asks of itself. */
int stand_in_calls(void) { return calls; }
/* How many threads the library may use. */
void stand_in_threads(int most) { threads = most; }
int STAND_IN_THREADS(void) { return threads; }

static float at(const float* matrix, integer leading, int transposed, integer row, integer column) {
  return transposed ? matrix[(size_t)row * (size_t)leading + (size_t)column]
                    : matrix[(size_t)column * (size_t)leading + (size_t)row];
}

void sgemm_(const char* transa, const char* transb, const integer* m, const integer* n, const integer* k,
            const float* alpha, const float* a, const integer* lda, const float* b, const integer* ldb,
            const float* beta, float* c, const integer* ldc, size_t length_a, size_t length_b) {
  if (length_a != 1 || length_b != 1) abort();
  const char* const sleep_us = getenv("STAND_IN_SLEEP_US");
  ++calls;
  if (sleep_us) usleep((useconds_t)atoi(sleep_us));
  for (integer j = 0; j < *n; ++j) {
    for (integer i = 0; i < *m; ++i) {
      float* const to = &c[(size_t)j * (size_t)*ldc + (size_t)i];
      double sum = 0;
      for (integer l = 0; l < *k && *alpha != 0; ++l)
        sum += (double)at(a, *lda, *transa != 'N', i, l) * (double)at(b, *ldb, *transb != 'N', l, j);
      *to = (float)((double)*alpha * sum + (*beta != 0 ? (double)*beta * (double)*to : 0));
    }
  }
}

void cblas_sgemm(int order, int transa, int transb, integer m, integer n, integer k, float alpha,
                 const float* a, integer lda, const float* b, integer ldb, float beta, float* c,
                 integer ldc) {
  const char *const ta = transa == 111 ? "N" : "T", *const tb = transb == 111 ? "N" : "T";
  if (order == 101) {
    sgemm_(tb, ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc, 1, 1);
  } else {
    sgemm_(ta, tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
  }
}

#ifndef STAND_IN_PLAIN
void saxpy_(const integer* n, const float* alpha, const float* x, const integer* incx, float* y,
            const integer* incy) {
  for (integer i = 0; i < *n; ++i) y[i * *incy] += *alpha * x[i * *incx];
}
void cblas_saxpy(integer n, float alpha, const float* x, integer incx, float* y, integer incy) {
  saxpy_(&n, &alpha, x, &incx, y, &incy);
}
#endif
