#include "backend/cuda/module/cublaslt_library.h"

#include <cstdlib>
#include <string>

#include <dlfcn.h>

namespace kscout::cuda {

namespace {

void* open_library(std::string& tried) {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  const char* const named = std::getenv("KSCOUT_CUBLASLT");
  for (const std::string& file : {named ? std::string(named) : name, "/usr/local/cuda/lib64/" + name,
                                  "/usr/local/cuda/targets/x86_64-linux/lib/" + name}) {
    if (void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried = dlerror();
    if (named) break;
  }
  return nullptr;
}

const CublasLt* load(std::string& why) {
  static CublasLt functions;
  void* const library = open_library(why);
  if (!library) return nullptr;
#define KSCOUT_LOAD(name)                                                                        \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, "cublasLt" #name)); \
  if (!functions.name) {                                                                         \
    why = "it has no function cublasLt" #name;                                                   \
    return nullptr;                                                                              \
  }
  KSCOUT_CUBLASLT_FUNCTIONS(KSCOUT_LOAD)
#undef KSCOUT_LOAD
  return &functions;
}

}  // namespace

const CublasLt* cublaslt() {
  static std::string why;
  static const CublasLt* const functions = load(why);
  if (!functions)
    answer(Answer::failed, "cuBLASLt cannot be loaded: %s (KSCOUT_CUBLASLT names a file)", why.c_str());
  return functions;
}

}  // namespace kscout::cuda
