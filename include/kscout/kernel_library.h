#ifndef KSCOUT_KERNEL_LIBRARY_H
#define KSCOUT_KERNEL_LIBRARY_H
/** \file
 * Declares what a kernel library exports, as plain C: version 1 of the kernel library ABI.
 *
 *     static const kscout_kernel kernels[] = {{"gemm_universal_fp32_rcr_...", workspace, run, NULL}};
 *     static const kscout_kernel_library library = {
 *         KSCOUT_KERNEL_ABI, sizeof(kscout_kernel_library), "cpu", NULL, 1, sizeof(kscout_kernel), kernels};
 *     const kscout_kernel_library* kscout_kernel_library_get(void) { return &library; }
 *
 * A library is a shared object with that one function. An index file beside it names its configs
 * (docs/formats/kernel-library.md). The library is opened when one of its kernels is first prepared; until
 * then only the index is read. Its constructors must not start threads or open a device, because they also
 * run in a forked process that tests whether the library can be loaded at all.
 *
 * A later release may append members to a structure; `struct_size` then grows, and a library reads only
 * the members that it knows. Any other change gets a new KSCOUT_KERNEL_ABI. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The program and the library must have the same version. */
#define KSCOUT_KERNEL_ABI 1u

/** Return values of the functions below. */
enum {
  KSCOUT_KERNEL_OK = 0,
  KSCOUT_KERNEL_UNSUPPORTED = 1, /**< this kernel cannot take this shape; the caller tries another one */
  KSCOUT_KERNEL_FAILED = 2       /**< the device or its driver reported an error */
};

/** Where a function that does not return KSCOUT_KERNEL_OK writes the reason: text with a final 0, at most
 * `size` bytes. */
typedef struct kscout_kernel_message {
  char* text;
  uint64_t size;
} kscout_kernel_message;

/** A grouped convolution, for a kernel whose name is that of a convolution. The sizes of a spatial axis are
 * at index 0 (depth, 1 in 2-D), 1 (height), 2 (width). Channels count all groups together. */
typedef struct kscout_conv_shape {
  uint32_t struct_size;
  uint32_t rank; /**< spatial axes: 2 or 3 */
  int64_t n, c, k, g;
  int64_t in[3], filter[3], out[3];
  int64_t stride[3], dilation[3];
  int64_t left_pad[3], right_pad[3];
} kscout_conv_shape;

/** An operand in memory. Axes are in memory order, the outermost first; the last stride is 1. */
typedef struct kscout_kernel_operand {
  const char* name;  /**< "a", "in", "bias" */
  const char* dtype; /**< "fp32" */
  uint32_t is_output;
  uint32_t rank;
  const int64_t* sizes; /**< `rank` of them, in elements; so are the strides */
  const int64_t* strides;
} kscout_kernel_operand;

/** Sizes of C(m,n) = epilogue(alpha * A(m,k) * B(k,n) + beta * C), `batch` times, and the config's values.
 * The kernel's name states element types, layouts and epilogue. Lengths are in elements. */
typedef struct kscout_kernel_shape {
  uint32_t struct_size;
  uint32_t axis_count;
  const int32_t* axes; /**< one value per axis of the provider's config space, in its order */
  int64_t m, n, k, batch;
  /** For a GEMM; 0 for a convolution, whose tensors are packed. */
  int64_t lda, ldb, ldc; /**< distance between rows (row-major) or columns (column-major); never 0 */
  int64_t stride_a, stride_b, stride_c; /**< distance between batch items */
  /** Null for a GEMM. For a convolution, m, n, k are those of its implicit GEMM and batch is its number of
   * groups. A, B, C are input, filter, output (forward), output, filter, input (backward data) or output,
   * input, filter (backward weight), packed in the layout of the name, the filter as g k/g [z] y x c/g. */
  const kscout_conv_shape* conv;
  /* Appended later: there only where struct_size includes it. */
  const char* op; /**< "gemm", "conv_fwd" */
  /** Fields of the problem, as files and command lines name them. A word is its position, a flag 0 or 1. */
  uint32_t field_count;
  uint32_t operand_count;
  const char* const* field_names;
  const int64_t* fields;
  const kscout_kernel_operand* operands; /**< in the order of kscout_kernel_call::operands */
} kscout_kernel_shape;

/** One run. Pointers are in the memory of the library's backend, aligned to their elements; a kernel that
 * needs more, or cannot apply alpha or beta, returns KSCOUT_KERNEL_UNSUPPORTED. `stream` is a cudaStream_t or
 * hipStream_t, or 0 for the device's default stream; a "cpu" kernel ignores it. */
typedef struct kscout_kernel_call {
  uint32_t struct_size;
  uint32_t reserved;
  const void* a;
  const void* b;
  void* c;          /**< not read when beta is 0 */
  const void* bias; /**< n elements of C's type, when the epilogue adds one */
  double alpha, beta;
  void* workspace; /**< aligned to 64 bytes ("cpu") or 256; as large as workspace_bytes() returned */
  uint64_t workspace_bytes;
  void* stream;
  /* Appended later: there only where struct_size includes it. */
  /** A pointer per operand of kscout_kernel_shape::operands; a, b, c and bias are among them. */
  const void* const* operands;
} kscout_kernel_call;

typedef struct kscout_kernel kscout_kernel;
struct kscout_kernel {
  /** The kernel's name in the index. */
  const char* name;
  /** Returns whether the kernel takes the shape, and writes the workspace that it needs. Launches nothing. */
  int32_t (*workspace_bytes)(const kscout_kernel* self, const kscout_kernel_shape* shape, uint64_t* bytes,
                             kscout_kernel_message message);
  /** Enqueues the computation on the stream. Allocates nothing and waits for nothing, so that it can be
   * captured into a graph; a "cpu" kernel returns when C is complete. Several threads may call it at once,
   * each with its own workspace. */
  int32_t (*run)(const kscout_kernel* self, const kscout_kernel_shape* shape, const kscout_kernel_call* call,
                 kscout_kernel_message message);
  /** For the library's own use. */
  const void* data;
};

typedef struct kscout_kernel_library {
  uint32_t abi;         /**< KSCOUT_KERNEL_ABI */
  uint32_t struct_size; /**< sizeof(kscout_kernel_library) */
  const char* backend;  /**< the backend whose memory and streams the kernels use: "cpu", "cuda", "hip" */
  /** Called once per process, before any function of a kernel; may open the device. May be null. */
  int32_t (*open)(kscout_kernel_message message);
  uint64_t kernel_count;
  uint64_t kernel_size; /**< sizeof(kscout_kernel): the distance between two kernels */
  const kscout_kernel* kernels;
} kscout_kernel_library;

/** The one exported function. */
#define KSCOUT_KERNEL_LIBRARY_SYMBOL "kscout_kernel_library_get"
typedef const kscout_kernel_library* (*kscout_kernel_library_get_function)(void);

#ifdef __cplusplus
}
#endif
#endif
