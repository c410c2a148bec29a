/* A program that opens a library with local scope, which is linked with the libraries: as Python opens
 * PyTorch. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* const library = dlopen(CALLS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  int (*run)(int, char**) = library ? (int (*)(int, char**))dlsym(library, "run_calls") : NULL;
  if (!run) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  return run(argc, argv);
}
