#pragma once
/// \file
/// Declares the library for C and for every language that calls C. Pure C99; names and rules are those of the
/// C++ headers.
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
/// A function that can fail returns a status, 0 for success. No exception and no longjmp crosses this
/// boundary. Results are written through the last pointers, and only on success. Unknown numbers are NaN.
/// Strings are UTF-8 and end with 0. A `const char*` argument may be NULL only where its comment says so. The
/// library creates handles; the function that ends in _free frees them (NULL is allowed). Threads may share a
/// handle, but must not free it while another thread uses it.
///
/// Structs have fixed sizes: later versions of the same KSCOUT_ABI_VERSION may give meaning to reserved
/// fields. The _init functions set reserved fields to 0, which keeps today's behaviour.
// NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using): C
#include <stddef.h>
#include <stdint.h>

#include <kscout/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Raised, together with the library's soname, when a program compiled against an older header could no
/// longer work.
#define KSCOUT_ABI_VERSION 1
/// The version of the loaded library. A program must not call the library when it differs from
/// KSCOUT_ABI_VERSION.
int32_t kscout_abi_version(void);
/// The library's version: "0.1.0".
const char* kscout_version(void);

/* ------------------------------------------------------------ errors */

typedef int32_t kscout_status;
enum {
  KSCOUT_OK = 0,
  KSCOUT_INVALID_ARGUMENT = 1,  ///< can never work; fix the call
  KSCOUT_NOT_FOUND = 2,         ///< a named file, device, model or kernel is absent
  KSCOUT_UNSUPPORTED = 3,       ///< a valid request that no code here handles
  KSCOUT_CORRUPT_DATA = 4,      ///< bytes do not match their format or checksum
  KSCOUT_DEVICE_FAILURE = 5,    ///< the operating system, a driver or a kernel reported an error
  KSCOUT_FAILED = 6             ///< any other failure, such as no memory
};
/// "ok", "invalid_argument", ...
const char* kscout_status_word(kscout_status status);
/// The message of this thread's last failing call: value, limit, remedy. "" before any failure. Valid until
/// the thread's next failing call.
const char* kscout_last_error(void);

/* ------------------------------------------------------------ problems */

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
/// Operation on the result before it is stored in C.
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
  int64_t lda, ldb, ldc;  ///< distance between rows (row-major) or columns; 0 = packed
  int32_t dtype_a, dtype_b, dtype_c, dtype_acc;
  int32_t layout;
  int32_t epilogue;
  int32_t accumulate;  ///< not 0: beta may differ from 0, and C is read
  int32_t reserved32;
  int64_t reserved[6];
} kscout_gemm;

/// Describes a product of one element type, with the usual accumulator and output types of that type. Does
/// not check the problem; the functions that use it do.
void kscout_gemm_init(kscout_gemm* problem, int64_t m, int64_t n, int64_t k, int32_t dtype, int32_t layout);
/// Reads the one-line form, "gemm:16x4096x4096:fp32:rcr:batch=2".
kscout_status kscout_gemm_parse(const char* text, kscout_gemm* problem);
/// Prints the one-line form. Writes at most `size` bytes, the closing 0 included. `needed` (may be NULL)
/// receives the bytes of the whole text, even when the text does not fit; the status is then
/// KSCOUT_INVALID_ARGUMENT.
kscout_status kscout_gemm_print(const kscout_gemm* problem, char* text, size_t size, size_t* needed);

/// A grouped convolution. For every direction, the sizes are those of the forward problem; c and k count the
/// channels of all groups together. With two spatial axes, d, z and the members that end in _d keep the
/// values of kscout_conv_init.
typedef struct kscout_conv {
  int64_t n, c, k, g;  ///< images, input channels, output channels, groups
  int64_t d, h, w;     ///< sizes of the input
  int64_t z, y, x;     ///< sizes of the filter
  int64_t stride_d, stride_h, stride_w;
  int64_t dilation_d, dilation_h, dilation_w;
  int64_t left_pad_d, left_pad_h, left_pad_w;
  int64_t right_pad_d, right_pad_h, right_pad_w;
  int64_t split_k;  ///< requested split of the product's K; 0 = the selector chooses, 1 = none
  int32_t op;       ///< KSCOUT_OP_CONV_...
  int32_t dtype_in, dtype_wei, dtype_out, dtype_acc;
  int32_t layout;
  int32_t prepacked;  ///< not 0: the filter is packed once for many calls (kscout_pack_filter)
  int32_t epilogue;   ///< of KSCOUT_OP_CONV_FWD: KSCOUT_EPILOGUE_NONE or KSCOUT_EPILOGUE_BIAS
  int64_t reserved[5];
} kscout_conv;

