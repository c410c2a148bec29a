/* Takes a program's calls of cuBLAS, cuBLASLt and cuDNN (those of a BLAS: blas_calls.c), gives them to the
 * core, and passes those on that the core does not serve.
 *
 * LD_PRELOAD loads this library into every process, so it needs nothing but libc. The core
 * (libkscout_preload_core.so) is opened at the first call, with local scope, and only where
 * one of is_wanted() asks for something. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/own_stack.h"
#include "preload/say.h"
#include "preload/taken.h"

/* ---- The core. */

static _Atomic(const struct kscout_core*) opened_core;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_open;

static const char* setting(const char* name) {
  const char* const value = getenv(name);
  return value && *value ? value : NULL;
}
static int is_wanted(void) {
  return setting("KSCOUT_PRELOAD_SERVE") || setting("KSCOUT_PRELOAD_GUARD") ||
         setting("KSCOUT_PRELOAD_CHECK_RESULTS") || setting("KSCOUT_PRELOAD_RECORD") ||
         setting("KSCOUT_PRELOAD_REPORT");
}

static void finish(void) {
  const struct kscout_core* const core = atomic_load(&opened_core);
  if (core) core->finish();
}

/* Beside this library, or the file that KSCOUT_PRELOAD_CORE names. */
static int core_path(char* path, size_t size) {
  static const char kName[] = "libkscout_preload_core.so";
  const char* const named = setting("KSCOUT_PRELOAD_CORE");
  Dl_info here;
  const char* slash;
  if (named) return snprintf(path, size, "%s", named) < (int)size;
  if (!dladdr(&opened_core, &here) || !(slash = strrchr(here.dli_fname, '/'))) return 0;
  return snprintf(path, size, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname, kName) < (int)size;
}

static atomic_int called; /* whether any call came */

static void open_core(void* unused) {
  const struct kscout_core* core;
  char path[PATH_MAX] = "";
  void* library = NULL;
  kscout_core_entry entry = NULL;
  (void)unused;
  if (core_path(path, sizeof path)) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library) entry = (kscout_core_entry)dlsym(library, KSCOUT_CORE_SYMBOL);
  if (!entry) {
    const char* const why = dlerror();
    kscout_say("calls pass on and are not recorded, because the core cannot be opened: %s", why ? why : path);
    return;
  }
  core = entry(find);
  if (!core) {
    kscout_say("calls pass on and are not recorded, because no memory is left for the core");
    return;
  }
  at_quick_exit(finish);
  atomic_store(&opened_core, core);
}

/* A child has only the thread that forked: it must find the core opened or not, but not half opened. A thread
 * may fork while it opens the core. */
static __thread int opens __attribute__((tls_model("initial-exec")));

static void open_once(void) {
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  pthread_mutex_lock(&opening);
  if (!atomic_load(&is_open)) {
    opens = 1;
    atomic_store(&called, 1);
    if (is_wanted() && !kscout_on_own_stack(open_core, NULL))
      kscout_say("calls pass on and are not recorded, because no memory is left for the core");
    opens = 0;
    atomic_store(&is_open, 1);
  }
  pthread_mutex_unlock(&opening);
  pthread_setcancelstate(cancel_state, NULL);
}
static int has_threads, threads_are_lost;
int lost_threads(void) { return threads_are_lost; }

static void before_fork(void) {
  enum { kEntriesOfOne = 3 }; /* the thread, the folder itself and its parent */
  const struct kscout_core* core;
  struct stat tasks;
  has_threads = stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink > kEntriesOfOne;
  if (opens) return;
  pthread_mutex_lock(&opening);
  if ((core = atomic_load(&opened_core))) core->before_fork();
}
static void in_parent(void) {
  const struct kscout_core* core;
  if (opens) return;
  if ((core = atomic_load(&opened_core))) core->in_parent();
  pthread_mutex_unlock(&opening);
}
static void in_child(void) {
  const struct kscout_core* core;
  threads_are_lost |= has_threads;
  if (opens) return;
  if ((core = atomic_load(&opened_core))) core->in_child();
  pthread_mutex_unlock(&opening);
}

/* ---- Calls. Products that a library computes inside of a call are its own: they are passed on, and not
 * counted. */

static __thread int inside __attribute__((tls_model("initial-exec")));

const struct kscout_core* begin(void) {
  const struct kscout_core* core = NULL;
  if (inside++ == 0) {
    const int error = errno;
    if (!atomic_load_explicit(&is_open, memory_order_acquire)) open_once();
    core = atomic_load_explicit(&opened_core, memory_order_acquire);
    errno = error;
  }
  return core;
}
/* The core that watches the original of this thread's call. */
static __thread const struct kscout_core* watching __attribute__((tls_model("initial-exec")));

int is_served(const struct kscout_core* core, enum kscout_answer answer) {
  if (answer == kscout_pass_watched) watching = core;
  return answer == kscout_served;
}
int end(int status) {
  if (inside == 1 && watching) { /* calls that the original makes itself end before */
    watching->after_original(status);
    watching = NULL;
  }
  --inside;
  return status;
}

