/* A kernel library for tests: plain loops over fp32, of which the good build computes what it is asked for
 * and refuses sizes off its grid; the others are broken in one way each (see CMakeLists.txt). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kscout/kernel_library.h>

#if defined(TOY_NO_SYMBOL)
int toy_without_its_symbol = 1;
#else

/* Where elements lie, by the layout in the kernel's name. */
typedef struct layout {
  int row_a, row_b;
} layout;

static const layout rcr = {1, 0}, rrr = {1, 1}, crr = {0, 1}, ccr = {0, 0};

static void say(kscout_kernel_message message, const char* text) {
  if (message.size > 0) snprintf(message.text, message.size, "%s", text);
}

/* Whether the shape's operands and fields say the same as its sizes. */
static int is_product(const kscout_kernel_shape* s) {
  if (strcmp(s->op, "gemm") != 0 || s->operand_count < 3) return 0;
  const kscout_kernel_operand* const c = &s->operands[2];
  if (strcmp(s->operands[0].name, "a") != 0 || s->operands[0].is_output || !c->is_output || c->rank != 3)
    return 0;
  if (strcmp(c->dtype, "fp32") != 0 || c->sizes[0] != s->batch || c->sizes[1] != s->m || c->sizes[2] != s->n)
    return 0;
  if (c->strides[0] != s->stride_c || c->strides[1] != s->ldc || c->strides[2] != 1) return 0;
  for (uint32_t i = 0; i < s->field_count; ++i) {
    if (strcmp(s->field_names[i], "k") == 0) return s->fields[i] == s->k;
  }
  return 0;
}

/* Multiples of 8, 16, 16: what a kernel with vector loads and no tails would take. One row of C as scratch.
 */
static int32_t workspace_bytes(const kscout_kernel* self, const kscout_kernel_shape* shape, uint64_t* bytes,
                               kscout_kernel_message message) {
  (void)self;
  if (shape->struct_size < sizeof *shape || shape->axis_count < 3 || shape->axes[0] <= 0) {
    say(message, "the shape is not what version 1 says");
    return KSCOUT_KERNEL_FAILED;
  }
  if (!is_product(shape)) {
    say(message, "the operands and fields are not those of the product");
    return KSCOUT_KERNEL_FAILED;
  }
  if (shape->m % 8 != 0 || shape->n % 16 != 0 || shape->k % 16 != 0 || shape->batch > 4) {
    say(message, "sizes are off the kernel's grid");
    return KSCOUT_KERNEL_UNSUPPORTED;
  }
#if defined(TOY_HUGE_WORKSPACE)
  *bytes = UINT64_MAX;
#else
  *bytes = (uint64_t)shape->n * sizeof(double);
#endif
  return KSCOUT_KERNEL_OK;
}

/* Refuses everything: the index promises more than the kernel keeps. */
static int32_t never(const kscout_kernel* self, const kscout_kernel_shape* shape, uint64_t* bytes,
                     kscout_kernel_message message) {
  (void)self, (void)shape, (void)bytes;
  say(message, "this kernel never runs");
  return KSCOUT_KERNEL_UNSUPPORTED;
}

static int32_t run(const kscout_kernel* self, const kscout_kernel_shape* s, const kscout_kernel_call* call,
                   kscout_kernel_message message) {
  const layout* const how = self->data;
  double* const row = call->workspace;
  if (call->workspace_bytes < (uint64_t)s->n * sizeof(double)) {
    say(message, "the workspace is too small");
    return KSCOUT_KERNEL_FAILED;
  }
  for (int64_t item = 0; item < s->batch; ++item) {
    const float* const a = (const float*)call->operands[0] + item * s->stride_a;
    const float* const b = (const float*)call->operands[1] + item * s->stride_b;
    float* const c = (float*)call->c + item * s->stride_c;
    for (int64_t i = 0; i < s->m; ++i) {
      for (int64_t j = 0; j < s->n; ++j) row[j] = 0;
      for (int64_t p = 0; p < s->k; ++p) {
        const double x = how->row_a ? a[i * s->lda + p] : a[p * s->lda + i];
        for (int64_t j = 0; j < s->n; ++j) row[j] += x * (how->row_b ? b[p * s->ldb + j] : b[j * s->ldb + p]);
      }
      for (int64_t j = 0; j < s->n; ++j) {
        const double before = call->beta != 0 ? call->beta * c[i * s->ldc + j] : 0;
        c[i * s->ldc + j] = (float)(call->alpha * row[j] + before);
      }
    }
  }
  return KSCOUT_KERNEL_OK;
}