/// Describes a convolution of one element type with all sizes 1, layout nhwgc.
void kscout_conv_init(kscout_conv* problem, int32_t op, int32_t dtype);
/// Reads the one-line form, "conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1". A specific field wins over a
/// general one in any order ("pad=1:left_pad_h=3"); a field that is given twice is an error.
kscout_status kscout_conv_parse(const char* text, kscout_conv* problem);
/// Prints the one-line form; `size` and `needed` as for kscout_gemm_print.
kscout_status kscout_conv_print(const kscout_conv* problem, char* text, size_t size, size_t* needed);

/// A problem of any operation, also of one that has no struct here.
typedef struct kscout_problem kscout_problem;

/// Reads the one-line form of any operation.
kscout_status kscout_problem_parse(const char* text, kscout_problem** problem);
void kscout_problem_free(kscout_problem* problem);
/// Prints the one-line form; `size` and `needed` as for kscout_gemm_print.
kscout_status kscout_problem_print(const kscout_problem* problem, char* text, size_t size, size_t* needed);

/// Operands that a call can have at most.
enum { KSCOUT_MAX_OPERANDS = 8 };
/// An operand of a problem.
typedef struct kscout_operand {
  const char* name;   ///< "a", "in", "bias"; valid as long as the library is loaded
  int64_t elements;   ///< that its buffer has, gaps between lines included
  int64_t bytes;      ///< of its buffer
  int32_t position;   ///< of its pointer in kscout_operands
  int32_t dtype;      ///< KSCOUT_DTYPE_...
  int32_t is_output;  ///< not 0: the kernel writes it
  int32_t optional;   ///< not 0: the pointer may be NULL
  int64_t reserved[4];
} kscout_operand;
/// Fills `operands` with at most `capacity` operands of the problem; `count` receives their number.
kscout_status kscout_problem_operands(const kscout_problem* problem, kscout_operand* operands,
                                      size_t capacity, size_t* count);

/* ------------------------------------------------------------ devices */

/// Facts of one CPU or GPU.
typedef struct kscout_device kscout_device;

/// "auto" (this machine's CPU) or a preset's name.
kscout_status kscout_device_find(const char* name, kscout_device** device);
void kscout_device_free(kscout_device* device);
/// A numeric fact, by its name in `kscout hardware`: "cores", "l2_bytes", ... NaN when unknown.
kscout_status kscout_device_number(const kscout_device* device, const char* name, double* value);
/// A text fact, by its name: "name", "arch", "isa", "kind", ... "" when unknown. Valid as long as the device.
kscout_status kscout_device_text(const kscout_device* device, const char* name, const char** text);

/* ------------------------------------------------------------ configs */

/// How a problem is computed. A plain value, valid in this process only; to store a config, store its name.
typedef struct kscout_config {
  const void* space;  ///< the config space of `value`
  int32_t value[32];
} kscout_config;

/// The config's name for the problem's types and layout; `size` and `needed` as for kscout_gemm_print.
kscout_status kscout_config_name(const kscout_gemm* problem, const kscout_config* config, char* name,
                                 size_t size, size_t* needed);
kscout_status kscout_conv_config_name(const kscout_conv* problem, const kscout_config* config, char* name,
                                      size_t size, size_t* needed);
kscout_status kscout_problem_config_name(const kscout_problem* problem, const kscout_config* config,
                                         char* name, size_t size, size_t* needed);
kscout_status kscout_config_parse(const char* name, kscout_config* config);
/// The value of one axis; for an enum axis, the number of its word. INT32_MIN when the config's name does not
/// state the axis.
kscout_status kscout_config_axis(const kscout_config* config, const char* axis, int32_t* value);

