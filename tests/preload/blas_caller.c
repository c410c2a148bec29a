/* A library that calls a BLAS of its own; CALLER_64: one whose integers have 64 bits. */
#include <stdint.h>

#ifdef CALLER_64
typedef int64_t integer;
#else
typedef int integer;
#endif
void cblas_sgemm(int order, int transa, int transb, integer m, integer n, integer k, float alpha,
                 const float* a, integer lda, const float* b, integer ldb, float beta, float* c, integer ldc);
int stand_in_calls(void);

/* C(n,n) = A B^T, in rows with gaps. Returns how many calls its BLAS has seen. */
int multiply(int64_t n, const float* a, const float* b, int64_t gap, float* c) {
  const integer size = (integer)n, leading = (integer)(n + gap);
  cblas_sgemm(101, 111, 112, size, size, size, 1, a, leading, b, leading, 0, c, size);
  return stand_in_calls();
}
