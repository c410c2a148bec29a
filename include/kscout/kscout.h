#pragma once
/// \file
/// The library for C and for every language that calls C. Pure C99; the names and rules are those of the C++
/// headers.
///
///     kscout_selector* selector = NULL;
///     kscout_gemm problem;
///     kscout_choice choice;
///     if (kscout_selector_find(KSCOUT_DTYPE_FP32, NULL, &selector)) return fail(kscout_last_error());
///     kscout_gemm_init(&problem, 16, 4096, 4096, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
///     if (kscout_select(selector, &problem, KSCOUT_BY_BEST, &choice)) return fail(kscout_last_error());
///     printf("%.1f us\n", choice.time_us);
///     kscout_selector_free(selector);
///
/// Functions that can fail return a status, 0 when all is well; no exception and no longjmp crosses this
/// border. Results come through the last pointers and are written only on success. Unknown numbers are NaN.
/// Strings are UTF-8 and end with 0; a `const char*` argument may be NULL where that is said. Handles are
/// made by the library, are freed by the function that ends in _free (NULL is fine), and may be shared by
/// threads, not freed while in use.
///
/// Structs have fixed sizes: later versions of the same KSCOUT_ABI_VERSION give meaning to reserved fields,
/// where 0 stands for the behaviour of today. The _init functions set them to 0.
// NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using): C
#include <stddef.h>
#include <stdint.h>

#include <kscout/export.h>
#include <kscout/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Raised when a program compiled against an older header could no longer work; the library's soname too.
#define KSCOUT_ABI_VERSION 1
/// That of the library that is loaded: equal to KSCOUT_ABI_VERSION, or the program must not call it.
KSCOUT_API int32_t kscout_abi_version(void);
/// The library's version: "0.1.0".
KSCOUT_API const char* kscout_version(void);

/* -------------------------------------------------------------------------------------------------------
 * errors */

typedef int32_t kscout_status;
enum {
  KSCOUT_OK = 0,
  KSCOUT_INVALID_ARGUMENT = 1,  ///< could never work; fix the call
  KSCOUT_NOT_FOUND = 2,         ///< a named file, device, model or kernel is absent
  KSCOUT_UNSUPPORTED = 3,       ///< a fair request that no code here serves
  KSCOUT_CORRUPT_DATA = 4,      ///< bytes do not match their format or checksum
  KSCOUT_DEVICE_FAILURE = 5,    ///< the operating system, a driver or a kernel reported an error
  KSCOUT_FAILED = 6             ///< anything else, such as no memory
};
/// "ok", "invalid_argument", ...
KSCOUT_API const char* kscout_status_word(kscout_status status);
/// What the last failing call of this thread said, for a person: value, limit, remedy. "" before any. Valid
/// until the thread's next failing call.
KSCOUT_API const char* kscout_last_error(void);

/* -----------------------------------------------------------------------------------------------------
 * problems */

enum {
  KSCOUT_DTYPE_FP64 = 0,
  KSCOUT_DTYPE_FP32 = 1,
  KSCOUT_DTYPE_TF32 = 2,
  KSCOUT_DTYPE_FP16 = 3,
  KSCOUT_DTYPE_BF16 = 4,
  KSCOUT_DTYPE_FP8 = 5,
  KSCOUT_DTYPE_BF8 = 6,
  KSCOUT_DTYPE_INT32 = 7,
  KSCOUT_DTYPE_INT8 = 8,
  KSCOUT_DTYPE_INT4 = 9
};
/// Storage of A (m x k), B (k x n), C (m x n): R = row-major, C = column-major.
enum { KSCOUT_LAYOUT_RCR = 0, KSCOUT_LAYOUT_RRR = 1, KSCOUT_LAYOUT_CRR = 2, KSCOUT_LAYOUT_CCR = 3 };
/// Storage of a convolution's images, outermost first; two or three spatial axes.
enum { KSCOUT_LAYOUT_NHWGC = 4, KSCOUT_LAYOUT_NGCHW = 5, KSCOUT_LAYOUT_NDHWGC = 6, KSCOUT_LAYOUT_NGCDHW = 7 };
enum {
  KSCOUT_OP_GEMM = 0,
  KSCOUT_OP_CONV_FWD = 1,
  KSCOUT_OP_CONV_BWD_DATA = 2,
  KSCOUT_OP_CONV_BWD_WEIGHT = 3
};
/// What is applied to C before it is stored.
enum {
  KSCOUT_EPILOGUE_NONE = 0,
  KSCOUT_EPILOGUE_BIAS = 1,
  KSCOUT_EPILOGUE_RELU = 2,
  KSCOUT_EPILOGUE_GELU = 3,
  KSCOUT_EPILOGUE_BIAS_RELU = 4,
  KSCOUT_EPILOGUE_BIAS_GELU = 5
};

