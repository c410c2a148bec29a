/* Which kernel is best for a product, and why it says so. */
#include <stdio.h>

#include <kscout/kscout.h>

int main(void) {
  kscout_selector* selector = NULL;
  kscout_gemm problem;
  kscout_choice choice;
  char name[256];
  kscout_gemm_init(&problem, 16, 1024, 512, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
  if (kscout_selector_find(KSCOUT_DTYPE_FP32, NULL, &selector) ||
      kscout_select(selector, &problem, KSCOUT_BY_BEST, &choice) ||
      kscout_config_name(&problem, &choice.config, name, sizeof name, NULL)) {
    fprintf(stderr, "%s\n", kscout_last_error());
    return 1;
  }
  printf("%s, about %.1f us, by %s\n", name, choice.time_us, kscout_source_word(choice.source));
  kscout_selector_free(selector);
  return 0;
}