/* The same for bf16 of layout rcr and any size: what a GPU's library would compute, for backends whose GPU is
 * the CPU. */
static float from_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static int32_t any_size(const kscout_kernel* self, const kscout_kernel_shape* shape, uint64_t* bytes,
                        kscout_kernel_message message) {
  (void)self, (void)shape, (void)message;
  *bytes = 64;
  return KSCOUT_KERNEL_OK;
}

static int32_t run_bf16(const kscout_kernel* self, const kscout_kernel_shape* s,
                        const kscout_kernel_call* call, kscout_kernel_message message) {
  (void)self, (void)message;
  for (int64_t item = 0; item < s->batch; ++item) {
    for (int64_t i = 0; i < s->m; ++i) {
      for (int64_t j = 0; j < s->n; ++j) {
        const uint16_t* const a = (const uint16_t*)call->a + item * s->stride_a + i * s->lda;
        const uint16_t* const b = (const uint16_t*)call->b + item * s->stride_b + j * s->ldb;
        double sum = 0;
        for (int64_t p = 0; p < s->k; ++p) sum += (double)from_bf16(a[p]) * from_bf16(b[p]);
        ((uint16_t*)call->c)[item * s->stride_c + i * s->ldc + j] = to_bf16((float)(call->alpha * sum));
      }
    }
  }
  return KSCOUT_KERNEL_OK;
}

/* Ways to misbehave once it runs. */
static int32_t run_crash(const kscout_kernel* self, const kscout_kernel_shape* s,
                         const kscout_kernel_call* call, kscout_kernel_message message) {
  (void)self, (void)s, (void)call, (void)message;
  raise(SIGSEGV);
  return KSCOUT_KERNEL_FAILED;
}

static int32_t run_hang(const kscout_kernel* self, const kscout_kernel_shape* s,
                        const kscout_kernel_call* call, kscout_kernel_message message) {
  (void)self, (void)s, (void)call, (void)message;
  while (pause() != 0) {
  }
  return KSCOUT_KERNEL_FAILED;
}

static int32_t run_lie(const kscout_kernel* self, const kscout_kernel_shape* s,
                       const kscout_kernel_call* call, kscout_kernel_message message) {
  const int32_t status = run(self, s, call, message);
  for (int64_t j = 0; j < s->n; ++j) ((float*)call->c)[j] += 1e3f;
  return status;
}

/* Right for an ordinary call only. */
static int32_t run_without_alpha(const kscout_kernel* self, const kscout_kernel_shape* s,
                                 const kscout_kernel_call* call, kscout_kernel_message message) {
  kscout_kernel_call changed = *call;
  changed.alpha = 1;
  return run(self, s, &changed, message);
}

static int32_t run_packed(const kscout_kernel* self, const kscout_kernel_shape* s,
                          const kscout_kernel_call* call, kscout_kernel_message message) {
  kscout_kernel_shape changed = *s;
  changed.lda = changed.ldb = s->k;
  changed.ldc = s->n;
  return run(self, &changed, call, message);
}