/* ------------------------------------------------------------ limits */

/// Limits of a choice, combined with |. A config that breaks one, or of which that is not known, is never
/// chosen; KSCOUT_UNSUPPORTED when none is left.
enum {
  KSCOUT_LIMIT_WORKSPACE = 1,      ///< at most max_workspace_bytes, copies of operands included
  KSCOUT_LIMIT_DETERMINISTIC = 2,  ///< equal bits from equal operands in every run on one device
  /// A row of a GEMM has equal bits whatever M is: only configs of the class of the weight, in the file of
  /// KSCOUT_CLASSES, else the user's (docs/batch_invariant.md).
  KSCOUT_LIMIT_BATCH_INVARIANT = 4
};

/* ------------------------------------------------------------ selection */

/// The goal of a ranking. A model supports the goals that it was trained for.
enum { KSCOUT_BY_BEST = 0, KSCOUT_BY_TFLOPS = 1, KSCOUT_BY_LATENCY = 2, KSCOUT_BY_BANDWIDTH = 3 };
/// The source of the fallback chain that answered.
enum {
  KSCOUT_SOURCE_CACHE = 0,
  KSCOUT_SOURCE_DB = 1,
  KSCOUT_SOURCE_MODEL = 2,
  KSCOUT_SOURCE_ANALYTIC = 3,
  KSCOUT_SOURCE_DEFAULT = 4,
  KSCOUT_SOURCE_FORCED = 5,  ///< named by KSCOUT_FORCE
  KSCOUT_SOURCE_ANY_CPU = 6  ///< predicted by a model for every CPU: nobody measured this one
};
/// "cache", "db", "model", "analytic", "default", "forced", "any_cpu"; "" for other numbers.
const char* kscout_source_word(int32_t source);

/// One config for one problem, with its predictions.
typedef struct kscout_choice {
  kscout_config config;
  double time_us;     ///< predicted time of the whole call
  double tflops;      ///< 10^12 operations per second
  double gb_s;        ///< minimum number of bytes divided by the time, 10^9 bytes per second
  double margin;      ///< extra time of the next config, as a fraction of this config's time
  double confidence;  ///< probability that the config is within 3 % of the family's best
  double score;       ///< the ranking's sort key, higher is better; comparable within one problem
  int32_t source;
  int32_t decided_by;  ///< for KSCOUT_SOURCE_CACHE: the source that made the cached decision
  /// Expected time, in microseconds, that the config needs once before its runs (a plan, its compilation, a
  /// packed filter); NaN: unknown.
  double setup_us;
  /// Time that the model expects of the first suggestion of the kernels' library; NaN: unknown.
  double suggestion_us;
  int64_t reserved[4];
} kscout_choice;

typedef struct kscout_selector kscout_selector;

/// Which models may answer for a device that they were not trained on: none; models for the same
/// architecture, instruction set and number of cores; models for any device of the same kind. The last two
/// cause a warning.
enum { KSCOUT_DEVICES_EXACT = 0, KSCOUT_DEVICES_SAME_ARCH = 1, KSCOUT_DEVICES_ANY = 2 };

/// The scope of a selector. NULL in place of a request means the values of kscout_request_init.
typedef struct kscout_request {
  /// NULL: this machine's CPU. A model for this machine's GPU chooses among what the GPU's library lists; the
  /// first such choice opens the GPU.
  const kscout_device* device;
  const char* provider;  ///< NULL: the usual one of the device and the operation: "native" on a CPU
  const char* rules;     ///< rule set of the configs that are used without a model; NULL: "default"
  const char* db;  ///< file of decisions that were found by timing; NULL: the file of KSCOUT_DB, else none
  /// Driver version that the decisions in `db` must have been found with; NULL: none, as on the CPU.
  const char* driver;
  int32_t devices;
  int32_t op;  ///< operation of the model that kscout_selector_find looks for
  /// Maximum number of threads of one kernel on the CPU; configs that need more do not apply. 0:
  /// KSCOUT_THREADS, else, when the device is this machine's CPU, the minimum of OMP_NUM_THREADS, the CPUs
  /// that the process may use and its CPU quota.
  int32_t threads;
  int32_t reserved32;
  /// Charges the set-up of a config over this many calls: a choice has the lowest time_us + setup_us / calls.
  /// 0: set-up is not charged.
  int64_t calls;
  int64_t limits;               ///< KSCOUT_LIMIT_... of all its choices; 0: none
  int64_t max_workspace_bytes;  ///< read with KSCOUT_LIMIT_WORKSPACE
  int64_t reserved[2];
} kscout_request;
/// Sets KSCOUT_DEVICES_SAME_ARCH and KSCOUT_OP_GEMM, the rest to NULL or 0.
void kscout_request_init(kscout_request* request);

