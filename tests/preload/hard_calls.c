/* Calls a BLAS under conditions that programs meet rarely, and checks each product against sums in double.
 *
 *     hard_calls LIBRARY FUNCTION BITS WORD [COUNT [SEED]]
 *
 * LIBRARY is opened with local scope; FUNCTION is cblas_sgemm, sgemm_ or scipy_cblas_sgemm64_, whose integers
 * have BITS. Prints "right" last. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { kRows = 101, kColumns = 102, kPlain = 111, kTurned = 112, kMaxSize = 400 };

static const char* function_name;
static void* taken;
static int bits;
static void (*faults_begin)(long);
static int (*faults_end)(void);

static void fail(const char* what) {
  printf("wrong: %s\n", what);
  fflush(stdout);
  _exit(1);
}

/* ---- One product. */

struct product {
  int order, ta, tb;
  int64_t m, n, k;
  float alpha, beta;
  float *a, *b, *c;
  int64_t lda, ldb, ldc;
};

static void compute(const struct product* p) {
  if (strcmp(function_name, "sgemm_") != 0) {
    if (bits == 64) {
      ((void (*)(int, int, int, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                 int64_t, float, float*, int64_t))taken)(p->order, p->ta, p->tb, p->m, p->n, p->k, p->alpha,
                                                         p->a, p->lda, p->b, p->ldb, p->beta, p->c, p->ldc);
    } else {
      ((void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                 int))taken)(p->order, p->ta, p->tb, (int)p->m, (int)p->n, (int)p->k, p->alpha, p->a,
                             (int)p->lda, p->b, (int)p->ldb, p->beta, p->c, (int)p->ldc);
    }
    return;
  }
  /* Rows are columns of the transposed product. */
  const int rows = p->order == kRows;
  const char* const ta = (rows ? p->tb : p->ta) == kPlain ? "N" : "T";
  const char* const tb = (rows ? p->ta : p->tb) == kPlain ? "N" : "T";
  const int64_t wide[] = {rows ? p->n : p->m,     rows ? p->m : p->n,     p->k,
                          rows ? p->ldb : p->lda, rows ? p->lda : p->ldb, p->ldc};
  int narrow[6];
  for (int i = 0; i < 6; ++i) narrow[i] = (int)wide[i];
  const void* at[6];
  for (int i = 0; i < 6; ++i) at[i] = bits == 64 ? (const void*)&wide[i] : (const void*)&narrow[i];
  ((void (*)(const char*, const char*, const void*, const void*, const void*, const float*, const float*,
             const void*, const float*, const void*, const float*, float*, const void*, size_t,
             size_t))taken)(ta, tb, at[0], at[1], at[2], &p->alpha, rows ? p->b : p->a, at[3],
                            rows ? p->a : p->b, at[4], &p->beta, p->c, at[5], 1, 1);
}

static float element(const float* from, int64_t leading, int by_rows, int64_t i, int64_t j) {
  return by_rows ? from[i * leading + j] : from[j * leading + i];
}

/* Whether C is that of the product, up to the rounding of sums in fp32, in any mode. `before`: C then. */
static void check(const struct product* p, const float* before) {
  const int rows = p->order == kRows;
  for (int64_t i = 0; i < p->m; ++i) {
    for (int64_t j = 0; j < p->n; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < p->k && p->alpha != 0; ++l) {
        const double x = element(p->a, p->lda, rows == (p->ta == kPlain), i, l);
        const double y = element(p->b, p->ldb, rows == (p->tb == kPlain), l, j);
        sum += x * y;
        size += fabs(x * y);
      }
      const double old = p->beta != 0 ? p->beta * (double)element(before, p->ldc, rows, i, j) : 0;
      const double error = fabs(element(p->c, p->ldc, rows, i, j) - (p->alpha * sum + old));
      const double bound =
          (fabs(p->alpha) * size + fabs(old)) * (double)(p->k + 4) * 0x1p-23 + (double)(p->k + 4) * 0x1p-126;
      if (!(error <= bound)) {
        printf(
            "wrong: order %d transposed %d %d, %ldx%ldx%ld alpha %g beta %g ld %ld %ld %ld: C(%ld,%ld) is "
            "%g, "
            "not %g\n",
            p->order, p->ta, p->tb, (long)p->m, (long)p->n, (long)p->k, p->alpha, p->beta, (long)p->lda,
            (long)p->ldb, (long)p->ldc, (long)i, (long)j, element(p->c, p->ldc, rows, i, j),
            p->alpha * sum + old);
        fflush(stdout);
        _exit(1);
      }
    }
  }
  /* What lies between the columns of C stays. */
  const int64_t lines = rows ? p->m : p->n, length = rows ? p->n : p->m;
  for (int64_t line = 0; line + 1 < lines; ++line) {
    if (memcmp(p->c + line * p->ldc + length, before + line * p->ldc + length,
               (size_t)(p->ldc - length) * sizeof(float)) != 0)
      fail("C was written between its lines");
  }
}