static int32_t run_aligned(const kscout_kernel* self, const kscout_kernel_shape* s,
                           const kscout_kernel_call* call, kscout_kernel_message message) {
  kscout_kernel_call changed = *call;
  const void* const operands[] = {(const void*)((uintptr_t)call->a & ~(uintptr_t)15), call->b, call->c};
  changed.operands = operands;
  return run(self, s, &changed, message);
}

/* Says what it cannot do. */
static int32_t run_refusing_alpha(const kscout_kernel* self, const kscout_kernel_shape* s,
                                  const kscout_kernel_call* call, kscout_kernel_message message) {
  if (call->alpha == 1) return run(self, s, call, message);
  say(message, "alpha is 1");
  return KSCOUT_KERNEL_UNSUPPORTED;
}

static int32_t open_device(kscout_kernel_message message) {
#if defined(TOY_CANNOT_OPEN)
  say(message, "there is no such device");
  return KSCOUT_KERNEL_FAILED;
#else
  (void)message;
  const char* const log = getenv("TOY_LIBRARY_OPENED"); /* tells a test that somebody opened the library */
  FILE* const file = log ? fopen(log, "a") : NULL;
  if (file) {
    fputs("opened\n", file);
    fclose(file);
  }
  return KSCOUT_KERNEL_OK;
#endif
}

#if !defined(TOY_RRR)
#define TOY_RRR "toy_rrr"
#endif
#if defined(TOY_NAMED)
#if !defined(TOY_RCR)
#define TOY_RCR \
  "gemm_universal_fp32_rcr_compv3_default_intrawave_False_False_False_False_64x64x16_2x2x1_16x16x16"
#endif
static const kscout_kernel kernels[] = {{TOY_RCR, workspace_bytes, run, &rcr}};
#else
static const kscout_kernel kernels[] = {{"toy_rcr", workspace_bytes, run, &rcr},
                                        {TOY_RRR, workspace_bytes, run, &rrr},
                                        {"toy_crr", workspace_bytes, run, &crr},
                                        {"toy_ccr", workspace_bytes, run, &ccr},
                                        {"toy_never", never, run, &rcr},
                                        {"toy_bf16", any_size, run_bf16, &rcr},
                                        {"toy_crash", workspace_bytes, run_crash, &rcr},
                                        {"toy_hang", workspace_bytes, run_hang, &rcr},
                                        {"toy_lie", workspace_bytes, run_lie, &rcr},
                                        {"toy_without_alpha", workspace_bytes, run_without_alpha, &rcr},
                                        {"toy_packed", workspace_bytes, run_packed, &rcr},
                                        {"toy_aligned", workspace_bytes, run_aligned, &rcr},
                                        {"toy_refusing_alpha", workspace_bytes, run_refusing_alpha, &rcr}};
#endif

#if defined(TOY_CRASHES)
__attribute__((constructor)) static void crash(void) { raise(SIGSEGV); }
#endif
#if defined(TOY_EXITS)
__attribute__((constructor)) static void leave(void) { _Exit(7); }
#endif

#if defined(TOY_HANGS)
__attribute__((constructor)) static void hang(void) {
  for (;;) pause();
}
#endif

#if !defined(TOY_BACKEND)
#define TOY_BACKEND "cpu"
#endif
#if !defined(TOY_KERNEL_COUNT)
#define TOY_KERNEL_COUNT (sizeof kernels / sizeof kernels[0])
#endif
#if !defined(TOY_ABI)
#define TOY_ABI KSCOUT_KERNEL_ABI
#endif

const kscout_kernel_library* kscout_kernel_library_get(void) {
#if defined(TOY_CRASHES_IN_GET)
  abort();
#endif
  static const kscout_kernel_library library = {.abi = TOY_ABI,
                                                .struct_size = sizeof(kscout_kernel_library),
                                                .backend = TOY_BACKEND,
                                                .open = open_device,
                                                .kernel_count = TOY_KERNEL_COUNT,
                                                .kernel_size = sizeof(kscout_kernel),
                                                .kernels = kernels};
  return &library;
}
#endif