/// Loads a model folder or `.ksf` file. Without a request, the selector answers for the device that the model
/// was trained on.
kscout_status kscout_selector_load(const char* model, const kscout_request* request,
                                   kscout_selector** selector);
/// Loads the first model for the type and device on the search path; uses analytic costs when there is none.
kscout_status kscout_selector_find(int32_t dtype, const kscout_request* request, kscout_selector** selector);
/// Makes a selector without a model.
kscout_status kscout_selector_analytic(const kscout_request* request, kscout_selector** selector);
void kscout_selector_free(kscout_selector* selector);

/// Reads the model, the environment and the decision file again; looks for a model as kscout_selector_find
/// did. Threads that select at the same time get answers of the old or the new model. On failure the old
/// model stays.
kscout_status kscout_selector_reload(kscout_selector* selector);
/// Like kscout_selector_reload, but keeps the model.
kscout_status kscout_selector_refresh(kscout_selector* selector);
/// The path that the model was read from, "" without a model; `size` and `needed` as for kscout_gemm_print.
kscout_status kscout_selector_model(const kscout_selector* selector, char* path, size_t size, size_t* needed);
/// A warning about the model for the user, such as the other device that it was trained on; "" when there is
/// none.
kscout_status kscout_selector_warning(const kscout_selector* selector, char* text, size_t size,
                                      size_t* needed);

/// Counts of a selector's decision cache since the selector was made.
typedef struct kscout_cache_statistics {
  uint64_t hits, misses;
  uint64_t evictions;  ///< decisions dropped to make room
  int64_t reserved[5];
} kscout_cache_statistics;
kscout_status kscout_selector_cache(const kscout_selector* selector, kscout_cache_statistics* statistics);
kscout_status kscout_selector_clear_cache(kscout_selector* selector);

/// Selects the config to run.
kscout_status kscout_select(const kscout_selector* selector, const kscout_gemm* problem, int32_t by,
                            kscout_choice* choice);
/// Fills `best` with at most `capacity` configs, best first; `count` receives their number.
kscout_status kscout_rank(const kscout_selector* selector, const kscout_gemm* problem, int32_t by,
                          kscout_choice* best, size_t capacity, size_t* count);

/// The same functions for convolutions.
kscout_status kscout_select_conv(const kscout_selector* selector, const kscout_conv* problem, int32_t by,
                                 kscout_choice* choice);
kscout_status kscout_rank_conv(const kscout_selector* selector, const kscout_conv* problem, int32_t by,
                               kscout_choice* best, size_t capacity, size_t* count);

/// The same functions for a problem of any operation.
kscout_status kscout_select_problem(const kscout_selector* selector, const kscout_problem* problem,
                                    int32_t by, kscout_choice* choice);
kscout_status kscout_rank_problem(const kscout_selector* selector, const kscout_problem* problem, int32_t by,
                                  kscout_choice* best, size_t capacity, size_t* count);

/// What rules say about a config for a problem.
enum {
  KSCOUT_VERDICT_ALLOWED = 0,  ///< no rule refuses it
  KSCOUT_VERDICT_REFUSED = 1,  ///< a rule refuses it
  KSCOUT_VERDICT_UNKNOWN = 2   ///< the rules do not know this config or this release of its library
};
typedef struct kscout_verdict {
  int32_t status;  ///< KSCOUT_VERDICT_...
  int32_t reserved32;
  char rule[64];      ///< the rule that refuses; "" unless refused
  char because[512];  ///< the rule's reason, or what is unknown; a longer text ends in "..."
  char since[64];     ///< release in which wrong results were first found: "" unless they are known
  int64_t reserved[5];
} kscout_verdict;

