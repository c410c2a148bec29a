/* Batched dot products from C: a problem of any operation is read, its operands are listed, a config is
 * selected and run. Prints the failing line, returns how many failed. */
#include <math.h>
#include <stdio.h>
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

int main(void) {
  float a[3 * 50], b[3 * 50], c[3] = {-1, -1, -1};
  for (int i = 0; i < 150; ++i) {
    a[i] = (float)(i % 7);
    b[i] = (float)(i % 5);
  }
  kscout_problem* problem = NULL;
  CHECK(kscout_problem_parse("bdot:3x", &problem) == KSCOUT_INVALID_ARGUMENT && problem == NULL);
  CHECK(kscout_problem_parse("bdot:3x50", &problem) == KSCOUT_OK);
  char text[128];
  CHECK(kscout_problem_print(problem, text, sizeof text, NULL) == KSCOUT_OK &&
        strcmp(text, "bdot:3x50") == 0);

  kscout_operand listed[KSCOUT_MAX_OPERANDS];
  size_t count = 0;
  CHECK(kscout_problem_operands(problem, listed, KSCOUT_MAX_OPERANDS, &count) == KSCOUT_OK && count == 3);
  CHECK(strcmp(listed[0].name, "a") == 0 && listed[0].elements == 150 && listed[0].bytes == 600 &&
        !listed[0].is_output);
  CHECK(strcmp(listed[2].name, "c") == 0 && listed[2].elements == 3 && listed[2].is_output &&
        listed[2].position == 2);

  kscout_selector* selector = NULL;
  kscout_choice choice;
  CHECK(kscout_selector_analytic(NULL, &selector) == KSCOUT_OK);
  CHECK(kscout_select_problem(selector, problem, KSCOUT_BY_BEST, &choice) == KSCOUT_OK && choice.time_us > 0);
  CHECK(kscout_problem_config_name(problem, &choice.config, text, sizeof text, NULL) == KSCOUT_OK);
  CHECK(strncmp(text, "native_bdot_fp32__s", 19) == 0);

  kscout_dispatcher* dispatcher = NULL;
  CHECK(kscout_dispatcher_make(NULL, NULL, &dispatcher) == KSCOUT_OK);
  kscout_operands operands;
  kscout_operands_init(&operands);
  operands.operand[0] = a;
  operands.operand[1] = b;
  CHECK(kscout_run_problem(dispatcher, problem, &operands, NULL) == KSCOUT_INVALID_ARGUMENT);
  CHECK(strstr(kscout_last_error(), "'c' is null") != NULL);
  operands.operand[2] = a;
  CHECK(kscout_run_problem(dispatcher, problem, &operands, NULL) == KSCOUT_INVALID_ARGUMENT);
  CHECK(strstr(kscout_last_error(), "share memory") != NULL);
  operands.operand[2] = c;
  operands.alpha = 2;
  CHECK(kscout_run_problem(dispatcher, problem, &operands, NULL) == KSCOUT_INVALID_ARGUMENT);
  operands.alpha = 1;
  CHECK(kscout_run_problem(dispatcher, problem, &operands, &choice) == KSCOUT_OK);
  for (int i = 0; i < 3; ++i) {
    double expected = 0;
    for (int j = 0; j < 50; ++j) expected += (double)a[50 * i + j] * b[50 * i + j];
    CHECK(fabs(c[i] - expected) < 1e-3);
  }
  kscout_dispatcher_free(dispatcher);
  kscout_selector_free(selector);
  kscout_problem_free(problem);
  return failures;
}
