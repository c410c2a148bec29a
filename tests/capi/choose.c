/* Prints the kernel that a selector in C chooses, for tests/cli/ck_model.test: `capi_choose MODEL PROBLEM`.
 */
#include <stdio.h>

#include <kscout/kscout.h>

int main(int count, char** words) {
  kscout_selector* selector = NULL;
  kscout_problem* problem = NULL;
  kscout_choice choice;
  char name[512];
  int failed = count != 3 || kscout_selector_load(words[1], NULL, &selector) ||
               kscout_problem_parse(words[2], &problem) ||
               kscout_select_problem(selector, problem, KSCOUT_BY_BEST, &choice) ||
               kscout_problem_config_name(problem, &choice.config, name, sizeof name, NULL);
  if (failed) {
    fprintf(stderr, "%s\n", kscout_last_error());
  } else {
    puts(name);
  }
  kscout_problem_free(problem);
  kscout_selector_free(selector);
  return failed;
}
