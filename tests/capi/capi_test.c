/* The C interface from C99: what a C program sees, errors included. Prints the failing line, returns how many
 * failed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kscout/kscout.h>

static int failures;

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      ++failures;                                                                                           \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, kscout_last_error()); \
    }                                                                                                       \
  } while (0)

/* The status, and that the message holds `words`. */
#define CHECK_FAILS(call, expected, words)               \
  do {                                                   \
    CHECK((call) == (expected));                         \
    CHECK(strstr(kscout_last_error(), (words)) != NULL); \
  } while (0)

static void test_versions_and_errors(void) {
  CHECK(kscout_abi_version() == KSCOUT_ABI_VERSION);
  CHECK(strcmp(kscout_version(), KSCOUT_VERSION) == 0);
  CHECK(strcmp(kscout_last_error(), "") == 0); /* nothing has failed yet */
  CHECK(strcmp(kscout_status_word(KSCOUT_OK), "ok") == 0);
  CHECK(strcmp(kscout_status_word(KSCOUT_CORRUPT_DATA), "corrupt_data") == 0);
  CHECK(strcmp(kscout_status_word(KSCOUT_FAILED), "failed") == 0);
  CHECK(strcmp(kscout_status_word(99), "") == 0);
}

static void test_problems(void) {
  kscout_gemm problem, again;
  char text[128];
  size_t needed = 0;
  kscout_gemm_init(&problem, 16, 4096, 512, KSCOUT_DTYPE_INT8, KSCOUT_LAYOUT_RRR);
  CHECK(problem.batch == 1 && problem.dtype_c == KSCOUT_DTYPE_INT32 &&
        problem.dtype_acc == KSCOUT_DTYPE_INT32);
  problem.batch = 2;
  CHECK(kscout_gemm_print(&problem, text, sizeof text, &needed) == KSCOUT_OK);
  CHECK(strcmp(text, "gemm:16x4096x512:int8:rrr:batch=2") == 0 && needed == strlen(text) + 1);
  CHECK(kscout_gemm_parse(text, &again) == KSCOUT_OK);
  CHECK(memcmp(&problem, &again, sizeof problem) == 0);

  needed = 0;
  CHECK_FAILS(kscout_gemm_print(&problem, NULL, 0, &needed), KSCOUT_INVALID_ARGUMENT, "size 0");
  CHECK(needed == strlen(text) + 1);
  CHECK_FAILS(kscout_gemm_parse("gemm:1x2", &again), KSCOUT_INVALID_ARGUMENT, "MxNxK");
  CHECK_FAILS(kscout_gemm_parse("gemm:16x16x16:m=5", &again), KSCOUT_INVALID_ARGUMENT,
              "m is given twice: m=16 and m=5");
  {
    char hostile[3000];
    memset(hostile, 'x', sizeof hostile);
    memcpy(hostile, "gemm:8x8x8:\033[2J\xff", 16);
    hostile[sizeof hostile - 1] = '\0';
    CHECK_FAILS(kscout_gemm_parse(hostile, &again), KSCOUT_INVALID_ARGUMENT, "\\u001b[2J\\xff");
    CHECK(strlen(kscout_last_error()) < 600);
  }
  CHECK_FAILS(kscout_gemm_parse(NULL, &again), KSCOUT_INVALID_ARGUMENT, "'text' is NULL");
  CHECK(memcmp(&problem, &again, sizeof problem) == 0); /* a failing call writes nothing */
  problem.reserved[0] = 1;
  CHECK_FAILS(kscout_gemm_print(&problem, text, sizeof text, NULL), KSCOUT_INVALID_ARGUMENT, "reserved");
  kscout_gemm_init(&problem, 1, 1, 1, 77, KSCOUT_LAYOUT_RCR);
  CHECK_FAILS(kscout_gemm_print(&problem, text, sizeof text, NULL), KSCOUT_INVALID_ARGUMENT, "dtype=77");
  kscout_gemm_init(&problem, 1, 1, 1, KSCOUT_DTYPE_FP32, -1);
  CHECK_FAILS(kscout_gemm_print(&problem, text, sizeof text, NULL), KSCOUT_INVALID_ARGUMENT, "layout=-1");
}