/* PASS(missing status, name, (arguments)): the original's result. */
#define PASS(missing, name, arguments) \
  (original(kscout_##name) ? ((__typeof__(&name))original(kscout_##name))arguments : (missing))
#define NOT_SUPPORTED 15

/* Members of kscout_gemm_call, from parameters of the same names. */
#define SIZES                                                                                           \
  .handle = handle, .transa = transa, .transb = transb, .m = m, .n = n, .k = k, .alpha = alpha, .a = a, \
  .b = b, .c = c, .lda = lda, .ldb = ldb, .ldc = ldc, .beta = beta
#define TYPES .type_a = type_a, .type_b = type_b, .type_c = type_c, .compute = compute, .algorithm = algorithm
#define FP32 .compute = KSCOUT_COMPUTE_OF_SGEMM /* type 0 is fp32 */
#define STRIDES .stride_a = stride_a, .stride_b = stride_b, .stride_c = stride_c, .batch = batch

#define TAKE_GEMM(name, parameters, arguments, ...)                         \
  TAKEN int name parameters {                                               \
    const struct kscout_core* const core = begin();                         \
    if (core) {                                                             \
      const struct kscout_gemm_call call = {__VA_ARGS__};                   \
      if (is_served(core, core->gemm(kscout_##name, &call))) return end(0); \
    }                                                                       \
    return end(PASS(NOT_SUPPORTED, name, arguments));                       \
  }

#define GEMM_EX(name, integer)                                                                             \
  TAKE_GEMM(name,                                                                                          \
            (void* handle, int transa, int transb, integer m, integer n, integer k, const void* alpha,     \
             const void* a, int type_a, integer lda, const void* b, int type_b, integer ldb,               \
             const void* beta, void* c, int type_c, integer ldc, int compute, int algorithm),              \
            (handle, transa, transb, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, \
             compute, algorithm),                                                                          \
            SIZES, TYPES, .batch = 1)
GEMM_EX(cublasGemmEx, int)
GEMM_EX(cublasGemmEx_64, int64_t)

#define GEMM_STRIDED_BATCHED_EX(name, integer)                                                           \
  TAKE_GEMM(name,                                                                                        \
            (void* handle, int transa, int transb, integer m, integer n, integer k, const void* alpha,   \
             const void* a, int type_a, integer lda, long long stride_a, const void* b, int type_b,      \
             integer ldb, long long stride_b, const void* beta, void* c, int type_c, integer ldc,        \
             long long stride_c, integer batch, int compute, int algorithm),                             \
            (handle, transa, transb, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, \
             beta, c, type_c, ldc, stride_c, batch, compute, algorithm),                                 \
            SIZES, TYPES, STRIDES)
GEMM_STRIDED_BATCHED_EX(cublasGemmStridedBatchedEx, int)
GEMM_STRIDED_BATCHED_EX(cublasGemmStridedBatchedEx_64, int64_t)

#define SGEMM(name, integer)                                                                                \
  TAKE_GEMM(                                                                                                \
      name,                                                                                                 \
      (void* handle, int transa, int transb, integer m, integer n, integer k, const float* alpha,           \
       const float* a, integer lda, const float* b, integer ldb, const float* beta, float* c, integer ldc), \
      (handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), SIZES, FP32, .batch = 1)
SGEMM(cublasSgemm_v2, int)
SGEMM(cublasSgemm_v2_64, int64_t)

#define SGEMM_STRIDED_BATCHED(name, integer)                                                               \
  TAKE_GEMM(                                                                                               \
      name,                                                                                                \
      (void* handle, int transa, int transb, integer m, integer n, integer k, const float* alpha,          \
       const float* a, integer lda, long long stride_a, const float* b, integer ldb, long long stride_b,   \
       const float* beta, float* c, integer ldc, long long stride_c, integer batch),                       \
      (handle, transa, transb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, \
       batch),                                                                                             \
      SIZES, FP32, STRIDES)
SGEMM_STRIDED_BATCHED(cublasSgemmStridedBatched, int)
SGEMM_STRIDED_BATCHED(cublasSgemmStridedBatched_64, int64_t)

TAKEN int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* layout_a,
                         const void* b, void* layout_b, const void* beta, const void* c, void* layout_c,
                         void* d, void* layout_d, const void* algorithm, void* workspace,
                         size_t workspace_bytes, void* stream) {
  const struct kscout_core* const core = begin();
  if (core) {
    const struct kscout_matmul_call call = {handle, algorithm, operation,       alpha, layout_a, layout_b,
                                            beta,   layout_c,  layout_d,        a,     b,        c,
                                            d,      workspace, workspace_bytes, stream};
    if (is_served(core, core->matmul(&call))) return end(0);
  }
  return end(PASS(NOT_SUPPORTED, cublasLtMatmul,
                  (handle, operation, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d,
                   algorithm, workspace, workspace_bytes, stream)));
}

TAKEN int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d,
                                         void* preference, int requested, void* results, int* found) {
  const struct kscout_core* const core = begin();
  if (core) core->other(kscout_cublasLtMatmulAlgoGetHeuristic);
  return end(PASS(NOT_SUPPORTED, cublasLtMatmulAlgoGetHeuristic,
                  (handle, operation, a, b, c, d, preference, requested, results, found)));
}

/* The library has no function that returns a handle's workspace. Setting a stream resets it. */
TAKEN int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
  const struct kscout_core* const core = begin();
  const int status = PASS(NOT_SUPPORTED, cublasSetWorkspace_v2, (handle, workspace, bytes));
  if (core && status == 0) core->workspace(kscout_cublasSetWorkspace_v2, handle, workspace, bytes);
  if (core && status != 0) core->other(kscout_cublasSetWorkspace_v2);
  return end(status);
}

TAKEN int cublasSetStream_v2(void* handle, void* stream) {
  const struct kscout_core* const core = begin();
  if (core) core->workspace(kscout_cublasSetStream_v2, handle, NULL, 0);
  return end(PASS(NOT_SUPPORTED, cublasSetStream_v2, (handle, stream)));
}

TAKEN int cublasDestroy_v2(void* handle) {
  const struct kscout_core* const core = begin();
  if (core) core->workspace(kscout_cublasDestroy_v2, handle, NULL, 0);
  return end(PASS(NOT_SUPPORTED, cublasDestroy_v2, (handle)));
}

TAKEN int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  const struct kscout_core* const core = begin();
  if (core && is_served(core, core->plan(handle, plan, pack))) return end(0);
  return end(PASS(3000, cudnnBackendExecute, (handle, plan, pack)));
}

/* The library does not return what a variant pack holds. */
TAKEN int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, int64_t count,
                                   const void* values) {
  const struct kscout_core* const core = inside ? NULL : atomic_load(&opened_core);
  if (core) core->attribute(descriptor, attribute, count, values);
  return PASS(3000, cudnnBackendSetAttribute, (descriptor, attribute, type, count, values));
}