/// C(m,n) = alpha * A(m,k) * B(k,n) + beta * C, `batch` times. Sizes and leading dimensions are in elements.
typedef struct kscout_gemm {
  int64_t m, n, k;
  int64_t batch;          ///< independent products; operands of one batch follow each other
  int64_t split_k;        ///< requested split of K; 0 = the selector chooses, 1 = none
  int64_t lda, ldb, ldc;  ///< between rows (row-major) or columns; 0 = packed
  int32_t dtype_a, dtype_b, dtype_c, dtype_acc;
  int32_t layout;
  int32_t epilogue;
  int32_t accumulate;  ///< not 0: beta may be, and C is read
  int32_t reserved32;
  int64_t reserved[6];
} kscout_gemm;

/// A product of one element type, with the accumulator and output that the type usually gets. `problem` is
/// not checked before it is used.
KSCOUT_API void kscout_gemm_init(kscout_gemm* problem, int64_t m, int64_t n, int64_t k, int32_t dtype,
                                 int32_t layout);
/// From the one-line form, "gemm:16x4096x4096:fp32:rcr:batch=2".
KSCOUT_API kscout_status kscout_gemm_parse(const char* text, kscout_gemm* problem);
/// The one-line form. Writes at most `size` bytes, the closing 0 included; `needed` (may be NULL) becomes the
/// bytes that the whole text takes, also when it does not fit, which is KSCOUT_INVALID_ARGUMENT.
KSCOUT_API kscout_status kscout_gemm_print(const kscout_gemm* problem, char* text, size_t size,
                                           size_t* needed);

/// A grouped convolution. The sizes are those of the forward problem for every direction; c and k count the
/// channels of all groups together. Two spatial axes: d, z and what ends in _d keep what kscout_conv_init
/// sets.
typedef struct kscout_conv {
  int64_t n, c, k, g;  ///< images, input channels, output channels, groups
  int64_t d, h, w;     ///< of the input
  int64_t z, y, x;     ///< of the filter
  int64_t stride_d, stride_h, stride_w;
  int64_t dilation_d, dilation_h, dilation_w;
  int64_t left_pad_d, left_pad_h, left_pad_w;
  int64_t right_pad_d, right_pad_h, right_pad_w;
  int64_t split_k;  ///< requested split of the product's K; 0 = the selector chooses, 1 = none
  int32_t op;       ///< KSCOUT_OP_CONV_...
  int32_t dtype_in, dtype_wei, dtype_out, dtype_acc;
  int32_t layout;
  int64_t reserved[6];
} kscout_conv;

/// A convolution of one element type with all sizes 1, layout nhwgc.
KSCOUT_API void kscout_conv_init(kscout_conv* problem, int32_t op, int32_t dtype);
/// From the one-line form, "conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1".
KSCOUT_API kscout_status kscout_conv_parse(const char* text, kscout_conv* problem);
/// The one-line form; `size` and `needed` as for kscout_gemm_print.
KSCOUT_API kscout_status kscout_conv_print(const kscout_conv* problem, char* text, size_t size,
                                           size_t* needed);

/* ------------------------------------------------------------------------------------------------------
 * devices */

/// Facts of one CPU or GPU.
typedef struct kscout_device kscout_device;

/// "auto" (this machine's CPU) or a preset's name.
KSCOUT_API kscout_status kscout_device_find(const char* name, kscout_device** device);
KSCOUT_API void kscout_device_free(kscout_device* device);
/// A number by its name in `kscout hardware`: "cores", "l2_bytes", ... NaN when unknown.
KSCOUT_API kscout_status kscout_device_number(const kscout_device* device, const char* name, double* value);
/// A text by its name: "name", "arch", "isa", "kind", ... "" when unknown. Lives as long as the device.
KSCOUT_API kscout_status kscout_device_text(const kscout_device* device, const char* name, const char** text);

/* -----------------------------------------------------------------------------------------------------
 * configs */

/// How a problem is computed. A plain value, valid in this process; its name is what may be stored.
typedef struct kscout_config {
  const void* space;  ///< whose axes `value` holds
  int32_t value[32];
} kscout_config;

