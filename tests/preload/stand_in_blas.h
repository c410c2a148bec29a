/* What the test programs and the stand-ins for cuBLAS, cuBLASLt and cuDNN share: descriptors, and the calls
 * that arrived. A handle is a stand_in_handle; all memory is the host's. Signatures are those of the
 * libraries. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The stream that is being captured. */
#define STAND_IN_CAPTURED ((void*)0x50)

struct stand_in_handle {
  int pointer_mode, math_mode;
  void* stream;
  int multiprocessors;
};
struct stand_in_operation {
  int32_t compute, scale_type, pointer_mode, transa, transb;
  uint32_t epilogue;
  const void *bias, *scale_a;
  int32_t multiprocessors;
};
struct stand_in_matrix {
  uint32_t type;
  int32_t order;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch;
  int64_t stride;
};

/* cublasLtMatmulAlgo_t: the number of an algorithm, and whether K is in one piece. */
struct stand_in_algorithm {
  uint64_t number, is_whole, reserved[6];
};
/* cublasLtMatmulHeuristicResult_t */
struct stand_in_suggestion {
  struct stand_in_algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

/* One product, whichever function computes it. */
struct stand_in_product {
  int transa, transb;
  int64_t m, n, k, batch;
  int type_a, type_b, type_c;
  const void *a, *b;
  void* c;
  int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
  float alpha, beta;
  const void* bias;
  int relu;
};
void stand_in_compute(const struct stand_in_product* product, int algorithm, int is_whole);

/* A plan of cuDNN: its JSON as the library writes it (null: it refuses), whether its engine converts inputs,
 * the engine's number, and its one knob, the workspace. */
struct stand_in_plan {
  const char* json;
  int converts_inputs;
  int64_t engine, workspace;
};
/* Parts of that JSON: a tensor, and a plan of tensors and operation nodes. */
#define STAND_IN_TENSOR(name, type, sizes, strides)                                                      \
  "{\"name\":\"" name "\",\"dataType\":\"CUDNN_DATA_" type "\",\"dim\":[" sizes "],\"stride\":[" strides \
  "]"                                                                                                    \
  "}"
#define STAND_IN_PLAN(tensors, nodes) \
  "{\"cudnnVersion\":91900,\"operationGraph\":{\"tensors\":[" tensors "],\"nodes\":[" nodes "]}}"
#define STAND_IN_CONVOLUTION(direction, attributes, tensors)                                             \
  "{\"operation\":\"CUDNN_BACKEND_OPERATION_CONVOLUTION_" direction                                      \
  "_DESCRIPTOR\",\"mode\":"                                                                              \
  "\"CUDNN_CROSS_CORRELATION\",\"mathPrec\":\"CUDNN_DATA_FLOAT\",\"alpha\":1.0,\"beta\":0.0," attributes \
  "," tensors "}"

/* Calls that reached the libraries, of all kinds but the heuristic's. */
long stand_in_calls(void);
/* Calls of cublasLtMatmul that came with a handle of cuBLAS: the library's own. */
long stand_in_inner_calls(void);

int cublasGemmEx(void* handle, int transa, int transb, int m, int n, int k, const void* alpha, const void* a,
                 int type_a, int lda, const void* b, int type_b, int ldb, const void* beta, void* c,
                 int type_c, int ldc, int compute, int algorithm);
int cublasGemmEx_64(void* handle, int transa, int transb, int64_t m, int64_t n, int64_t k, const void* alpha,
                    const void* a, int type_a, int64_t lda, const void* b, int type_b, int64_t ldb,
                    const void* beta, void* c, int type_c, int64_t ldc, int compute, int algorithm);
int cublasGemmStridedBatchedEx(void* handle, int transa, int transb, int m, int n, int k, const void* alpha,
                               const void* a, int type_a, int lda, long long stride_a, const void* b,
                               int type_b, int ldb, long long stride_b, const void* beta, void* c, int type_c,
                               int ldc, long long stride_c, int batch, int compute, int algorithm);
int cublasSgemm_v2(void* handle, int transa, int transb, int m, int n, int k, const float* alpha,
                   const float* a, int lda, const float* b, int ldb, const float* beta, float* c, int ldc);
int cublasSgemmStridedBatched(void* handle, int transa, int transb, int m, int n, int k, const float* alpha,
                              const float* a, int lda, long long stride_a, const float* b, int ldb,
                              long long stride_b, const float* beta, float* c, int ldc, long long stride_c,
                              int batch);
int cublasGemmStridedBatchedEx_64(void* handle, int transa, int transb, int64_t m, int64_t n, int64_t k,
                                  const void* alpha, const void* a, int type_a, int64_t lda,
                                  long long stride_a, const void* b, int type_b, int64_t ldb,
                                  long long stride_b, const void* beta, void* c, int type_c, int64_t ldc,
                                  long long stride_c, int64_t batch, int compute, int algorithm);
int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes);
int cublasSetStream_v2(void* handle, void* stream);
int cublasDestroy_v2(void* handle);
int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* layout_a,
                   const void* b, void* layout_b, const void* beta, const void* c, void* layout_c, void* d,
                   void* layout_d, const void* algorithm, void* workspace, size_t workspace_bytes,
                   void* stream);
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d,
                                   void* preference, int requested, void* results, int* found);
/* Of the runtime and the driver. */
int cudaMalloc(void** memory, size_t bytes);
int cudaGetLastError(void);
int stand_in_mallocs(void);
int cuThreadExchangeStreamCaptureMode(int* mode);
/* Makes a GPU the current one of this thread; at first it is 0. */
void stand_in_use_device(int device);
int cudnnBackendExecute(void* handle, void* plan, void* pack);
int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, int64_t count, const void* values);
/* Plans that reached the library. */
long stand_in_executions(void);
int cudnnBackendDestroyDescriptor(void* descriptor);