static void test_convolutions(void) {
  kscout_conv problem, again;
  kscout_device* device = NULL;
  kscout_selector* selector = NULL;
  kscout_request request;
  kscout_choice choice, best[3];
  char text[160];
  size_t needed = 0, count = 0;
  kscout_conv_init(&problem, KSCOUT_OP_CONV_FWD, KSCOUT_DTYPE_BF16);
  problem.n = 8;
  problem.c = 64;
  problem.k = 128;
  problem.h = problem.w = 28;
  problem.y = problem.x = 3;
  problem.left_pad_h = problem.left_pad_w = problem.right_pad_h = problem.right_pad_w = 1;
  CHECK(kscout_conv_print(&problem, text, sizeof text, &needed) == KSCOUT_OK);
  CHECK(strcmp(text, "conv_fwd:8x64x28x28:128x3x3:bf16:nhwgc:pad=1") == 0 && needed == strlen(text) + 1);
  CHECK(kscout_conv_parse(text, &again) == KSCOUT_OK && memcmp(&problem, &again, sizeof problem) == 0);
  CHECK_FAILS(kscout_conv_parse("conv_fwd:1x8x8x8:8x3x3:pad=1:pad=2", &again), KSCOUT_INVALID_ARGUMENT,
              "pad is given twice: pad=1 and pad=2");
  CHECK(kscout_conv_parse("conv_fwd:1x8x8x8:8x3x3:left_pad_h=2:pad=1", &again) == KSCOUT_OK);
  CHECK(again.left_pad_h == 2 && again.right_pad_h == 1 && again.left_pad_w == 1);
  CHECK_FAILS(kscout_conv_parse("conv_fwd:1x2", &again), KSCOUT_INVALID_ARGUMENT, "NxCxHxW");
  CHECK(kscout_conv_parse("conv_fwd:1x8x8x8:8x3x3:epilogue=bias", &again) == KSCOUT_OK);
  CHECK(again.epilogue == KSCOUT_EPILOGUE_BIAS);

  CHECK(kscout_device_find("gfx950", &device) == KSCOUT_OK);
  kscout_request_init(&request);
  request.device = device;
  request.op = KSCOUT_OP_CONV_FWD;
  CHECK(kscout_selector_find(KSCOUT_DTYPE_BF16, &request, &selector) == KSCOUT_OK);
  if (selector) {
    CHECK(kscout_select_conv(selector, &problem, KSCOUT_BY_BEST, &choice) == KSCOUT_OK);
    CHECK(choice.source == KSCOUT_SOURCE_MODEL && choice.time_us > 0);
    CHECK(kscout_rank_conv(selector, &problem, KSCOUT_BY_BEST, best, 3, &count) == KSCOUT_OK && count == 3);
    CHECK(memcmp(&best[0].config, &choice.config, sizeof choice.config) == 0);
    CHECK(kscout_conv_config_name(&problem, &choice.config, text, sizeof text, NULL) == KSCOUT_OK &&
          strncmp(text, "grouped_conv_f", 14) == 0);
    problem.g = 7;
    CHECK_FAILS(kscout_select_conv(selector, &problem, KSCOUT_BY_BEST, &choice), KSCOUT_INVALID_ARGUMENT,
                "g=7");
  }
  request.op = 9;
  CHECK_FAILS(kscout_selector_find(KSCOUT_DTYPE_BF16, &request, &selector), KSCOUT_INVALID_ARGUMENT, "op=9");
  kscout_selector_free(selector);
  kscout_device_free(device);
}

static void test_devices(void) {
  kscout_device *here = NULL, *preset = NULL, *none = NULL;
  double cores = 0, waves = 0;
  const char *kind = NULL, *name = NULL;
  CHECK(kscout_device_find("auto", &here) == KSCOUT_OK);
  CHECK(kscout_device_number(here, "cores", &cores) == KSCOUT_OK && cores >= 1);
  CHECK(kscout_device_number(here, "max_waves_per_core", &waves) == KSCOUT_OK &&
        isnan(waves)); /* a GPU's fact */
  CHECK(kscout_device_text(here, "kind", &kind) == KSCOUT_OK && strcmp(kind, "cpu") == 0);
  CHECK(kscout_device_find("h200", &preset) == KSCOUT_OK);
  CHECK(kscout_device_text(preset, "name", &name) == KSCOUT_OK && strcmp(name, "h200") == 0);
  CHECK_FAILS(kscout_device_find("h20", &none), KSCOUT_NOT_FOUND, "did you mean 'h200'");
  CHECK(none == NULL);
  CHECK_FAILS(kscout_device_number(here, "core", &cores), KSCOUT_INVALID_ARGUMENT, "did you mean 'cores'");
  CHECK_FAILS(kscout_device_number(NULL, "cores", &cores), KSCOUT_INVALID_ARGUMENT, "'device' is NULL");
  kscout_device_free(here);
  kscout_device_free(preset);
  kscout_device_free(NULL);
}

static void test_verdict(const kscout_selector* selector, const kscout_gemm* problem,
                         const kscout_config* chosen) {
  kscout_verdict verdict;
  kscout_config config;
  kscout_conv conv;
  CHECK(kscout_verdict_of(selector, problem, chosen, &verdict) == KSCOUT_OK);
  CHECK(verdict.status == KSCOUT_VERDICT_ALLOWED && !verdict.rule[0] && !verdict.because[0]);
  /* A GPU's library: none of its configs runs on a CPU. */
  CHECK(kscout_config_parse("cublaslt_gemm_bf16_rcr_v130100__a66_64x64x64_st0_s9_acc_w0_o0_any_c1x1",
                            &config) == KSCOUT_OK);
  CHECK(kscout_verdict_of(selector, problem, &config, &verdict) == KSCOUT_OK);
  CHECK(verdict.status == KSCOUT_VERDICT_REFUSED && strcmp(verdict.rule, "nvidia") == 0);
  CHECK(verdict.because[0] && !verdict.since[0]);
  kscout_conv_init(&conv, KSCOUT_OP_CONV_FWD, KSCOUT_DTYPE_FP32);
  CHECK(kscout_verdict_of_conv(selector, &conv, chosen, &verdict) == KSCOUT_OK);
  CHECK(verdict.status == KSCOUT_VERDICT_REFUSED && strcmp(verdict.rule, "operation") == 0);
  CHECK_FAILS(kscout_verdict_of(selector, problem, chosen, NULL), KSCOUT_INVALID_ARGUMENT,
              "'verdict' is NULL");
}