/// The config's name under the problem's types and layout; `size` and `needed` as for kscout_gemm_print.
KSCOUT_API kscout_status kscout_config_name(const kscout_gemm* problem, const kscout_config* config,
                                            char* name, size_t size, size_t* needed);
KSCOUT_API kscout_status kscout_conv_config_name(const kscout_conv* problem, const kscout_config* config,
                                                 char* name, size_t size, size_t* needed);
KSCOUT_API kscout_status kscout_config_parse(const char* name, kscout_config* config);
/// One axis, an enum's word as its number; INT32_MIN when the name did not tell.
KSCOUT_API kscout_status kscout_config_axis(const kscout_config* config, const char* axis, int32_t* value);

/* ----------------------------------------------------------------------------------------------------
 * selection */

/// What to be best in. A model answers for what it was trained on.
enum { KSCOUT_BY_BEST = 0, KSCOUT_BY_TFLOPS = 1, KSCOUT_BY_LATENCY = 2, KSCOUT_BY_BANDWIDTH = 3 };
/// Which source of the fallback chain answered.
enum {
  KSCOUT_SOURCE_CACHE = 0,
  KSCOUT_SOURCE_DB = 1,
  KSCOUT_SOURCE_MODEL = 2,
  KSCOUT_SOURCE_ANALYTIC = 3,
  KSCOUT_SOURCE_DEFAULT = 4,
  KSCOUT_SOURCE_FORCED = 5  ///< named by KSCOUT_FORCE
};
/// "cache", "db", "model", "analytic", "default", "forced"; "" for other numbers.
KSCOUT_API const char* kscout_source_word(int32_t source);

/// One config for one problem, with what is predicted of it.
typedef struct kscout_choice {
  kscout_config config;
  double time_us;     ///< of the whole call
  double tflops;      ///< 10^12 operations per second
  double gb_s;        ///< least bytes over the time, 10^9 bytes per second
  double margin;      ///< how much longer the next config takes, as a fraction of this one's time
  double confidence;  ///< probability of being within 3 % of the family's best
  double score;       ///< what the ranking sorts by, higher is better; comparable within one problem
  int32_t source;
  int32_t decided_by;  ///< behind KSCOUT_SOURCE_CACHE: the source that decided then
  int64_t reserved[6];
} kscout_choice;

typedef struct kscout_selector kscout_selector;

/// Which models may answer for a device that they were not trained on: none; those of the same architecture,
/// instruction set and number of cores; any of the same kind. The last two with a warning.
enum { KSCOUT_DEVICES_EXACT = 0, KSCOUT_DEVICES_SAME_ARCH = 1, KSCOUT_DEVICES_ANY = 2 };

/// What a selector answers for. NULL in place of a request means what kscout_request_init sets.
typedef struct kscout_request {
  const kscout_device* device;  ///< NULL: this machine's CPU
  const char*
      provider;        ///< NULL: by the device: "native", "cublaslt" or "ck_tile"; "ck_tile" for convolutions
  const char* rules;   ///< what answers without a model chooses from this rule set; NULL: "default"
  const char* db;      ///< file of decisions that were found by timing; NULL: that of KSCOUT_DB, else none
  const char* driver;  ///< under which they must have been found; NULL: none, as on the CPU
  int32_t devices;
  int32_t op;  ///< of the model that kscout_selector_find looks for
  /// Most threads of one kernel on the CPU; configs that need more do not apply. 0: KSCOUT_THREADS, else,
  /// when the device is this machine's CPU, the fewest of OMP_NUM_THREADS, the CPUs that the process may use
  /// and its CPU quota.
  int32_t threads;
  int32_t reserved32;
  int64_t reserved[5];
} kscout_request;
/// KSCOUT_DEVICES_SAME_ARCH, KSCOUT_OP_GEMM, the rest NULL.
KSCOUT_API void kscout_request_init(kscout_request* request);

/// From a model folder or `.ksf` file. Without a request for the device that the model was trained on.
KSCOUT_API kscout_status kscout_selector_load(const char* model, const kscout_request* request,
                                              kscout_selector** selector);
/// The first model for the type and device on the search path, analytic costs when there is none.
KSCOUT_API kscout_status kscout_selector_find(int32_t dtype, const kscout_request* request,
                                              kscout_selector** selector);
/// Without a model.
KSCOUT_API kscout_status kscout_selector_analytic(const kscout_request* request, kscout_selector** selector);
KSCOUT_API void kscout_selector_free(kscout_selector* selector);

