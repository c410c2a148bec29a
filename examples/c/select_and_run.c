/* Selects a kernel for a product, prints the choice and who made it, and runs it. */
#include <stdio.h>

#include <kscout/kscout.h>

enum { M = 16, N = 1024, K = 512 };
static float a[M * K], b[K * N], c[M * N];

int main(void) {
  kscout_dispatcher* dispatcher = NULL;
  kscout_gemm problem;
  kscout_buffers buffers;
  kscout_choice choice;
  char name[256];
  int i;
  for (i = 0; i < M * K; ++i) a[i] = 1;
  for (i = 0; i < K * N; ++i) b[i] = 2;
  kscout_gemm_init(&problem, M, N, K, KSCOUT_DTYPE_FP32, KSCOUT_LAYOUT_RCR);
  kscout_buffers_init(&buffers, a, b, c);
  if (kscout_dispatcher_make(NULL, NULL, &dispatcher) ||
      kscout_run(dispatcher, &problem, &buffers, &choice) ||
      kscout_config_name(&problem, &choice.config, name, sizeof name, NULL)) {
    fprintf(stderr, "%s\n", kscout_last_error());
    return 1;
  }
  printf("%s, about %.1f us, chosen by %s\n", name, choice.time_us, kscout_source_word(choice.decided_by));
  kscout_dispatcher_free(dispatcher);
  return c[0] == 2 * K && c[M * N - 1] == 2 * K ? 0 : 1;
}