/// Says in microseconds, without running anything, whether rules refuse a config of any source for a problem:
///
///     kscout_config_parse(name, &config);
///     kscout_verdict_of(selector, &problem, &config, &verdict);
///     if (verdict.status == KSCOUT_VERDICT_REFUSED && verdict.since[0]) use_another_config();
kscout_status kscout_verdict_of(const kscout_selector* selector, const kscout_gemm* problem,
                                const kscout_config* config, kscout_verdict* verdict);
kscout_status kscout_verdict_of_conv(const kscout_selector* selector, const kscout_conv* problem,
                                     const kscout_config* config, kscout_verdict* verdict);
kscout_status kscout_verdict_of_problem(const kscout_selector* selector, const kscout_problem* problem,
                                        const kscout_config* config, kscout_verdict* verdict);

/* ------------------------------------------------------------ execution */

/// The kernels that can run here: those of this machine's backends and of kernel libraries.
typedef struct kscout_registry kscout_registry;

/// Registers the backends of this machine, then the libraries of KSCOUT_LIBRARY_PATH. Opens no device.
kscout_status kscout_registry_here(kscout_registry** registry);
/// Adds the kernels of a library, by its index file (docs/formats/kernel-library.md). A kernel is loaded at
/// its first run.
kscout_status kscout_registry_add_library(kscout_registry* registry, const char* index);
void kscout_registry_free(kscout_registry* registry);

/// The source that answers when there is no model: analytic costs, or a search that times every config once
/// per problem.
enum { KSCOUT_FALLBACK_ANALYTIC = 0, KSCOUT_FALLBACK_EXHAUSTIVE = 1 };

/// Runs problems on given operands. Threads may share a dispatcher: calls run one after the other.
typedef struct kscout_dispatcher kscout_dispatcher;

/// How a dispatcher chooses. NULL in place of a policy means the values of kscout_policy_init.
typedef struct kscout_policy {
  int32_t fallback;
  int32_t threads;        ///< as in kscout_request
  const char* rules;      ///< rule set of the configs that a fallback chooses from; NULL: "default"
  size_t refine_top;      ///< configs to time when a problem first runs (docs/selecting.md); below 2: none
  double refine_seconds;  ///< time for the timed rounds, once per problem
  const char* db;         ///< file that stores decisions found by timing; NULL: none
  int64_t calls;          ///< as in kscout_request
  int64_t limits;         ///< KSCOUT_LIMIT_... of all its choices; 0: none
  int64_t max_workspace_bytes;  ///< read with KSCOUT_LIMIT_WORKSPACE
  /// Max workspace of copies that only make a problem faster; 0: 2 GiB, -1: no such copies.
  int64_t copies_bytes;
  int64_t reserved[2];
} kscout_policy;
/// Sets analytic costs, no refinement, refine_seconds 0.05, the rest to NULL or 0.
void kscout_policy_init(kscout_policy* policy);

/// Dispatches to everything in `registry`, which may be freed afterwards; NULL: kscout_registry_here. Opens
/// no device.
kscout_status kscout_dispatcher_make(const kscout_registry* registry, const kscout_policy* policy,
                                     kscout_dispatcher** dispatcher);
/// Dispatches the choices of one selector to the backend of this name; NULL: "cpu". The selector may be freed
/// afterwards.
kscout_status kscout_dispatcher_of(const kscout_selector* selector, const char* backend,
                                   const kscout_policy* policy, kscout_dispatcher** dispatcher);
void kscout_dispatcher_free(kscout_dispatcher* dispatcher);
/// Warnings about the dispatcher for the user: decisions that could not be written to the policy's `db`; ""
/// when there are none. `size` and `needed` as for kscout_gemm_print.
kscout_status kscout_dispatcher_warning(const kscout_dispatcher* dispatcher, char* text, size_t size,
                                        size_t* needed);

