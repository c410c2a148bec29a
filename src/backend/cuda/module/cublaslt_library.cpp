
#include <cstdlib>
#include <string>

#include <cublasLt.h>
#include <dlfcn.h>

#include "backend/cuda/module/cublaslt.h"
#include "core/loader_name.h"

namespace kscout::cuda {

// What library_numbers.h calls "not stated".
static_assert(CUBLASLT_MATMUL_TILE_UNDEFINED == 0 && CUBLASLT_MATMUL_STAGES_UNDEFINED == 0 &&
              CUBLASLT_CLUSTER_SHAPE_AUTO == 0);

namespace {

void* open_library(std::string& tried) {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  const char* const named = std::getenv("KSCOUT_CUBLASLT");
  for (const std::string& file : {named ? loader_name(named) : name, "/usr/local/cuda/lib64/" + name,
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
    answer(CallStatus::failed, "cuBLASLt cannot be loaded: %s (KSCOUT_CUBLASLT names a file)", why.c_str());
  return functions;
}

}  // namespace kscout::cuda