/* Limits of a dispatcher's runs. */
static void test_limits(void) {
  kscout_policy policy;
  kscout_dispatcher* dispatcher = NULL;
  kscout_gemm problem;
  kscout_buffers buffers;
  kscout_choice choice;
  size_t bytes = 0;
  static float a[16 * 16], b[16 * 16], c[16 * 16];
  kscout_policy_init(&policy);
  policy.limits = KSCOUT_LIMIT_WORKSPACE | KSCOUT_LIMIT_DETERMINISTIC;
  policy.max_workspace_bytes = 1 << 20;
  policy.copies_bytes = -2;
  CHECK_FAILS(kscout_dispatcher_make(NULL, &policy, &dispatcher), KSCOUT_INVALID_ARGUMENT, "copies_bytes=-2");
  policy.copies_bytes = -1;
  CHECK(kscout_dispatcher_make(NULL, &policy, &dispatcher) == KSCOUT_OK);
  kscout_gemm_init(&problem, 16, 16, 16, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
  CHECK(kscout_workspace_bytes(dispatcher, &problem, &bytes) == KSCOUT_OK && bytes <= 1 << 20);
  kscout_buffers_init(&buffers, a, b, c);
  CHECK(kscout_run(dispatcher, &problem, &buffers, &choice) == KSCOUT_OK);
  buffers.limits = 8;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, &choice), KSCOUT_INVALID_ARGUMENT, "limits=8");
  buffers.limits = KSCOUT_LIMIT_BATCH_INVARIANT;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, &choice), KSCOUT_UNSUPPORTED,
              "measure them with kscout classes gemm:1x16x16:fp32:rcr");
  buffers.limits = 0;
  buffers.max_workspace_bytes = 5;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, &choice), KSCOUT_INVALID_ARGUMENT,
              "max_workspace_bytes=5");
  kscout_dispatcher_free(dispatcher);
}