/// Kinds of memory: host memory, memory of a GPU under CUDA, memory of a GPU under HIP.
enum { KSCOUT_MEMORY_HOST = 0, KSCOUT_MEMORY_CUDA = 1, KSCOUT_MEMORY_HIP = 2 };
/// The memory that holds operands. Pinned host memory is host memory.
typedef struct kscout_space {
  int32_t kind;     ///< KSCOUT_MEMORY_...
  int32_t ordinal;  ///< number of the GPU, as CUDA or HIP counts the GPUs of this process; 0 for the host
} kscout_space;

/// Operands of C = alpha * A * B + beta * C. beta != 0 is allowed only when the problem accumulates. C shares
/// no element with another operand; A and B may be the same.
typedef struct kscout_buffers {
  const void* a;
  const void* b;
  void* c;
  double alpha, beta;
  const void* bias;  ///< n elements, when the epilogue adds one
  void* stream;      ///< cudaStream_t or hipStream_t; NULL: the device's default stream. The CPU ignores it
  void* workspace;   ///< aligned to 64 bytes (256 on a GPU); NULL: the dispatcher's own
  size_t workspace_bytes;       ///< at least the bytes of kscout_workspace_bytes
  kscout_space space;           ///< memory of the operands; a kernel that cannot reach it never runs
  int64_t limits;               ///< KSCOUT_LIMIT_... besides those of the policy; 0: none
  int64_t max_workspace_bytes;  ///< read with KSCOUT_LIMIT_WORKSPACE
  int64_t reserved[3];
} kscout_buffers;

/// Sets alpha 1, beta 0, host memory, the rest to NULL or 0.
void kscout_buffers_init(kscout_buffers* buffers, const void* a, const void* b, void* c);

/// The choice that kscout_run will use for operands in the memory of the registry's first backend. Runs
/// nothing unless the fallback is exhaustive.
kscout_status kscout_solution(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                              kscout_choice* choice);
/// Bytes of workspace that a run needs. Prepares the kernel, so that the next run only runs.
kscout_status kscout_workspace_bytes(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                     size_t* bytes);
/// The two functions above for operands in another memory.
kscout_status kscout_solution_in(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                 kscout_space space, kscout_choice* choice);
kscout_status kscout_workspace_bytes_in(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                        kscout_space space, size_t* bytes);
/// Computes C with the selected config, on padded copies where no config takes the problem directly. `choice`
/// (may be NULL) receives the config that ran.
kscout_status kscout_run(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                         const kscout_buffers* buffers, kscout_choice* choice);
/// Computes C with this config. Returns KSCOUT_UNSUPPORTED, naming the rule, when the config cannot take the
/// problem.
kscout_status kscout_run_config(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                                const kscout_config* config, const kscout_buffers* buffers);

/// Tensors of a convolution, or their gradients: images packed in the problem's layout, the filter as k [z] y
/// x c/g. The kernel writes the tensor that the direction computes, which overlaps no other tensor; it only
/// reads the others.
typedef struct kscout_conv_buffers {
  void* in;
  void* wei;
  void* out;
  void* stream;  ///< stream, workspace and workspace_bytes as in kscout_buffers
  void* workspace;
  size_t workspace_bytes;
  kscout_space space;           ///< memory of the tensors
  int64_t limits;               ///< KSCOUT_LIMIT_... besides those of the policy; 0: none
  int64_t max_workspace_bytes;  ///< read with KSCOUT_LIMIT_WORKSPACE
  const void* bias;             ///< k elements of the output's type, when the epilogue adds one
  int64_t reserved[2];
} kscout_conv_buffers;

/// Sets host memory, the rest to NULL or 0.
void kscout_conv_buffers_init(kscout_conv_buffers* buffers, void* in, void* wei, void* out);

/// The same functions for convolutions. Copies also change the layout of images.
kscout_status kscout_solution_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                   kscout_choice* choice);
kscout_status kscout_workspace_bytes_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                          size_t* bytes);
kscout_status kscout_solution_conv_in(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                      kscout_space space, kscout_choice* choice);
kscout_status kscout_workspace_bytes_conv_in(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                             kscout_space space, size_t* bytes);
kscout_status kscout_run_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                              const kscout_conv_buffers* buffers, kscout_choice* choice);
kscout_status kscout_run_config_conv(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                     const kscout_config* config, const kscout_conv_buffers* buffers);

