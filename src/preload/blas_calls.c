/* Takes a program's products of a BLAS on the CPU. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>

#include "preload/taken.h"

/* Numbers of CBLAS. */
enum { kRowMajor = 101, kColumnMajor = 102, kNotTransposed = 111, kConjugated = 113 };

/* These functions return nothing, so a call without an original cannot fail: the program would go on with a
 * result that nobody computed. */
static const struct blas_original* existing(enum kscout_entry entry, const void* caller) {
  const struct blas_original* const original = blas_original(entry, caller);
  if (!original->function) abort();
  return original;
}

/* Whether the core computed the product. What is wrong or has nothing to compute is the original's matter. */
static int serve(const struct kscout_core* core, enum kscout_entry entry,
                 const struct kscout_blas_call* call) {
  return is_served(core, core->blas(entry, call));
}

/* An integer of an argument that has as many bits as the original reads. The caller sets no more of them. */
static int64_t whole(int64_t argument, const struct blas_original* original) {
  return original->integer_bits == 32 ? (int32_t)argument : argument;
}
static int64_t whole_at(const void* argument, const struct blas_original* original) {
  return original->integer_bits == 32   ? *(const int32_t*)argument
         : original->integer_bits == 64 ? *(const int64_t*)argument
                                        : 0;
}
static const struct kscout_openmp* openmp_of(const struct blas_original* original) {
  return original->openmp.parallel ? &original->openmp : NULL;
}

/* 0, 1, or -1 for a number that CBLAS does not know. */
static int is_transposed_number(int number) {
  return number < kNotTransposed || number > kConjugated ? -1 : number != kNotTransposed;
}

/* The same memory, row by row, is column-major and transposed: C' = B' A'. Integers have 64 bits here, for
 * each library: a register or a place on the stack has no fewer. */
#define CBLAS_SGEMM(name)                                                                                 \
  TAKEN void name(int order, int transa, int transb, int64_t m, int64_t n, int64_t k, float alpha,        \
                  const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,         \
                  int64_t ldc) {                                                                          \
    const struct kscout_core* const core = begin();                                                       \
    const struct blas_original* const to = existing(kscout_##name, __builtin_return_address(0));          \
    int served = 0;                                                                                       \
    if (core) {                                                                                           \
      const int known = order == kRowMajor || order == kColumnMajor;                                      \
      const int ta = known ? is_transposed_number(transa) : -1, tb = is_transposed_number(transb);        \
      const int64_t rows = whole(m, to), columns = whole(n, to);                                          \
      struct kscout_blas_call call = {ta,                                                                 \
                                      tb,                                                                 \
                                      rows,                                                               \
                                      columns,                                                            \
                                      whole(k, to),                                                       \
                                      alpha,                                                              \
                                      beta,                                                               \
                                      a,                                                                  \
                                      b,                                                                  \
                                      c,                                                                  \
                                      whole(lda, to),                                                     \
                                      whole(ldb, to),                                                     \
                                      whole(ldc, to),                                                     \
                                      to->integer_bits,                                                   \
                                      to->library,                                                        \
                                      to->threads,                                                        \
                                      openmp_of(to),                                                      \
                                      lost_threads()};                                                    \
      if (order == kRowMajor) {                                                                           \
        call.transa = tb, call.transb = ta;                                                               \
        call.m = columns, call.n = rows;                                                                  \
        call.a = b, call.b = a;                                                                           \
        call.lda = whole(ldb, to), call.ldb = whole(lda, to);                                             \
      }                                                                                                   \
      served = serve(core, kscout_##name, &call);                                                         \
    }                                                                                                     \
    if (!served) {                                                                                        \
      ((void (*)(int, int, int, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,    \
                 int64_t, float, float*, int64_t))to->function)(order, transa, transb, m, n, k, alpha, a, \
                                                                lda, b, ldb, beta, c, ldc);               \
    }                                                                                                     \
    end(0);                                                                                               \
  }
CBLAS_SGEMM(cblas_sgemm)
CBLAS_SGEMM(scipy_cblas_sgemm64_)

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

/* Compilers of Fortran add the lengths of both letters. `m` to `ldc` are integers of 32 or 64 bits. */
TAKEN void sgemm_(const char* transa, const char* transb, const void* m, const void* n, const void* k,
                  const float* alpha, const float* a, const void* lda, const float* b, const void* ldb,
                  const float* beta, float* c, const void* ldc) {
  const struct kscout_core* const core = begin();
  const struct blas_original* const to = existing(kscout_sgemm_, __builtin_return_address(0));
  int served = 0;
  if (core) {
    const struct kscout_blas_call call = {is_transposed(transa),
                                          is_transposed(transb),
                                          whole_at(m, to),
                                          whole_at(n, to),
                                          whole_at(k, to),
                                          *alpha,
                                          *beta,
                                          a,
                                          b,
                                          c,
                                          whole_at(lda, to),
                                          whole_at(ldb, to),
                                          whole_at(ldc, to),
                                          to->integer_bits,
                                          to->library,
                                          to->threads,
                                          openmp_of(to),
                                          lost_threads()};
    served = serve(core, kscout_sgemm_, &call);
  }
  if (!served) {
    ((void (*)(const char*, const char*, const void*, const void*, const void*, const float*, const float*,
               const void*, const float*, const void*, const float*, float*, const void*, size_t,
               size_t))to->function)(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, 1, 1);
  }
  end(0);
}