static void test_selection(const kscout_selector* selector) {
  kscout_gemm problem;
  kscout_choice choice, best[3];
  kscout_config again;
  char name[256];
  int32_t mr = 0;
  size_t count = 0, i;
  kscout_gemm_init(&problem, 48, 100, 60, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
  CHECK(kscout_select(selector, &problem, KSCOUT_BY_BEST, &choice) == KSCOUT_OK);
  CHECK(*kscout_source_word(choice.source) != '\0');
  CHECK(kscout_rank(selector, &problem, KSCOUT_BY_BEST, best, 3, &count) == KSCOUT_OK && count == 3);
  CHECK(memcmp(&best[0].config, &choice.config, sizeof choice.config) == 0);
  for (i = 1; i < count; ++i) CHECK(best[i - 1].score >= best[i].score);
  CHECK(kscout_config_name(&problem, &choice.config, name, sizeof name, NULL) == KSCOUT_OK);
  CHECK(kscout_config_parse(name, &again) == KSCOUT_OK);
  CHECK(memcmp(&again, &choice.config, sizeof again) == 0);
  CHECK(kscout_config_axis(&choice.config, "mr", &mr) == KSCOUT_OK && mr > 0);
  CHECK_FAILS(kscout_config_axis(&choice.config, "rm", &mr), KSCOUT_INVALID_ARGUMENT, "did you mean 'mr'");
  test_verdict(selector, &problem, &choice.config);
  test_limits();

  CHECK_FAILS(kscout_select(selector, &problem, 9, &choice), KSCOUT_INVALID_ARGUMENT, "order=9");
  CHECK_FAILS(kscout_rank(selector, &problem, 0, NULL, 3, &count), KSCOUT_INVALID_ARGUMENT, "'best' is NULL");
  again.space = &problem; /* not ours */
  CHECK_FAILS(kscout_config_name(&problem, &again, name, sizeof name, NULL), KSCOUT_INVALID_ARGUMENT,
              "not filled");
  problem.m = -1;
  CHECK_FAILS(kscout_select(selector, &problem, KSCOUT_BY_BEST, &choice), KSCOUT_INVALID_ARGUMENT, "m=-1");
}

static void test_cache(kscout_selector* selector) {
  kscout_cache_statistics before, after;
  kscout_gemm problem;
  kscout_choice choice;
  kscout_gemm_init(&problem, 24, 40, 56, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
  CHECK(kscout_selector_clear_cache(selector) == KSCOUT_OK);
  CHECK(kscout_selector_cache(selector, &before) == KSCOUT_OK);
  CHECK(kscout_select(selector, &problem, KSCOUT_BY_BEST, &choice) == KSCOUT_OK);
  CHECK(kscout_select(selector, &problem, KSCOUT_BY_BEST, &choice) == KSCOUT_OK);
  CHECK(choice.source == KSCOUT_SOURCE_CACHE);
  CHECK(kscout_selector_cache(selector, &after) == KSCOUT_OK);
  CHECK(after.hits == before.hits + 1 && after.misses == before.misses + 1);
  CHECK(kscout_selector_reload(selector) == KSCOUT_OK);
  CHECK(kscout_select(selector, &problem, KSCOUT_BY_BEST, &choice) == KSCOUT_OK);
  CHECK(choice.source != KSCOUT_SOURCE_CACHE);
  CHECK(kscout_selector_refresh(selector) == KSCOUT_OK);
  CHECK_FAILS(kscout_selector_reload(NULL), KSCOUT_INVALID_ARGUMENT, "'selector' is NULL");
  CHECK_FAILS(kscout_selector_cache(selector, NULL), KSCOUT_INVALID_ARGUMENT, "'statistics' is NULL");
}

/* A model for another device: refused or used with a warning, by the policy. */
static void test_requests(const char* model) {
  kscout_selector* selector = NULL;
  kscout_device* device = NULL;
  kscout_request request;
  char text[1024] = "";
  CHECK(kscout_device_find("xeon-8480", &device) == KSCOUT_OK);
  kscout_request_init(&request);
  request.device = device;
  CHECK_FAILS(kscout_selector_load(model, &request, &selector), KSCOUT_UNSUPPORTED, "cannot answer for");
  request.devices = KSCOUT_DEVICES_ANY;
  CHECK(kscout_selector_load(model, &request, &selector) == KSCOUT_OK);
  CHECK(kscout_selector_warning(selector, text, sizeof text, NULL) == KSCOUT_OK &&
        strstr(text, "xeon-8480") != NULL);
  kscout_selector_free(selector);
  request.devices = 3;
  CHECK_FAILS(kscout_selector_load(model, &request, &selector), KSCOUT_INVALID_ARGUMENT, "device policy=3");
  request.devices = KSCOUT_DEVICES_EXACT;
  request.reserved[1] = 1;
  CHECK_FAILS(kscout_selector_analytic(&request, &selector), KSCOUT_INVALID_ARGUMENT, "kscout_request_init");
  kscout_device_free(device);
}

static void test_selectors(const char* model, const char* broken_model) {
  kscout_selector *loaded = NULL, *analytic = NULL, *found = NULL, *none = NULL;
  char path[1024] = "";
  CHECK(kscout_selector_load(model, NULL, &loaded) == KSCOUT_OK);
  CHECK(kscout_selector_model(loaded, path, sizeof path, NULL) == KSCOUT_OK && strcmp(path, model) == 0);
  CHECK(kscout_selector_analytic(NULL, &analytic) == KSCOUT_OK);
  CHECK(kscout_selector_model(analytic, path, sizeof path, NULL) == KSCOUT_OK && strcmp(path, "") == 0);
  CHECK(kscout_selector_find(KSCOUT_DTYPE_FP32, NULL, &found) == KSCOUT_OK);
  if (failures == 0) {
    test_selection(loaded);
    test_selection(analytic);
    test_selection(found);
    test_cache(loaded);
    test_requests(model);
  }
  CHECK_FAILS(kscout_selector_load("no/such/model", NULL, &none), KSCOUT_NOT_FOUND, "no/such/model");
  CHECK_FAILS(kscout_selector_load(broken_model, NULL, &none), KSCOUT_CORRUPT_DATA, broken_model);
  CHECK_FAILS(kscout_selector_find(77, NULL, &none), KSCOUT_INVALID_ARGUMENT, "dtype=77");
  CHECK(none == NULL);
  kscout_selector_free(loaded);
  kscout_selector_free(analytic);
  kscout_selector_free(found);
  kscout_selector_free(NULL);
}

/* C = A * B of small whole numbers, exact in fp32 whatever the order of the sums. A is m x k row-major, B k x
 * n column-major. */
enum { M = 9, N = 14, K = 11 };

static int product_is_right(const float* a, const float* b, const float* c, float scale) {
  int i, j, l, right = 1;
  for (i = 0; i < M; ++i) {
    for (j = 0; j < N; ++j) {
      float sum = 0;
      for (l = 0; l < K; ++l) sum += a[i * K + l] * b[j * K + l];
      right = right && c[i * N + j] == scale * sum;
    }
  }
  return right;
}

/* Kernels of the CPU take the problem as it is. */
static void test_copies(kscout_dispatcher* dispatcher) {
  kscout_problem* problem = NULL;
  kscout_copies copies = {-1, -1, -1, -1, -1, -1};
  CHECK(kscout_problem_parse("gemm:33x17x9", &problem) == KSCOUT_OK);
  CHECK_FAILS(kscout_solution_copies(dispatcher, problem, NULL, NULL), KSCOUT_INVALID_ARGUMENT, "copies");
  CHECK(kscout_solution_copies(dispatcher, problem, NULL, &copies) == KSCOUT_OK);
  CHECK(copies.us == 0 && copies.bytes == 0 && copies.a == 0 && copies.b == 0 && copies.c == 0);
  kscout_problem_free(problem);
}

/* The bias is as large as any product, with both signs: only relu separates them. */
static void test_epilogue(kscout_dispatcher* dispatcher, const float* a, const float* b, float* c) {
  static float bias[N], plain[M * N];
  kscout_gemm problem;
  kscout_buffers buffers;
  int i, right = 1;
  for (i = 0; i < N; ++i) bias[i] = (float)(i % 2 == 0 ? 1000 : -1000);
  kscout_gemm_init(&problem, M, N, K, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
  kscout_buffers_init(&buffers, a, b, plain);
  CHECK(kscout_run(dispatcher, &problem, &buffers, NULL) == KSCOUT_OK);
  problem.epilogue = KSCOUT_EPILOGUE_BIAS_RELU;
  buffers.c = c;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "'bias' is null");
  buffers.bias = bias;
  CHECK(kscout_run(dispatcher, &problem, &buffers, NULL) == KSCOUT_OK);
  for (i = 0; i < M * N; ++i) right = right && c[i] == (i % N % 2 == 0 ? plain[i] + 1000 : 0);
  CHECK(right);
}

static void test_running(kscout_dispatcher* dispatcher) {
  static float a[M * K], b[K * N], c[M * N];
  kscout_gemm problem;
  kscout_buffers buffers;
  kscout_choice planned, ran;
  size_t bytes = 0;
  int i;
  for (i = 0; i < M * K; ++i) a[i] = (float)(i % 7 - 3);
  for (i = 0; i < K * N; ++i) b[i] = (float)(i % 5 - 2);
  kscout_gemm_init(&problem, M, N, K, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
  kscout_buffers_init(&buffers, a, b, c);
  CHECK(kscout_solution(dispatcher, &problem, &planned) == KSCOUT_OK);
  test_copies(dispatcher);
  CHECK(kscout_workspace_bytes(dispatcher, &problem, &bytes) == KSCOUT_OK);
  CHECK(kscout_run(dispatcher, &problem, &buffers, &ran) == KSCOUT_OK && product_is_right(a, b, c, 1));
  CHECK(memcmp(&planned.config, &ran.config, sizeof ran.config) == 0);
  buffers.alpha = 2;
  CHECK(kscout_run_config(dispatcher, &problem, &ran.config, &buffers) == KSCOUT_OK &&
        product_is_right(a, b, c, 2));
  CHECK(kscout_run(dispatcher, &problem, &buffers, NULL) == KSCOUT_OK);
  test_epilogue(dispatcher, a, b, c);
  buffers.beta = 1;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "beta=1");
  kscout_buffers_init(&buffers, NULL, b, c);
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "'a' is null");
  kscout_buffers_init(&buffers, a, b, c);
  buffers.c = a;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT,
              "c and a share memory");
  CHECK_FAILS(kscout_run_config(dispatcher, &problem, &ran.config, &buffers), KSCOUT_INVALID_ARGUMENT,
              "c and a share memory");
  kscout_buffers_init(&buffers, a, b, c);
  buffers.space.kind = KSCOUT_MEMORY_HIP;
  buffers.space.ordinal = 1;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "memory hip:1");
  CHECK_FAILS(kscout_solution_in(dispatcher, &problem, buffers.space, &planned), KSCOUT_INVALID_ARGUMENT,
              "memory hip:1");
  CHECK_FAILS(kscout_workspace_bytes_in(dispatcher, &problem, buffers.space, &bytes), KSCOUT_INVALID_ARGUMENT,
              "memory hip:1");
  buffers.space.kind = 3;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "memory kind=3");
  buffers.space.kind = KSCOUT_MEMORY_HOST;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "ordinal=1");
  buffers.space.ordinal = 0;
  CHECK(kscout_solution_in(dispatcher, &problem, buffers.space, &planned) == KSCOUT_OK);
  buffers.reserved[2] = 1;
  CHECK_FAILS(kscout_run(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "reserved");
  kscout_gemm_init(&problem, M, N, K, KSCOUT_DTYPE_BF16, KSCOUT_LAYOUT_RCR);
  CHECK_FAILS(kscout_solution(dispatcher, &problem, &planned), KSCOUT_UNSUPPORTED, "");
}

