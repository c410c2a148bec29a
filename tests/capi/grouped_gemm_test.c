/* A grouped GEMM from C: its text is read, its operands are listed, a config is selected and run. Prints the
 * failing line, returns how many failed. */
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

/* Groups of 3, 0 and 2 rows; B is (3, 4, 6) with rows along K. */
enum { kRows = 5, kN = 4, kK = 6, kGroups = 3 };

int main(void) {
  float a[kRows * kK], b[kGroups * kN * kK], c[kRows * kN];
  const int group_of_row[kRows] = {0, 0, 0, 2, 2};
  for (int i = 0; i < kRows * kK; ++i) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < kGroups * kN * kK; ++i) b[i] = (float)(i % 5 - 2);
  for (int i = 0; i < kRows * kN; ++i) c[i] = -1;

  kscout_problem* problem = NULL;
  CHECK(kscout_problem_parse("grouped_gemm:3+0+-2x4x6", &problem) == KSCOUT_INVALID_ARGUMENT);
  CHECK(problem == NULL && strstr(kscout_last_error(), "m of group 2 is -2") != NULL);
  CHECK(kscout_problem_parse("grouped_gemm:3+0+2x4x6", &problem) == KSCOUT_OK);
  char text[128];
  CHECK(kscout_problem_print(problem, text, sizeof text, NULL) == KSCOUT_OK &&
        strcmp(text, "grouped_gemm:3+0+2x4x6:fp32:rcr") == 0);

  kscout_operand listed[KSCOUT_MAX_OPERANDS];
  size_t count = 0;
  CHECK(kscout_problem_operands(problem, listed, KSCOUT_MAX_OPERANDS, &count) == KSCOUT_OK && count == 3);
  CHECK(listed[0].elements == kRows * kK && listed[1].elements == kGroups * kN * kK);
  CHECK(strcmp(listed[2].name, "c") == 0 && listed[2].is_output && listed[2].elements == kRows * kN);

  kscout_selector* selector = NULL;
  kscout_choice choice;
  CHECK(kscout_selector_analytic(NULL, &selector) == KSCOUT_OK);
  CHECK(kscout_select_problem(selector, problem, KSCOUT_BY_BEST, &choice) == KSCOUT_OK && choice.time_us > 0);
  CHECK(kscout_problem_config_name(problem, &choice.config, text, sizeof text, NULL) == KSCOUT_OK);
  CHECK(strncmp(text, "native_grouped_gemm_fp32_rcr__", 30) == 0);

  kscout_dispatcher* dispatcher = NULL;
  CHECK(kscout_dispatcher_make(NULL, NULL, &dispatcher) == KSCOUT_OK);
  kscout_operands operands;
  kscout_operands_init(&operands);
  operands.operand[0] = a;
  operands.operand[1] = b;
  CHECK(kscout_run_problem(dispatcher, problem, &operands, NULL) == KSCOUT_INVALID_ARGUMENT);
  CHECK(strstr(kscout_last_error(), "'c' is null") != NULL);
  operands.operand[2] = c;
  operands.alpha = 2;
  CHECK(kscout_run_problem(dispatcher, problem, &operands, &choice) == KSCOUT_OK);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kN; ++j) {
      double expected = 0;
      for (int k = 0; k < kK; ++k) expected += (double)a[i * kK + k] * b[(group_of_row[i] * kN + j) * kK + k];
      CHECK(fabs(c[i * kN + j] - 2 * expected) < 1e-4);
    }
  }
  kscout_dispatcher_free(dispatcher);
  kscout_selector_free(selector);
  kscout_problem_free(problem);
  return failures;
}
