/* Convolves an image, prints the kernel and who chose it. */
#include <stdio.h>

#include <kscout/kscout.h>

enum { SIDE = 14, CHANNELS = 16, FILTERS = 32 };
static float image[SIDE * SIDE * CHANNELS], filter[FILTERS * 3 * 3 * CHANNELS], result[SIDE * SIDE * FILTERS];

int main(void) {
  kscout_dispatcher* dispatcher = NULL;
  kscout_conv problem;
  kscout_conv_buffers buffers;
  kscout_choice choice;
  char name[256];
  int i;
  for (i = 0; i < SIDE * SIDE * CHANNELS; ++i) image[i] = 1;
  for (i = 0; i < FILTERS * 3 * 3 * CHANNELS; ++i) filter[i] = 0.5F;
  kscout_conv_init(&problem, KSCOUT_OP_CONV_FWD, KSCOUT_DTYPE_FP32); /* channels last; sizes of 1 */
  problem.c = CHANNELS;
  problem.k = FILTERS;
  problem.h = problem.w = SIDE;
  problem.y = problem.x = 3;
  problem.left_pad_h = problem.right_pad_h = problem.left_pad_w = problem.right_pad_w = 1;
  kscout_conv_buffers_init(&buffers, image, filter, result);
  if (kscout_dispatcher_make(NULL, NULL, &dispatcher) ||
      kscout_run_conv(dispatcher, &problem, &buffers, &choice) ||
      kscout_conv_config_name(&problem, &choice.config, name, sizeof name, NULL)) {
    fprintf(stderr, "%s\n", kscout_last_error());
    return 1;
  }
  printf("%s, about %.1f us, chosen by %s\n", name, choice.time_us, kscout_source_word(choice.decided_by));
  kscout_dispatcher_free(dispatcher);
  /* The first pixel meets 4 of the filter's 9 positions, the second one 6. */
  return result[0] == 4 * CHANNELS * 0.5F && result[FILTERS] == 6 * CHANNELS * 0.5F ? 0 : 1;
}
