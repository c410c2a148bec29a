#ifndef KSCOUT_KERNEL_LIBRARY_H
#define KSCOUT_KERNEL_LIBRARY_H
/** \file
 * What a library of kernels exports, as plain C: version 1 of the kernel library ABI.
 *
 *     static const kscout_kernel kernels[] = {{"gemm_universal_fp32_rcr_...", workspace, run, NULL}};
 *     static const kscout_kernel_library library = {
 *         KSCOUT_KERNEL_ABI, sizeof(kscout_kernel_library), "cpu", NULL, 1, sizeof(kscout_kernel), kernels};
 *     const kscout_kernel_library* kscout_kernel_library_get(void) { return &library; }
 *
 * A library is a shared object with that one function, beside an index file that names its configs
 * (docs/formats/kernel-library.md). It is opened when one of its kernels is first made ready; until then only
 * the index is read. Its constructors must not start threads or open a device, since they also run in a
 * forked process that tries whether the library can be loaded at all.
 *
 * Sizes that arrive in `struct_size` grow when a later release appends members; a library reads no further.
 * Any other change gets a new KSCOUT_KERNEL_ABI.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Both sides must be of one version. */
#define KSCOUT_KERNEL_ABI 1u

/** What the functions below return. */
enum {
  KSCOUT_KERNEL_OK = 0,
  KSCOUT_KERNEL_UNSUPPORTED = 1, /**< this kernel cannot take this shape; another one is tried */
  KSCOUT_KERNEL_FAILED = 2       /**< the device or its driver reported an error */
};

/** Where a function writes why it did not return KSCOUT_KERNEL_OK: text with a final 0, cut to `size` bytes.
 */
typedef struct kscout_kernel_message {
  char* text;
  uint64_t size;
} kscout_kernel_message;

/** A grouped convolution, for a kernel whose name is of one. Sizes of a spatial axis stand at 0 (depth, 1 in
 * 2-D), 1 (height), 2 (width). Channels are those of all groups together. */
typedef struct kscout_conv_shape {
  uint32_t struct_size;
  uint32_t rank; /**< spatial axes: 2 or 3 */
  int64_t n, c, k, g;
  int64_t in[3], filter[3], out[3];
  int64_t stride[3], dilation[3];
  int64_t left_pad[3], right_pad[3];
} kscout_conv_shape;

/** Sizes of C(m,n) = epilogue(alpha * A(m,k) * B(k,n) + beta * C), `batch` times, and the config's values.
 * Element types, layouts and the epilogue are those of the kernel's name. Lengths are in elements. */
typedef struct kscout_kernel_shape {
  uint32_t struct_size;
  uint32_t axis_count;
  const int32_t* axes; /**< one value per axis of the provider's config space, in its order */
  int64_t m, n, k, batch;
  /** Of a GEMM; 0 for a convolution, whose tensors are packed. */
  int64_t lda, ldb, ldc;                /**< from row to row (row-major) or column to column; never 0 */
  int64_t stride_a, stride_b, stride_c; /**< from batch item to batch item */
  /** Null for a GEMM. Of a convolution, m, n, k are those of its implicit GEMM and batch its groups; A, B, C
   * are input, filter, output (forward), output, filter, input (backward data) or output, input, filter
   * (backward weight), packed in the layout of the name, the filter as g k/g [z] y x c/g. */
  const kscout_conv_shape* conv;
} kscout_kernel_shape;

/** One run. Pointers are in the memory of the library's backend; `stream` is a cudaStream_t or hipStream_t,
 * or 0 for the device's own queue; a "cpu" kernel ignores it. */
typedef struct kscout_kernel_call {
  uint32_t struct_size;
  uint32_t reserved;
  const void* a;
  const void* b;
  void* c;          /**< not read when beta is 0 */
  const void* bias; /**< n elements of C's type, when the epilogue adds one */
  double alpha, beta;
  void* workspace; /**< aligned to 64 bytes ("cpu") or 256, as long as workspace_bytes told */
  uint64_t workspace_bytes;
  void* stream;
} kscout_kernel_call;

typedef struct kscout_kernel kscout_kernel;
struct kscout_kernel {
  /** As the index names it. */
  const char* name;
  /** Whether the kernel takes the shape, and the workspace it wants. Launches nothing. */
  int32_t (*workspace_bytes)(const kscout_kernel* self, const kscout_kernel_shape* shape, uint64_t* bytes,
                             kscout_kernel_message message);
  /** Puts the computation into the stream. Allocates nothing and waits for nothing, so that it can be
   * captured into a graph; a "cpu" kernel returns when C is complete. May be called from several threads at
   * once with workspaces of their own. */
  int32_t (*run)(const kscout_kernel* self, const kscout_kernel_shape* shape, const kscout_kernel_call* call,
                 kscout_kernel_message message);
  /** For the library's own use. */
  const void* data;
};

typedef struct kscout_kernel_library {
  uint32_t abi;         /**< KSCOUT_KERNEL_ABI */
  uint32_t struct_size; /**< sizeof(kscout_kernel_library) */
  const char* backend;  /**< whose memory and streams it takes: "cpu", "cuda", "hip" */
  /** Called once in a process, before any function of a kernel; may open the device. May be null. */
  int32_t (*open)(kscout_kernel_message message);
  uint64_t kernel_count;
  uint64_t kernel_size; /**< sizeof(kscout_kernel): from one kernel to the next */
  const kscout_kernel* kernels;
} kscout_kernel_library;

/** The one exported function. */
#define KSCOUT_KERNEL_LIBRARY_SYMBOL "kscout_kernel_library_get"
typedef const kscout_kernel_library* (*kscout_kernel_library_get_function)(void);

#ifdef __cplusplus
}
#endif
#endif