/// Reads model, environment and file of decisions again, looking for a model as kscout_selector_find did.
/// Threads that select meanwhile get answers of the old model or of the new one. On failure the old one
/// stays.
KSCOUT_API kscout_status kscout_selector_reload(kscout_selector* selector);
/// The same without the model.
KSCOUT_API kscout_status kscout_selector_refresh(kscout_selector* selector);
/// Where the model was read from, "" without one; `size` and `needed` as for kscout_gemm_print.
KSCOUT_API kscout_status kscout_selector_model(const kscout_selector* selector, char* path, size_t size,
                                               size_t* needed);
/// What a person should know of the model, such as the other device that it was trained on; "" when there is
/// nothing.
KSCOUT_API kscout_status kscout_selector_warning(const kscout_selector* selector, char* text, size_t size,
                                                 size_t* needed);

/// Counts of a selector's memory of decisions since it was made.
typedef struct kscout_cache_statistics {
  uint64_t hits, misses;
  uint64_t evictions;  ///< decisions given up for room
  int64_t reserved[5];
} kscout_cache_statistics;
KSCOUT_API kscout_status kscout_selector_cache(const kscout_selector* selector,
                                               kscout_cache_statistics* statistics);
KSCOUT_API kscout_status kscout_selector_clear_cache(kscout_selector* selector);

/// The config to run.
KSCOUT_API kscout_status kscout_select(const kscout_selector* selector, const kscout_gemm* problem,
                                       int32_t by, kscout_choice* choice);
/// Fills `best` with at most `capacity` configs, best first; `count` becomes how many.
KSCOUT_API kscout_status kscout_rank(const kscout_selector* selector, const kscout_gemm* problem, int32_t by,
                                     kscout_choice* best, size_t capacity, size_t* count);

/// The same for convolutions.
KSCOUT_API kscout_status kscout_select_conv(const kscout_selector* selector, const kscout_conv* problem,
                                            int32_t by, kscout_choice* choice);
KSCOUT_API kscout_status kscout_rank_conv(const kscout_selector* selector, const kscout_conv* problem,
                                          int32_t by, kscout_choice* best, size_t capacity, size_t* count);

/* ----------------------------------------------------------------------------------------------------
 * execution */

/// What can run here: the backends of this machine and kernel libraries.
typedef struct kscout_registry kscout_registry;

/// The backends of this machine, then the libraries of KSCOUT_LIBRARY_PATH. Opens no device.
KSCOUT_API kscout_status kscout_registry_here(kscout_registry** registry);
/// The kernels of a library, by its index file (docs/formats/kernel-library.md); they are loaded at their
/// first run.
KSCOUT_API kscout_status kscout_registry_add_library(kscout_registry* registry, const char* index);
KSCOUT_API void kscout_registry_free(kscout_registry* registry);

/// Who answers when no model does: analytic costs, or a search that times every config once per problem.
enum { KSCOUT_FALLBACK_ANALYTIC = 0, KSCOUT_FALLBACK_EXHAUSTIVE = 1 };

/// Problem and operands in, result out. May be shared by threads: calls run one after the other.
typedef struct kscout_dispatcher kscout_dispatcher;

/// How a dispatcher chooses. NULL in place of a policy means what kscout_policy_init sets.
typedef struct kscout_policy {
  int32_t fallback;
  int32_t threads;    ///< as in kscout_request
  const char* rules;  ///< what a fallback chooses from; NULL: "default"
  size_t refine_top;  ///< configs that are timed when a problem first runs (docs/selecting.md); below 2: none
  double refine_seconds;  ///< of timed rounds, once per problem
  const char* db;         ///< file in which what was found by timing is kept and looked up; NULL: none
  int64_t reserved[6];
} kscout_policy;
/// Analytic costs, no refinement, refine_seconds 0.05, the rest NULL.
KSCOUT_API void kscout_policy_init(kscout_policy* policy);

/// Over everything in `registry`, which may be freed afterwards; NULL: kscout_registry_here. Opens no device.
KSCOUT_API kscout_status kscout_dispatcher_make(const kscout_registry* registry, const kscout_policy* policy,
                                                kscout_dispatcher** dispatcher);
/// Runs what one selector chooses, on the backend of this name; NULL: "cpu". The selector may be freed
/// afterwards.
KSCOUT_API kscout_status kscout_dispatcher_of(const kscout_selector* selector, const char* backend,
                                              const kscout_policy* policy, kscout_dispatcher** dispatcher);