/* ---- Products at random. */

static uint64_t draw(uint64_t* state) { /* SplitMix64 */
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
static int64_t below(uint64_t* state, int64_t limit) { return (int64_t)(draw(state) % (uint64_t)limit); }
static float value(uint64_t* state) { return (float)(draw(state) >> 40) * 0x1p-23f - 1; }
static int64_t size(uint64_t* state) {
  return (int64_t)exp((double)(draw(state) >> 11) * 0x1p-53 * log(kMaxSize)) + below(state, 2);
}

static float* matrix(uint64_t* state, int64_t lines, int64_t length, int64_t leading, int tiny) {
  float* const memory = malloc((size_t)(lines * leading + 1) * sizeof(float));
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t i = 0; i < leading; ++i)
      memory[line * leading + i] = i < length ? value(state) * (tiny ? 1e-20f : 1) : NAN;
  }
  return memory;
}

static struct product random_product(uint64_t* state) {
  static const float factors[] = {1, 1, 1, -1, 0.5F, 0};
  struct product p = {.order = below(state, 2) ? kRows : kColumns,
                      .ta = below(state, 2) ? kPlain : kTurned,
                      .tb = below(state, 2) ? kPlain : kTurned,
                      .m = size(state),
                      .n = size(state),
                      .k = size(state),
                      .alpha = factors[below(state, 6)],
                      .beta = below(state, 2) ? 0 : factors[below(state, 6)]};
  const int rows = p.order == kRows, tiny = below(state, 8) == 0;
  const int64_t gap[] = {below(state, 3) * below(state, 20), below(state, 3) * below(state, 20),
                         below(state, 3) * below(state, 20)};
  const int a_by_rows = rows == (p.ta == kPlain), b_by_rows = rows == (p.tb == kPlain);
  p.lda = (a_by_rows ? p.k : p.m) + gap[0];
  p.ldb = (b_by_rows ? p.n : p.k) + gap[1];
  p.ldc = (rows ? p.n : p.m) + gap[2];
  p.a = matrix(state, a_by_rows ? p.m : p.k, a_by_rows ? p.k : p.m, p.lda, tiny);
  p.b = matrix(state, b_by_rows ? p.k : p.n, b_by_rows ? p.n : p.k, p.ldb, tiny);
  p.c = matrix(state, rows ? p.m : p.n, p.beta == 0 ? 0 : rows ? p.n : p.m, p.ldc, 0);
  return p;
}

static void forget(struct product* p) {
  free(p->a);
  free(p->b);
  free(p->c);
}

static float* copy_of_c(const struct product* p) {
  const size_t bytes = (size_t)((p->order == kRows ? p->m : p->n) * p->ldc) * sizeof(float);
  float* const copy = malloc(bytes + 1);
  memcpy(copy, p->c, bytes);
  return copy;
}

/* Rounding, and flush to zero where the processor has it. */
static void set_control(uint64_t* state) {
  static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  fesetround(modes[below(state, 4)]);
#if defined(__x86_64__)
  _mm_setcsr((_mm_getcsr() & ~0x8040U) | (below(state, 2) ? 0x8040U : 0));
#endif
}

