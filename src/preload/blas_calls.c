/* Takes a program's products of a BLAS on the CPU. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>

#include "preload/taken.h"

/* Numbers of CBLAS. */
enum { kRowMajor = 101, kColumnMajor = 102, kNotTransposed = 111, kConjugated = 113 };

/* These functions return nothing, so a call without an original cannot fail: the program would go on with a
 * result that nobody computed. */
static void* existing(enum kscout_entry entry) {
  void* const function = original(entry);
  if (!function) abort();
  return function;
}

/* Whether the core computed the product. What is wrong or has nothing to compute is the original's matter. */
static int serve(const struct kscout_core* core, enum kscout_entry entry,
                 const struct kscout_blas_call* call) {
  return core && is_served(core, core->blas(entry, call));
}

/* The same memory, row by row, is column-major and transposed: C' = B' A'. */
#define CBLAS_SGEMM(name, integer)                                                                     \
  TAKEN void name(int order, int transa, int transb, integer m, integer n, integer k, float alpha,     \
                  const float* a, integer lda, const float* b, integer ldb, float beta, float* c,      \
                  integer ldc) {                                                                       \
    const struct kscout_core* const core = begin();                                                    \
    const int valid = transa >= kNotTransposed && transa <= kConjugated && transb >= kNotTransposed && \
                      transb <= kConjugated;                                                           \
    const int ta = transa != kNotTransposed, tb = transb != kNotTransposed;                            \
    const struct kscout_blas_call columns = {ta, tb, m, n, k, alpha, beta, a, b, c, lda, ldb, ldc};    \
    const struct kscout_blas_call rows = {tb, ta, n, m, k, alpha, beta, b, a, c, ldb, lda, ldc};       \
    const int known = valid && (order == kRowMajor || order == kColumnMajor);                          \
    if (!known || !serve(core, kscout_##name, order == kRowMajor ? &rows : &columns)) {                \
      ((void (*)(int, int, int, integer, integer, integer, float, const float*, integer, const float*, \
                 integer, float, float*, integer))existing(kscout_##name))(                            \
          order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                        \
    }                                                                                                  \
    end(0);                                                                                            \
  }
CBLAS_SGEMM(cblas_sgemm, int)
CBLAS_SGEMM(scipy_cblas_sgemm64_, int64_t)

/* 0, 1, or -1 for a letter that Fortran's BLAS does not know. */
static int is_transposed(const char* letter) {
  switch (*letter) {
    case 'N':
    case 'n':
      return 0;
    case 'T':
    case 't':
    case 'C':
    case 'c':
      return 1;
    default:
      return -1;
  }
}

/* Compilers of Fortran add the lengths of both letters. */
TAKEN void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                  const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                  const float* beta, float* c, const int* ldc) {
  const struct kscout_core* const core = begin();
  const int ta = is_transposed(transa), tb = is_transposed(transb);
  const struct kscout_blas_call call = {ta, tb, *m, *n, *k, *alpha, *beta, a, b, c, *lda, *ldb, *ldc};
  if (ta < 0 || tb < 0 || !serve(core, kscout_sgemm_, &call)) {
    ((void (*)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
               const int*, const float*, const int*, const float*, float*, const int*, size_t,
               size_t))existing(kscout_sgemm_))(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                                                1, 1);
  }
  end(0);
}
