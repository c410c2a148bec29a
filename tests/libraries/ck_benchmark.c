// A stand-in for CK Tile's benchmark executables: computes the product on the CPU and prints what they print.
// A file beside it with its name and .mode says how it misbehaves: crash, hang, wrong, zero, garbage, exit,
// other.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long option(int argc, char** argv, const char* name, long otherwise) {
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], name, strlen(name)) == 0) return atol(argv[i] + strlen(name));
  }
  return otherwise;
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

int main(int argc, char** argv) {
  char mode[32] = "good", path[4096];
  snprintf(path, sizeof path, "%s.mode", argv[0]);
  FILE* file = fopen(path, "r");
  if (file) {
    if (fscanf(file, "%31s", mode) != 1) return 9;
    fclose(file);
  }
  const long m = option(argc, argv, "-m=", 0), n = option(argc, argv, "-n=", 0),
             k = option(argc, argv, "-k=", 0);
  const long repeat = option(argc, argv, "-repeat=", 1);
  float *a = malloc(sizeof(float) * (size_t)(m * k)), *b = malloc(sizeof(float) * (size_t)(k * n));
  float* c = malloc(sizeof(float) * (size_t)(m * n));
  if (!a || !b || !c) return 8;
  for (long i = 0; i < m * k; ++i) a[i] = (float)(i % 7);
  for (long i = 0; i < k * n; ++i) b[i] = (float)(i % 5);
  printf("a line before the result\n");
  fflush(stdout);
  if (strcmp(mode, "crash") == 0) {
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would end it with an exit code */
    raise(SIGSEGV);
  }
  if (strcmp(mode, "hang") == 0) {
    for (;;) pause();
  }
  if (strcmp(mode, "exit") == 0) return 3;
  if (strcmp(mode, "garbage") == 0) {
    printf("no result today }\n");
    return 0;
  }
  const double begin = now_ms();
  for (long r = 0; r < repeat; ++r) {
    for (long i = 0; i < m; ++i) {
      for (long j = 0; j < n; ++j) {
        float sum = 0;
        for (long l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
        c[i * n + j] = sum;
      }
    }
  }
  double ms = (now_ms() - begin) / (double)repeat;
  if (strcmp(mode, "wrong") == 0) c[0] += 1;
  if (option(argc, argv, "-verify=", 0)) {
    float sum = 0;
    for (long l = 0; l < k; ++l) sum += a[l] * b[l];
    printf("Verification: %s\n", sum == c[0] ? "correct" : "failed");
  }
  double tflops = 2e-9 * (double)m * (double)n * (double)k / ms;
  if (strcmp(mode, "zero") == 0) ms = tflops = 0;
  printf("{\n \"name\": \"x\",\n \"problem\": {\"m\": %ld, \"n\": %ld, \"k\": %ld, \"split_k\": 1},\n", m, n,
         strcmp(mode, "other") == 0 ? k + 1 : k);
  printf(" \"perf_result\": {\"latency(ms)\": %.9f, \"tflops(TFlops)\": %.9f, \"bandwidth(GB/s)\": 1.0}\n}\n",
         ms, tflops);
  free(a), free(b), free(c);
  return 0;
}