static void check_at_random(uint64_t* state) {
  struct product p = random_product(state);
  float* const before = copy_of_c(&p);
  fenv_t usual;
  fegetenv(&usual);
  set_control(state);
  if (faults_begin && below(state, 4) == 0) faults_begin(1 + below(state, 40) * below(state, 40));
  const int rounding = fegetround();
  compute(&p);
  if (fegetround() != rounding) fail("the rounding mode has changed");
  if (faults_end) faults_end();
  fesetenv(&usual);
  check(&p, before);
  free(before);
  forget(&p);
}

static long count = 100;
static void* at_random(void* seed) {
  uint64_t state = (uint64_t)(uintptr_t)seed;
  for (long i = 0; i < count; ++i) check_at_random(&state);
  return NULL;
}

/* ---- A product that several threads compute. */

static struct product filled(int64_t m, int64_t n, int64_t k, float x, float y) {
  struct product p = {kRows, kPlain, kPlain, m, n, k, 1, 0, NULL, NULL, NULL, k, n, n};
  float** const all[] = {&p.a, &p.b, &p.c};
  const int64_t sizes[] = {m * k, k * n, m * n};
  for (int i = 0; i < 3; ++i) {
    *all[i] = malloc((size_t)sizes[i] * sizeof(float));
    for (int64_t j = 0; j < sizes[i]; ++j) (*all[i])[j] = i == 0 ? x : i == 1 ? y : NAN;
  }
  return p;
}
static struct product large(float x, float y) { return filled(256, 256, 256, x, y); }
static void check_large(void) {
  struct product p = large(1, 1);
  compute(&p);
  check(&p, p.c);
  forget(&p);
}
static void* compute_large(void* unused) {
  (void)unused;
  check_large();
  return NULL;
}

/* All elements have the same operands, so they are equal in each mode: also those that workers compute. */
static void control(void) {
  struct product p = large(0.1F, 0.3F);
  for (int round = 0; round < 2; ++round) {
    for (int mode = 0; mode < 2; ++mode) {
      fesetround(mode == 0 ? FE_UPWARD : FE_TONEAREST);
      compute(&p);
      fesetround(FE_TONEAREST);
      for (int i = 0; i < 256 * 256; ++i)
        if (p.c[i] != p.c[0]) fail("rounding differs between elements");
    }
  }
  forget(&p);
#if defined(__x86_64__)
  p = large(1e-20F, 1e-20F);
  const unsigned usual = _mm_getcsr();
  _mm_setcsr(usual | 0x8040);
  compute(&p);
  _mm_setcsr(usual);
  for (int i = 0; i < 256 * 256; ++i) {
    uint32_t element_bits;
    memcpy(&element_bits, &p.c[i], sizeof element_bits);
    if (element_bits) fail("a product of denormals was not flushed to zero");
  }
  forget(&p);
#endif
}

/* ---- Threads. */

static void (*cancelled_in)(void);
static void* cancelled(void* unused) {
  (void)unused;
  for (int i = 0; i < 20; ++i) cancelled_in();
  pthread_testcancel();
  fail("the thread was not cancelled");
  return NULL;
}
static void cancel(void (*product)(void)) {
  pthread_t thread;
  void* result;
  cancelled_in = product;
  pthread_create(&thread, NULL, cancelled, NULL);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  if (result != PTHREAD_CANCELED) fail("the thread went on");
  product();
}

static void small_stacks(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384);
  pthread_create(&thread, &attributes, compute_large, NULL);
  pthread_join(thread, NULL);
}