/* Another plan or pack may get the address. */
TAKEN int cudnnBackendDestroyDescriptor(void* descriptor) {
  const struct kscout_core* const core = inside ? NULL : atomic_load(&opened_core);
  if (core) core->forget_descriptor(descriptor);
  return PASS(3000, cudnnBackendDestroyDescriptor, (descriptor));
}

/* An allocation that fails may succeed when the core gives its memory back. */
TAKEN int cudaMalloc(void** memory, size_t bytes) {
  enum { kNoMemory = 2, kNotFound = 302 };
  const struct kscout_core* const core = inside ? NULL : atomic_load(&opened_core);
  int (*last_error)(void);
  int status = PASS(kNotFound, cudaMalloc, (memory, bytes));
  if (status != kNoMemory || !core) return status;
  ++inside;
  if (core->give_back()) {
    last_error = (int (*)(void))find("libcudart", "cudaGetLastError");
    if (last_error) last_error(); /* forgets the failure, of which the program knows nothing */
    status = PASS(kNotFound, cudaMalloc, (memory, bytes));
  }
  return end(status);
}

/* ---- The end of the process. _exit() runs no destructors. */

static void (*next_exit)(int), (*next_Exit)(int);

__attribute__((constructor)) static void load(void) {
  pthread_atfork(before_fork, in_parent, in_child);
  next_exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
  next_Exit = (void (*)(int))dlsym(RTLD_NEXT, "_Exit");
}

/* Reports that the program which kscout exec became called nothing. Other processes without calls report
 * nothing. */
static void report_no_call(void) {
  const char* const process = setting("KSCOUT_PRELOAD_PROCESS");
  const char* const report = setting("KSCOUT_PRELOAD_REPORT");
  const int to_stderr = report && strcmp(report, "-") == 0;
  char text[128];
  int file, error;
  if (!report || !process || strtol(process, NULL, 10) != getpid() || atomic_load(&called)) return;
  file = to_stderr ? STDERR_FILENO : kscout_open_to_append(report);
  snprintf(text, sizeof text,
           "kscout exec: process %d: no call of a BLAS, cuBLAS, cuBLASLt or cuDNN was seen\n", (int)getpid());
  error = file < 0 ? errno : kscout_write(file, text, strlen(text));
  if (!to_stderr && file >= 0) close(file);
  if (error) kscout_say("%s: cannot be written: %s", report, strerror(error));
}

static void end_process(void) {
  report_no_call();
  finish();
}

__attribute__((destructor)) static void unload(void) { end_process(); }

TAKEN __attribute__((noreturn)) void _exit(int status) {
  end_process();
  if (next_exit) next_exit(status);
  for (;;) syscall(SYS_exit_group, status);
}

TAKEN __attribute__((noreturn)) void _Exit(int status) {
  end_process();
  if (next_Exit) next_Exit(status);
  for (;;) syscall(SYS_exit_group, status);
}