KSCOUT_API void kscout_dispatcher_free(kscout_dispatcher* dispatcher);
/// What a person should know of it: decisions that could not be written to the policy's `db`; "" when there
/// is nothing. `size` and `needed` as for kscout_gemm_print.
KSCOUT_API kscout_status kscout_dispatcher_warning(const kscout_dispatcher* dispatcher, char* text,
                                                   size_t size, size_t* needed);

/// Kinds of memory: the host's, that of a GPU under CUDA, that of a GPU under HIP.
enum { KSCOUT_MEMORY_HOST = 0, KSCOUT_MEMORY_CUDA = 1, KSCOUT_MEMORY_HIP = 2 };
/// Where operands are. Pinned host memory is host memory.
typedef struct kscout_space {
  int32_t kind;     ///< KSCOUT_MEMORY_...
  int32_t ordinal;  ///< of the GPU, as its runtime counts those that the process sees; 0 for the host
} kscout_space;

/// Operands; C = alpha * A * B + beta * C. beta != 0 only when the problem accumulates. C shares no element
/// with another operand; A and B may be the same.
typedef struct kscout_buffers {
  const void* a;
  const void* b;
  void* c;
  double alpha, beta;
  const void* bias;  ///< n elements, when the epilogue adds one
  void* stream;      ///< cudaStream_t or hipStream_t; NULL: the device's own. Without meaning on the CPU
  void* workspace;   ///< aligned to 64 bytes (256 on a GPU); NULL: the dispatcher's own
  size_t workspace_bytes;  ///< at least what kscout_workspace_bytes tells
  kscout_space space;      ///< where the operands are; a kernel that cannot reach it is never run
  int64_t reserved[5];
} kscout_buffers;

/// alpha 1, beta 0, in the host's memory, the rest NULL.
KSCOUT_API void kscout_buffers_init(kscout_buffers* buffers, const void* a, const void* b, void* c);

/// What kscout_run will use for operands in the memory of the registry's first backend. Runs nothing unless
/// the fallback is exhaustive.
KSCOUT_API kscout_status kscout_solution(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                         kscout_choice* choice);
/// Bytes that a run wants besides the operands. Makes the kernel ready, so that the next run only runs.
KSCOUT_API kscout_status kscout_workspace_bytes(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                                size_t* bytes);
/// The same two for operands in another memory.
KSCOUT_API kscout_status kscout_solution_in(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                            kscout_space space, kscout_choice* choice);
KSCOUT_API kscout_status kscout_workspace_bytes_in(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                                   kscout_space space, size_t* bytes);
/// Computes C with the selected config, on padded copies where no config takes the problem directly. `choice`
/// (may be NULL) becomes what ran.
KSCOUT_API kscout_status kscout_run(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                    const kscout_buffers* buffers, kscout_choice* choice);
/// Computes C with this config; KSCOUT_UNSUPPORTED, naming the rule, when it cannot take the problem.
KSCOUT_API kscout_status kscout_run_config(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                           const kscout_config* config, const kscout_buffers* buffers);

/// Tensors of a convolution, or their gradients: images packed in the problem's layout, the filter as
/// k [z] y x c/g. The one that the direction computes is written and overlaps no other; the others are only
/// read.
typedef struct kscout_conv_buffers {
  void* in;
  void* wei;
  void* out;
  void* stream;  ///< these three as in kscout_buffers
  void* workspace;
  size_t workspace_bytes;
  kscout_space space;  ///< where the tensors are
  int64_t reserved[5];
} kscout_conv_buffers;

/// In the host's memory, the rest NULL.
KSCOUT_API void kscout_conv_buffers_init(kscout_conv_buffers* buffers, void* in, void* wei, void* out);

/// The same for convolutions, which run in kernel libraries only and are never padded.
KSCOUT_API kscout_status kscout_solution_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                              kscout_choice* choice);
KSCOUT_API kscout_status kscout_workspace_bytes_conv(kscout_dispatcher* dispatcher,
                                                     const kscout_conv* problem, size_t* bytes);
KSCOUT_API kscout_status kscout_solution_conv_in(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                                 kscout_space space, kscout_choice* choice);
KSCOUT_API kscout_status kscout_workspace_bytes_conv_in(kscout_dispatcher* dispatcher,
                                                        const kscout_conv* problem, kscout_space space,
                                                        size_t* bytes);
KSCOUT_API kscout_status kscout_run_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                         const kscout_conv_buffers* buffers, kscout_choice* choice);
KSCOUT_API kscout_status kscout_run_config_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                                const kscout_config* config,
                                                const kscout_conv_buffers* buffers);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-deprecated-headers,modernize-use-using)