static void fiber(void) {
  enum { kBytes = 16384, kPage = 4096 };
  ucontext_t here, there;
  char* const stack = mmap(NULL, kPage + kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(stack, kPage, PROT_NONE);
  getcontext(&there);
  there.uc_stack.ss_sp = stack + kPage;
  there.uc_stack.ss_size = kBytes;
  there.uc_link = &here;
  makecontext(&there, check_large, 0);
  swapcontext(&here, &there);
}

/* ---- Integers of 64 bits. */

static float* untouched(int64_t elements) {
  float* const memory = mmap(NULL, (size_t)elements * sizeof(float), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("no room for a wide matrix");
  return memory;
}

static struct product wide_product(void) {
  const int64_t leading = (INT64_C(1) << 32) + 300;
  struct product p = {kRows, kPlain, kTurned, 2, 2, 64, 1, 0, NULL, NULL, NULL, leading, leading, leading};
  p.a = untouched(2 * leading);
  p.b = untouched(2 * leading);
  p.c = untouched(2 * leading);
  return p;
}

static void wide(void) {
  struct product p = wide_product();
  for (int i = 0; i < p.k; ++i) {
    p.a[i] = p.b[i] = 1;
    p.a[p.lda + i] = 2;
    p.b[p.ldb + i] = 3;
  }
  compute(&p);
  if (p.c[0] != 64 || p.c[1] != 192 || p.c[p.ldc] != 128 || p.c[p.ldc + 1] != 384)
    fail("leading dimensions above 2^32");
}

static void deep(void) {
  struct product p = wide_product();
  p.m = p.n = 1;
  p.k = p.lda;
  p.a[3] = p.b[3] = 2;
  p.a[INT64_C(1) << 31] = p.b[INT64_C(1) << 31] = 3;
  p.a[p.k - 1] = p.b[p.k - 1] = 4;
  compute(&p);
  if (p.c[0] != 4 + 9 + 16) fail("K above 2^32");
}

/* The BLAS reports a negative M, and may end the process. */
static void negative(void) {
  struct product p = wide_product();
  p.m = -1;
  p.c[0] = 11;
  compute(&p);
  if (p.c[0] != 11) fail("a negative M");
}

/* Two libraries call cblas_sgemm, each that of the BLAS with which it is linked. */
static void callers(const char* first, const char* second) {
  enum { kSize = 160 };
  typedef int (*multiply)(int64_t, const float*, const float*, int64_t, float*);
  static float a[2 * kSize * kSize], c[kSize * kSize];
  const char* const names[] = {first, second};
  multiply functions[2];
  for (int i = 0; i < 2 * kSize * kSize; ++i) a[i] = 1;
  for (int i = 0; i < 2; ++i) {
    void* const library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    *(void**)&functions[i] = dlsym(library, "multiply");
  }
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 2; ++i) {
      memset(c, 0xff, sizeof c);
      const int calls = functions[i](round % 2 ? 8 : kSize, a, a, 3, c);
      if (c[5] != (round % 2 ? 8 : kSize)) fail("a caller's product");
      printf("%d ", calls);
    }
  }
  puts("calls that the libraries have seen");
}

static void* function_of(void* library, const char* name) {
  void* const function = library ? dlsym(library, name) : NULL;
  if (!function) fail(dlerror());
  return function;
}

/* Products of a library with parallel loops run on its threads: no others are started. */
static int (*multiply_on)(int threads);
static void multiply_on_two(void) {
  if (!multiply_on(2)) fail("a product of two threads");
}
static void team(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  int (*multiply_in_team)(int);
  *(void**)&multiply_in_team = function_of(library, "multiply_in_team");
  *(void**)&multiply_on = function_of(library, "multiply_on");
  for (int threads = 1; threads <= 3; ++threads) {
    const int others = multiply_in_team(threads);
    if (others != 0) fail(others < 0 ? "a product of a team" : "threads besides the team");
  }
  cancel(multiply_on_two);
  /* A child has the caller's thread only, and GNU's runtime would wait for the others. */
  const pid_t child = fork();
  int status;
  if (child == 0) {
    alarm(20);
    multiply_on_two();
    _exit(0);
  }
  waitpid(child, &status, 0);
  if (status != 0) fail("a product of a child");
  multiply_on_two();
}

/* Libraries that follow each other at one address, each with a BLAS of its own. */
static void unload(const char* name, const char* next) {
  enum { kRounds = 6 };
  const float a[2] = {1, 1};
  const void* where[kRounds];
  for (int round = 0; round < kRounds; ++round) {
    void* const library = dlopen(round % 2 ? next : name, RTLD_NOW | RTLD_LOCAL);
    int (*multiply)(int64_t, const float*, const float*, int64_t, float*);
    float c = 0;
    *(void**)&multiply = function_of(library, "multiply");
    where[round] = *(void**)&multiply;
    if (multiply(1, a, a, 0, &c) == 0 || c != 1) fail("a product went to the BLAS of an unloaded library");
    dlclose(library);
  }
  puts(where[0] == where[1] ? "at one address" : "at two addresses");
}