/// Operands of a problem of any operation: a pointer per operand, at the position that
/// kscout_problem_operands states. The kernel writes the output, which overlaps no other operand; it only
/// reads the others.
typedef struct kscout_operands {
  const void* operand[KSCOUT_MAX_OPERANDS];
  double alpha, beta;  ///< 1 and 0 unless the operation has them
  void* stream;        ///< stream, workspace and workspace_bytes as in kscout_buffers
  void* workspace;
  size_t workspace_bytes;
  kscout_space space;           ///< memory of the operands
  int64_t limits;               ///< KSCOUT_LIMIT_... besides those of the policy; 0: none
  int64_t max_workspace_bytes;  ///< read with KSCOUT_LIMIT_WORKSPACE
  int64_t reserved[3];
} kscout_operands;

/// Sets alpha 1, beta 0, host memory, the rest to NULL or 0.
void kscout_operands_init(kscout_operands* operands);

/// The same functions for a problem of any operation; `space` may be NULL: the memory of the registry's first
/// backend.
kscout_status kscout_solution_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                      const kscout_space* space, kscout_choice* choice);
/// The copies on which a solution runs: where no config takes the problem directly, and on a GPU also where
/// they are predicted to be worth their time.
typedef struct kscout_copies {
  double us;        ///< predicted time; 0 without copies, NaN where it is not known
  double bytes;     ///< read and written in one run
  int32_t a, b, c;  ///< 1: this operand is copied; of a convolution, in the order of the computed product
  int32_t reserved;
} kscout_copies;
kscout_status kscout_solution_copies(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                     const kscout_space* space, kscout_copies* copies);
kscout_status kscout_workspace_bytes_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                             const kscout_space* space, size_t* bytes);
kscout_status kscout_run_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                 const kscout_operands* operands, kscout_choice* choice);
kscout_status kscout_run_config_problem(kscout_dispatcher* dispatcher, const kscout_problem* problem,
                                        const kscout_config* config, const kscout_operands* operands);

/// A filter that was packed once for many runs, with the config that the runs use. It owns its memory: the
/// caller's filter may change or be freed. It may outlive its dispatcher.
typedef struct kscout_packed_filter kscout_packed_filter;

/// Packs the filter of a KSCOUT_OP_CONV_FWD or KSCOUT_OP_CONV_BWD_DATA. The config is the best one for a
/// filter that is packed once, whatever `prepacked` of the problem is. Uses only wei, stream and space of
/// `filter`; waits until the filter is packed.
kscout_status kscout_pack_filter(kscout_dispatcher* dispatcher, const kscout_conv* problem,
                                 const kscout_conv_buffers* filter, kscout_packed_filter** packed);
void kscout_packed_filter_free(kscout_packed_filter* packed);
/// Bytes of workspace that kscout_run_packed needs.
kscout_status kscout_packed_filter_workspace_bytes(const kscout_packed_filter* packed, size_t* bytes);
/// Computes the result with a filter that this dispatcher packed; wei of `buffers` must be NULL. `choice`
/// (may be NULL) receives the config that ran.
kscout_status kscout_run_packed(kscout_dispatcher* dispatcher, const kscout_packed_filter* packed,
                                const kscout_conv_buffers* buffers, kscout_choice* choice);

/// Packs B of a GEMM, such as the weight of a layer, once for many runs: where the kernel computes with a
/// copy of B with aligned lines, the copy is made here. Uses only b, stream and space of `b`; waits until B
/// is packed. The object is one for kscout_packed_filter_free and kscout_packed_filter_workspace_bytes.
kscout_status kscout_pack_b(kscout_dispatcher* dispatcher, const kscout_gemm* problem,
                            const kscout_buffers* b, kscout_packed_filter** packed);
/// Computes C with a B that this dispatcher packed; b of `buffers` must be NULL. `choice` (may be NULL)
/// receives the config that ran.
kscout_status kscout_run_packed_b(kscout_dispatcher* dispatcher, const kscout_packed_filter* packed,
                                  const kscout_buffers* buffers, kscout_choice* choice);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-deprecated-headers,modernize-use-using)
