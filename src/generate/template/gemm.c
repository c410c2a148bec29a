/* A kernel library: one function computes every config of @NAME@.kscout-family.toml. */
#include <kscout/kernel_library.h>

enum { tile_m, tile_n, outer }; /* the axes, in the order of the family */

static int32_t workspace_bytes(const kscout_kernel* self, const kscout_kernel_shape* s, uint64_t* bytes,
                               kscout_kernel_message message) {
  (void)self, (void)s, (void)message;
  *bytes = 0;
  return KSCOUT_KERNEL_OK;
}

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

static int32_t run(const kscout_kernel* self, const kscout_kernel_shape* s, const kscout_kernel_call* call,
                   kscout_kernel_message message) {
  (void)self, (void)message;
  const int64_t m = s->axes[tile_m], n = s->axes[tile_n];
  const int64_t rows = (s->m + m - 1) / m, columns = (s->n + n - 1) / n,
                inside = s->axes[outer] ? rows : columns;
  for (int64_t tile = 0; tile < s->batch * rows * columns; ++tile) {
    const int64_t one = tile / (rows * columns), at = tile % (rows * columns) / inside, next = tile % inside;
    const int64_t row = m * (s->axes[outer] ? next : at), column = n * (s->axes[outer] ? at : next);
    const float* a =
        (const float*)call->a + one * s->stride_a; /* layout rcr: rows of A, columns of B, rows of C */
    const float* b = (const float*)call->b + one * s->stride_b;
    float* c = (float*)call->c + one * s->stride_c;
    for (int64_t i = row; i < min(row + m, s->m); ++i)
      for (int64_t j = column; j < min(column + n, s->n); ++j) {
        double sum = 0;
        for (int64_t k = 0; k < s->k; ++k) sum += (double)a[i * s->lda + k] * b[j * s->ldb + k];
        c[i * s->ldc + j] = (float)((call->alpha != 0 ? call->alpha * sum : 0) +
                                    (call->beta != 0 ? call->beta * c[i * s->ldc + j] : 0));
      }
  }
  return KSCOUT_KERNEL_OK;
}

/* A kernel's name is how the names of its configs begin: "@NAME@_gemm_fp32_rcr__tile_m4_tile_n16_outerrows".
 */
static const kscout_kernel kernels[] = {{"@NAME@_gemm_fp32_rcr", workspace_bytes, run, 0}};
static const kscout_kernel_library library = {KSCOUT_KERNEL_ABI, sizeof library, "cpu", 0, 1,
                                              sizeof *kernels,   kernels};
const kscout_kernel_library* kscout_kernel_library_get(void) { return &library; }