static void test_dispatchers(const char* not_an_index) {
  kscout_registry* registry = NULL;
  kscout_dispatcher *all = NULL, *made = NULL, *chosen = NULL;
  kscout_selector* selector = NULL;
  kscout_policy policy;
  kscout_request request;
  kscout_gemm problem;
  kscout_choice choice;
  int32_t axis = 0;
  char text[512];
  kscout_policy_init(&policy);
  policy.rules = "tiny";
  kscout_request_init(&request);
  request.rules = "tiny";
  CHECK(kscout_registry_here(&registry) == KSCOUT_OK);
  CHECK(kscout_dispatcher_make(registry, &policy, &made) == KSCOUT_OK);
  CHECK_FAILS(kscout_registry_add_library(registry, not_an_index), KSCOUT_CORRUPT_DATA, not_an_index);
  kscout_registry_free(registry); /* the dispatcher keeps what it needs */
  CHECK(kscout_dispatcher_make(NULL, NULL, &all) == KSCOUT_OK);
  CHECK(kscout_selector_analytic(&request, &selector) == KSCOUT_OK);
  CHECK(kscout_dispatcher_of(selector, NULL, NULL, &chosen) == KSCOUT_OK);
  kscout_selector_free(selector); /* and of this, too */
  if (made && all && chosen) {
    test_running(made);
    test_running(all);
    test_running(chosen);
  }
  CHECK(kscout_dispatcher_warning(made, text, sizeof text, NULL) == KSCOUT_OK && text[0] == 0);
  kscout_dispatcher_free(made);
  policy.threads = 1; /* no kernel of two threads, and a file that cannot be written */
  policy.fallback = KSCOUT_FALLBACK_EXHAUSTIVE;
  policy.db = "/proc/kscout/none.sqlite";
  CHECK(kscout_dispatcher_make(NULL, &policy, &made) == KSCOUT_OK);
  kscout_gemm_init(&problem, 40, 40, 40, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_CCR);
  CHECK(kscout_solution(made, &problem, &choice) == KSCOUT_OK);
  CHECK(kscout_config_axis(&choice.config, "threads_m", &axis) == KSCOUT_OK && axis == 1);
  CHECK(kscout_config_axis(&choice.config, "threads_n", &axis) == KSCOUT_OK && axis == 1);
  CHECK(kscout_dispatcher_warning(made, text, sizeof text, NULL) == KSCOUT_OK && strstr(text, "are lost"));
  policy.threads = -1;
  CHECK_FAILS(kscout_dispatcher_make(NULL, &policy, &all), KSCOUT_INVALID_ARGUMENT, "threads=-1");
  policy.threads = 0;
  policy.fallback = 7;
  CHECK_FAILS(kscout_dispatcher_make(NULL, &policy, &all), KSCOUT_INVALID_ARGUMENT, "fallback=7");
  CHECK_FAILS(kscout_workspace_bytes(NULL, NULL, NULL), KSCOUT_INVALID_ARGUMENT, "NULL");
  kscout_dispatcher_free(made);
  kscout_dispatcher_free(all);
  kscout_dispatcher_free(chosen);
  kscout_dispatcher_free(NULL);
}