/* ---- Each allocation and thread start of kscout exec fails once: in a child that begins with `prepare`. */

static int has_reached_all(void (*prepare)(void), long at) {
  const pid_t child = fork();
  int status;
  if (child == 0) {
    struct product p = filled(64, 64, 4096, 1, 1); /* its kernel has a workspace */
    p.beta = 0.5F;
    for (int i = 0; i < 64 * 64; ++i) p.c[i] = 2;
    float* const before = copy_of_c(&p);
    prepare();
    faults_begin(at);
    compute(&p);
    const int reached = faults_end();
    check(&p, before);
    /* What failed does no harm later: --refine times 12 calls. */
    for (int i = 0; i < 13; ++i) compute(&p);
    check_large();
    exit(reached ? 7 : 0);
  }
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 7)) {
    printf("wrong: status %d when number %ld fails\n", status, at);
    exit(1);
  }
  return WEXITSTATUS(status) == 7;
}
/* All of the first and the last, some between them. */
static void each_fault(void (*prepare)(void)) {
  enum { kEach = 40 };
  long reached = 0, at = 1;
  for (; !has_reached_all(prepare, at); reached = at) at += 1 + (at > kEach ? at / 3 : 0);
  while (at - reached > 1) {
    const long half = reached + (at - reached) / 2;
    *(has_reached_all(prepare, half) ? &at : &reached) = half;
  }
  for (long i = reached > 2 * kEach ? reached - kEach : reached; i < reached; ++i)
    has_reached_all(prepare, i);
  printf("%ld faults\n", reached);
  fflush(stdout); /* before the next fork */
}
static void nothing(void) {}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  function_name = argv[2];
  bits = atoi(argv[3]);
  taken = library ? dlsym(RTLD_DEFAULT, function_name) : NULL;
  if (!taken && library) taken = dlsym(library, function_name); /* without kscout exec */
  if (!taken && strcmp(argv[4], "callers") != 0 && strcmp(argv[4], "team") != 0)
    fail(library ? "no such function" : dlerror());
  *(void**)&faults_begin = dlsym(RTLD_DEFAULT, "faults_begin");
  *(void**)&faults_end = dlsym(RTLD_DEFAULT, "faults_end");
  const char* const word = argv[4];
  if (argc > 5) count = atol(argv[5]);
  const uint64_t seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 1;
  if (strcmp(word, "random") == 0) {
    enum { kThreads = 3 };
    pthread_t threads[kThreads];
    for (uintptr_t i = 0; i < kThreads; ++i)
      pthread_create(&threads[i], NULL, at_random, (void*)(uintptr_t)(seed * 10 + i));
    for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  } else if (strcmp(word, "control") == 0) {
    control();
  } else if (strcmp(word, "cancel") == 0) {
    cancel(check_large);
  } else if (strcmp(word, "small_stacks") == 0) {
    small_stacks();
  } else if (strcmp(word, "wide") == 0) {
    wide();
  } else if (strcmp(word, "deep") == 0) {
    deep();
  } else if (strcmp(word, "negative") == 0) {
    negative();
  } else if (strcmp(word, "team") == 0) {
    team(argv[1]);
  } else if (strcmp(word, "late") == 0) {
    callers(argv[5], argv[5]);
    team(argv[6]);
  } else if (strcmp(word, "unload") == 0) {
    unload(argv[5], argv[6]);
  } else if (strcmp(word, "callers") == 0) {
    callers(argv[1], argv[5]);
  } else if (strcmp(word, "fiber") == 0) {
    fiber();
  } else if (strcmp(word, "large") == 0) {
    check_large();
  } else if (strcmp(word, "faults") == 0) {
    each_fault(nothing);
    each_fault(check_large);
    struct product p = large(1, 1); /* another problem, so that the first of a child is decided there */
    p.n = 200;
    compute(&p);
    check(&p, p.c);
    each_fault(nothing);
    check_large();
    each_fault(nothing);
  } else if (strcmp(word, "exit_main") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, compute_large, NULL);
    check_large();
    puts("right");
    fflush(stdout);
    pthread_exit(NULL);
  } else {
    return 2;
  }
  puts("right");
  return 0;
}
