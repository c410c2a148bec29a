/* A program without BLAS. Built also with -static. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) printf("[%s]", argv[i]);
  printf(" %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "-");
  return argc;
}
