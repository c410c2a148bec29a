/* A cuBLAS that computes fp32 in the host's memory, and calls its cuBLASLt as the real one does. */
#include <stdlib.h>

#include "stand_in_blas.h"

int cublasGetPointerMode_v2(const struct stand_in_handle* handle, int* mode) {
  *mode = handle->pointer_mode;
  return 0;
}
int cublasGetMathMode(const struct stand_in_handle* handle, int* mode) {
  *mode = handle->math_mode;
  return 0;
}

int cublasGetStream_v2(const struct stand_in_handle* handle, void** stream) {
  *stream = handle->stream;
  return 0;
}
int cublasSetStream_v2(void* handle, void* stream) {
  ((struct stand_in_handle*)handle)->stream = stream;
  return 0;
}
int cublasGetSmCountTarget(const struct stand_in_handle* handle, int* multiprocessors) {
  *multiprocessors = handle->multiprocessors;
  return 0;
}
int cublasDestroy_v2(void* handle) {
  (void)handle;
  return 0;
}

static void compute(int transa, int transb, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                    int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a[transa ? l + i * lda : i + l * lda] * b[transb ? j + l * ldb : l + j * ldb];
      c[i + j * ldc] = alpha * sum + (beta != 0 ? beta * c[i + j * ldc] : 0);
    }
  }
}

/* Other types than fp32 are computed by stand_in_compute() only. */
static int product(const struct stand_in_handle* handle, int transa, int transb, int64_t m, int64_t n,
                   int64_t k, const void* alpha, const void* a, int type_a, int64_t lda, long long stride_a,
                   const void* b, int type_b, int64_t ldb, long long stride_b, const void* beta, void* c,
                   int type_c, int64_t ldc, long long stride_c, int64_t batch) {
  cublasLtMatmul((void*)handle, NULL, alpha, a, NULL, b, NULL, beta, c, NULL, c, NULL, NULL, NULL, 0, NULL);
  const int is_plain = type_a == 0 && !getenv("STAND_IN_FAULT");
  for (int64_t i = 0; is_plain && i < batch; ++i) {
    compute(transa, transb, m, n, k, *(const float*)alpha, (const float*)a + i * stride_a, lda,
            (const float*)b + i * stride_b, ldb, *(const float*)beta, (float*)c + i * stride_c, ldc);
  }
  if (!is_plain) {
    const struct stand_in_product all = {transa,
                                         transb,
                                         m,
                                         n,
                                         k,
                                         batch,
                                         type_a,
                                         type_b,
                                         type_c,
                                         a,
                                         b,
                                         c,
                                         lda,
                                         ldb,
                                         ldc,
                                         stride_a,
                                         stride_b,
                                         stride_c,
                                         *(const float*)alpha,
                                         *(const float*)beta,
                                         NULL,
                                         0};
    stand_in_compute(&all, 1, 0);
  }
  return 0;
}

int cublasGemmEx(void* handle, int transa, int transb, int m, int n, int k, const void* alpha, const void* a,
                 int type_a, int lda, const void* b, int type_b, int ldb, const void* beta, void* c,
                 int type_c, int ldc, int compute_type, int algorithm) {
  (void)compute_type, (void)algorithm;
  return product(handle, transa, transb, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                 type_c, ldc, 0, 1);
}
int cublasGemmEx_64(void* handle, int transa, int transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                    const void* a, int type_a, int64_t lda, const void* b, int type_b, int64_t ldb,
                    const void* beta, void* c, int type_c, int64_t ldc, int compute_type, int algorithm) {
  (void)compute_type, (void)algorithm;
  return product(handle, transa, transb, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                 type_c, ldc, 0, 1);
}
int cublasGemmStridedBatchedEx(void* handle, int transa, int transb, int m, int n, int k, const void* alpha,
                               const void* a, int type_a, int lda, long long stride_a, const void* b,
                               int type_b, int ldb, long long stride_b, const void* beta, void* c, int type_c,
                               int ldc, long long stride_c, int batch, int compute_type, int algorithm) {
  (void)compute_type, (void)algorithm;
  return product(handle, transa, transb, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b,
                 beta, c, type_c, ldc, stride_c, batch);
}
int cublasGemmStridedBatchedEx_64(void* handle, int transa, int transb, int64_t m, int64_t n, int64_t k,
                                  const void* alpha, const void* a, int type_a, int64_t lda,
                                  long long stride_a, const void* b, int type_b, int64_t ldb,
                                  long long stride_b, const void* beta, void* c, int type_c, int64_t ldc,
                                  long long stride_c, int64_t batch, int compute_type, int algorithm) {
  (void)compute_type, (void)algorithm;
  return product(handle, transa, transb, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b,
                 beta, c, type_c, ldc, stride_c, batch);
}
int cublasSgemm_v2(void* handle, int transa, int transb, int m, int n, int k, const float* alpha,
                   const float* a, int lda, const float* b, int ldb, const float* beta, float* c, int ldc) {
  return product(handle, transa, transb, m, n, k, alpha, a, 0, lda, 0, b, 0, ldb, 0, beta, c, 0, ldc, 0, 1);
}
int cublasSgemmStridedBatched(void* handle, int transa, int transb, int m, int n, int k, const float* alpha,
                              const float* a, int lda, long long stride_a, const float* b, int ldb,
                              long long stride_b, const float* beta, float* c, int ldc, long long stride_c,
                              int batch) {
  return product(handle, transa, transb, m, n, k, alpha, a, 0, lda, stride_a, b, 0, ldb, stride_b, beta, c, 0,
                 ldc, stride_c, batch);
}
int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
  (void)handle, (void)workspace, (void)bytes;
  return 0;
}