/* A 3 x 3 convolution of one image, channels last, of small whole numbers: every sum is exact. */
enum { SIDE = 6, CHANNELS = 32, FILTERS = 32 };

static int convolution_is_right(const float* in, const float* wei, const float* out) {
  int h, w, k, y, x, c, right = 1;
  for (h = 0; h < SIDE; ++h) {
    for (w = 0; w < SIDE; ++w) {
      for (k = 0; k < FILTERS; ++k) {
        float sum = 0;
        for (y = 0; y < 3; ++y) {
          for (x = 0; x < 3; ++x) {
            const int row = h + y - 1, column = w + x - 1;
            if (row < 0 || column < 0 || row >= SIDE || column >= SIDE) continue;
            for (c = 0; c < CHANNELS; ++c)
              sum += in[(row * SIDE + column) * CHANNELS + c] * wei[((k * 3 + y) * 3 + x) * CHANNELS + c];
          }
        }
        right = right && out[(h * SIDE + w) * FILTERS + k] == sum;
      }
    }
  }
  return right;
}

static void test_running_convolutions(const char* index) {
  static float in[SIDE * SIDE * CHANNELS], wei[FILTERS * 9 * CHANNELS], out[SIDE * SIDE * FILTERS];
  kscout_registry* registry = NULL;
  kscout_dispatcher* dispatcher = NULL;
  kscout_conv problem;
  kscout_conv_buffers buffers;
  kscout_choice planned, ran;
  size_t bytes = 1;
  int i;
  for (i = 0; i < SIDE * SIDE * CHANNELS; ++i) in[i] = (float)(i % 7 - 3);
  for (i = 0; i < FILTERS * 9 * CHANNELS; ++i) wei[i] = (float)(i % 5 - 2);
  CHECK(kscout_conv_parse("conv_fwd:1x32x6x6:32x3x3:fp32:nhwgc:pad=1", &problem) == KSCOUT_OK);
  CHECK(kscout_registry_here(&registry) == KSCOUT_OK);
  CHECK(kscout_registry_add_library(registry, index) == KSCOUT_OK);
  CHECK(kscout_dispatcher_make(registry, NULL, &dispatcher) == KSCOUT_OK);
  kscout_registry_free(registry);
  kscout_conv_buffers_init(&buffers, in, wei, out);
  CHECK(kscout_solution_conv(dispatcher, &problem, &planned) == KSCOUT_OK);
  CHECK(kscout_workspace_bytes_conv(dispatcher, &problem, &bytes) == KSCOUT_OK && bytes != 1);
  CHECK(kscout_run_conv(dispatcher, &problem, &buffers, &ran) == KSCOUT_OK);
  CHECK(convolution_is_right(in, wei, out) && memcmp(&planned.config, &ran.config, sizeof ran.config) == 0);
  out[0] += 1;
  CHECK(kscout_run_config_conv(dispatcher, &problem, &ran.config, &buffers) == KSCOUT_OK &&
        convolution_is_right(in, wei, out));
  buffers.reserved[0] = 1;
  CHECK_FAILS(kscout_run_conv(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "reserved");
  kscout_conv_buffers_init(&buffers, in, wei, NULL);
  CHECK_FAILS(kscout_run_conv(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT,
              "'out' is null");
  kscout_dispatcher_free(dispatcher);
}

/* Channels first, which the library's kernels do not take: the dispatcher copies. An exhaustive search
 * decides. */
static void test_convolutions_on_copies(const char* index) {
  enum { PIXELS = SIDE * SIDE };
  static float in[PIXELS * CHANNELS], wei[FILTERS * 9 * CHANNELS], out[PIXELS * FILTERS];
  static float first_in[PIXELS * CHANNELS], first_out[PIXELS * FILTERS];
  kscout_registry* registry = NULL;
  kscout_dispatcher* dispatcher = NULL;
  kscout_policy policy;
  kscout_conv problem;
  kscout_conv_buffers buffers;
  kscout_choice ran;
  size_t bytes = 0;
  int i, j;
  for (i = 0; i < PIXELS * CHANNELS; ++i) in[i] = (float)(i % 7 - 3);
  for (i = 0; i < FILTERS * 9 * CHANNELS; ++i) wei[i] = (float)(i % 5 - 2);
  for (i = 0; i < PIXELS; ++i)
    for (j = 0; j < CHANNELS; ++j) first_in[j * PIXELS + i] = in[i * CHANNELS + j];
  CHECK(kscout_conv_parse("conv_fwd:1x32x6x6:32x3x3:fp32:ngchw:pad=1", &problem) == KSCOUT_OK);
  CHECK(kscout_registry_here(&registry) == KSCOUT_OK);
  CHECK(kscout_registry_add_library(registry, index) == KSCOUT_OK);
  kscout_policy_init(&policy);
  policy.fallback = KSCOUT_FALLBACK_EXHAUSTIVE;
  CHECK(kscout_dispatcher_make(registry, &policy, &dispatcher) == KSCOUT_OK);
  kscout_registry_free(registry);
  CHECK(kscout_workspace_bytes_conv(dispatcher, &problem, &bytes) == KSCOUT_OK &&
        bytes >= sizeof in + sizeof out);
  kscout_conv_buffers_init(&buffers, first_in, wei, first_out);
  CHECK(kscout_run_conv(dispatcher, &problem, &buffers, &ran) == KSCOUT_OK);
  CHECK(ran.source == KSCOUT_SOURCE_DB && ran.time_us > 0);
  for (i = 0; i < PIXELS; ++i)
    for (j = 0; j < FILTERS; ++j) out[i * FILTERS + j] = first_out[j * PIXELS + i];
  CHECK(convolution_is_right(in, wei, out));
  CHECK_FAILS(kscout_run_config_conv(dispatcher, &problem, &ran.config, &buffers), KSCOUT_UNSUPPORTED, "");
  kscout_dispatcher_free(dispatcher);
}

/* The filter may be freed and the registry's kernels pack it or not: the handle keeps what its runs need. */
static void test_packed_filters(const char* index) {
  static float in[SIDE * SIDE * CHANNELS], wei[FILTERS * 9 * CHANNELS], out[SIDE * SIDE * FILTERS];
  float* const copy = malloc(sizeof wei);
  kscout_registry* registry = NULL;
  kscout_dispatcher* dispatcher = NULL;
  kscout_dispatcher* other = NULL;
  kscout_packed_filter* packed = NULL;
  kscout_conv problem;
  kscout_conv_buffers buffers;
  kscout_choice ran;
  size_t bytes = 0;
  char* workspace;
  int i;
  for (i = 0; i < SIDE * SIDE * CHANNELS; ++i) in[i] = (float)(i % 7 - 3);
  for (i = 0; i < FILTERS * 9 * CHANNELS; ++i) copy[i] = wei[i] = (float)(i % 5 - 2);
  CHECK(kscout_conv_parse("conv_fwd:1x32x6x6:32x3x3:fp32:nhwgc:pad=1", &problem) == KSCOUT_OK);
  CHECK(problem.prepacked == 0);
  CHECK(kscout_registry_here(&registry) == KSCOUT_OK);
  CHECK(kscout_registry_add_library(registry, index) == KSCOUT_OK);
  CHECK(kscout_dispatcher_make(registry, NULL, &dispatcher) == KSCOUT_OK);
  CHECK(kscout_dispatcher_make(registry, NULL, &other) == KSCOUT_OK);
  kscout_registry_free(registry);
  kscout_conv_buffers_init(&buffers, NULL, copy, NULL);
  CHECK(kscout_pack_filter(dispatcher, &problem, &buffers, &packed) == KSCOUT_OK);
  free(copy);
  CHECK(kscout_packed_filter_workspace_bytes(packed, &bytes) == KSCOUT_OK);
  kscout_conv_buffers_init(&buffers, in, NULL, out);
  CHECK(kscout_run_packed(dispatcher, packed, &buffers, &ran) == KSCOUT_OK &&
        convolution_is_right(in, wei, out));
  out[0] += 1;
  workspace = malloc(bytes + 64);
  buffers.workspace = workspace + (64 - (size_t)workspace % 64);
  buffers.workspace_bytes = bytes;
  CHECK(kscout_run_packed(dispatcher, packed, &buffers, NULL) == KSCOUT_OK &&
        convolution_is_right(in, wei, out));
  free(workspace);
  kscout_conv_buffers_init(&buffers, in, wei, out);
  CHECK_FAILS(kscout_run_packed(dispatcher, packed, &buffers, NULL), KSCOUT_INVALID_ARGUMENT,
              "'wei' is packed already");
  CHECK_FAILS(kscout_run_packed(dispatcher, NULL, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "packed");
  buffers.wei = NULL;
  CHECK_FAILS(kscout_run_packed(other, packed, &buffers, NULL), KSCOUT_INVALID_ARGUMENT,
              "another dispatcher");
  CHECK_FAILS(kscout_pack_filter(dispatcher, &problem, &buffers, &packed), KSCOUT_INVALID_ARGUMENT,
              "'wei' is null");
  {
    /* B of a GEMM: c = a * b, all elements of a are 1 */
    static float a[3 * 4], b[4 * 2], c[3 * 2];
    kscout_gemm gemm;
    kscout_buffers operands;
    kscout_packed_filter* packed_b = NULL;
    for (i = 0; i < 3 * 4; ++i) a[i] = 1;
    for (i = 0; i < 4 * 2; ++i) b[i] = (float)i; /* columns of 4: 0 to 3, 4 to 7 */
    CHECK(kscout_gemm_parse("gemm:3x2x4:fp32:rcr", &gemm) == KSCOUT_OK);
    kscout_buffers_init(&operands, NULL, b, NULL);
    CHECK(kscout_pack_b(dispatcher, &gemm, &operands, &packed_b) == KSCOUT_OK);
    b[0] = 100;
    kscout_buffers_init(&operands, a, NULL, c);
    CHECK(kscout_run_packed_b(dispatcher, packed_b, &operands, &ran) == KSCOUT_OK);
    CHECK(c[0] == 6 && c[1] == 22 && c[4] == 6 && c[5] == 22);
    CHECK_FAILS(kscout_run_packed(dispatcher, packed_b, &buffers, NULL), KSCOUT_INVALID_ARGUMENT,
                "takes no tensors of a convolution");
    CHECK_FAILS(kscout_run_packed_b(dispatcher, packed, &operands, NULL), KSCOUT_INVALID_ARGUMENT,
                "takes no operands of a GEMM");
    CHECK_FAILS(kscout_pack_b(dispatcher, &gemm, &operands, &packed_b), KSCOUT_INVALID_ARGUMENT,
                "'b' is null");
    kscout_packed_filter_free(packed_b);
  }
  problem.prepacked = 1;
  buffers.wei = wei;
  CHECK_FAILS(kscout_run_conv(dispatcher, &problem, &buffers, NULL), KSCOUT_INVALID_ARGUMENT, "pack_filter");
  problem.op = KSCOUT_OP_CONV_BWD_WEIGHT;
  CHECK_FAILS(kscout_pack_filter(dispatcher, &problem, &buffers, &packed), KSCOUT_INVALID_ARGUMENT,
              "the filter is the result");
  problem.prepacked = 0;
  problem.epilogue = KSCOUT_EPILOGUE_BIAS;
  CHECK_FAILS(kscout_solution_conv(dispatcher, &problem, &ran), KSCOUT_INVALID_ARGUMENT,
              "conv_fwd takes none or bias");
  problem.epilogue = 0;
  problem.reserved[0] = 1;
  CHECK_FAILS(kscout_solution_conv(dispatcher, &problem, &ran), KSCOUT_INVALID_ARGUMENT, "reserved");
  kscout_packed_filter_free(packed);
  kscout_packed_filter_free(NULL);
  kscout_dispatcher_free(dispatcher);
  kscout_dispatcher_free(other);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: capi_test MODEL A_FILE_THAT_IS_NO_MODEL INDEX_OF_CONVOLUTIONS\n");
    return EXIT_FAILURE;
  }
  test_versions_and_errors();
  test_problems();
  test_devices();
  test_convolutions();
  test_selectors(argv[1], argv[2]);
  test_dispatchers(argv[2]);
  test_running_convolutions(argv[3]);
  test_convolutions_on_copies(argv[3]);
  test_packed_filters(argv[3]);
  if (failures == 0) printf("all checks hold\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
