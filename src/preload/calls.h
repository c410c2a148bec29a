#pragma once
/// \file
/// Defines the interface between libkscout_preload.so, which takes calls, and libkscout_preload_core.so,
/// which reads, counts and serves them. Plain C: the first is a C library.
///
/// Numbers of types, modes and operations are those of the CUDA libraries (cuBLAS and cuBLASLt API
/// reference). Functions of a BLAS on the CPU come from any library: each has its own name.
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Stands for all libraries that the program has loaded.
#define KSCOUT_ANY_LIBRARY ""

/// The functions that libkscout_preload.so takes: X(name, library, status where the original is missing).
#define KSCOUT_TAKEN(X)                                \
  X(cublasGemmEx, "libcublas", 15)                     \
  X(cublasGemmEx_64, "libcublas", 15)                  \
  X(cublasGemmStridedBatchedEx, "libcublas", 15)       \
  X(cublasGemmStridedBatchedEx_64, "libcublas", 15)    \
  X(cublasSgemm_v2, "libcublas", 15)                   \
  X(cublasSgemm_v2_64, "libcublas", 15)                \
  X(cublasSgemmStridedBatched, "libcublas", 15)        \
  X(cublasSgemmStridedBatched_64, "libcublas", 15)     \
  X(cublasSetWorkspace_v2, "libcublas", 15)            \
  X(cublasSetStream_v2, "libcublas", 15)               \
  X(cublasDestroy_v2, "libcublas", 15)                 \
  X(cublasLtMatmul, "libcublasLt", 15)                 \
  X(cublasLtMatmulAlgoGetHeuristic, "libcublasLt", 15) \
  X(cudnnBackendExecute, "libcudnn", 3000)             \
  X(cudnnBackendSetAttribute, "libcudnn", 3000)        \
  X(cudnnBackendDestroyDescriptor, "libcudnn", 3000)   \
  X(cudaMalloc, "libcudart", 302)                      \
  X(cblas_sgemm, KSCOUT_ANY_LIBRARY, 0)                \
  X(sgemm_, KSCOUT_ANY_LIBRARY, 0)                     \
  X(scipy_cblas_sgemm64_, KSCOUT_ANY_LIBRARY, 0)

#define KSCOUT_ENTRY(name, library, missing) kscout_##name,
enum kscout_entry { KSCOUT_TAKEN(KSCOUT_ENTRY) kscout_entries };
#undef KSCOUT_ENTRY

/// The compute type of functions that have none: fp32, by the handle's math mode.
#define KSCOUT_COMPUTE_OF_SGEMM 68

/// A product of cuBLAS: C(m,n) = alpha op(A) op(B) + beta C, all column-major.
struct kscout_gemm_call {
  void* handle;
  int transa, transb;
  int64_t m, n, k;
  const void* alpha;
  const void *a, *b;
  void* c;
  int type_a, type_b, type_c;
  int64_t lda, ldb, ldc;
  int64_t stride_a, stride_b, stride_c; /* elements between the items of a batch */
  int64_t batch;
  const void* beta;
  int compute, algorithm;
};

/// Functions of an OpenMP runtime: those of GNU, LLVM and Intel all have them.
struct kscout_openmp {
  /// GOMP_parallel(): calls function(data) in each thread of a team.
  void (*parallel)(void (*function)(void*), void* data, unsigned threads, unsigned flags);
  int (*max_threads)(void); /* omp_get_max_threads() */
  int (*in_parallel)(void); /* omp_in_parallel() */
};

/// A product of a BLAS, in fp32 and in the CPU's memory: C(m,n) = alpha op(A) op(B) + beta C, all
/// column-major.
struct kscout_blas_call {
  int transa, transb; /* 0: not transposed; -1: the call's word is wrong */
  int64_t m, n, k;
  float alpha, beta;
  const float *a, *b;
  float* c;
  int64_t lda, ldb, ldc;
  int integer_bits; /* of the library's integers; 0: unknown, and sizes and leading dimensions mean nothing */
  const char* library;                /* the file of its code, equal addresses for equal names; "": unknown */
  int (*threads)(void);               /* how many threads the library may use now; null: it does not say */
  const struct kscout_openmp* openmp; /* the runtime that the caller's library uses; null: none */
  int lost_threads; /* the process is the child of one with threads: the runtime may wait for them for ever */
};

/// A product of cuBLASLt: its descriptors, operands and workspace.
struct kscout_matmul_call {
  void* handle;
  const void* algorithm; /* null: the library chooses */
  void* operation;
  const void* alpha;
  void *layout_a, *layout_b;
  const void* beta;
  void *layout_c, *layout_d;
  const void *a, *b, *c;
  void* d;
  void* workspace;
  size_t workspace_bytes;
  void* stream;
};

/// Who computes a product.
enum kscout_answer {
  kscout_pass,         /* the original */
  kscout_served,       /* the core did: the call returns 0, and the original is not called */
  kscout_pass_watched, /* the original, then after_original() */
};

/// What the core does. No function throws; all but give_back() wait for no GPU.
struct kscout_core {
  enum kscout_answer (*gemm)(enum kscout_entry entry, const struct kscout_gemm_call* call);
  enum kscout_answer (*matmul)(const struct kscout_matmul_call* call);
  /// Returns when the product is computed, where it is served.
  enum kscout_answer (*blas)(enum kscout_entry entry, const struct kscout_blas_call* call);
  /// A plan of cuDNN that is executed with a variant pack.
  enum kscout_answer (*plan)(void* handle, void* plan, void* pack);
  /// The program sets an attribute of a descriptor of cuDNN, perhaps of a variant pack.
  void (*attribute)(void* descriptor, int attribute, int64_t count, const void* values);
  /// The program destroys a descriptor of cuDNN, perhaps a plan or a variant pack.
  void (*forget_descriptor)(void* descriptor);
  /// `status`: what the original returned.
  void (*after_original)(int status);
  void (*other)(enum kscout_entry entry);
  /// Releases memory that the core holds on the GPU, because an allocation of the program failed. Returns
  /// whether there was any; waits for the GPU.
  int (*give_back)(void);
  /// A call that changes the workspace of a handle of cuBLAS; null: it is the library's own.
  void (*workspace)(enum kscout_entry entry, void* handle, void* workspace, size_t bytes);
  /// Writes counts and the report. The process is about to end; later calls do nothing.
  void (*finish)(void);
  /// Around each fork(), in the thread that forks.
  void (*before_fork)(void);
  void (*in_parent)(void);
  void (*in_child)(void);
};

/// Finds a function of a library that the program has loaded ("libcublas", or KSCOUT_ANY_LIBRARY), also one
/// with local scope. Null when there is none.
typedef void* (*kscout_find)(const char* library, const char* symbol);

/// The function that the core exports under this name. Returns null where no memory is left.
#define KSCOUT_CORE_SYMBOL "kscout_preload_core"
typedef const struct kscout_core* (*kscout_core_entry)(kscout_find find);

#ifdef __cplusplus
}
#endif
