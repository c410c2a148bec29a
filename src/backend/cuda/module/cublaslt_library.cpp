
#include <algorithm>
#include <cstdlib>
#include <string>

#include <cublasLt.h>
#include <dlfcn.h>

#include "backend/cuda/module/cublaslt.h"
#include "core/loader_name.h"

namespace kscout::cuda {

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

namespace {

constexpr std::int32_t AUTO = 0;
constexpr NamedSizes kTiles[] = {
    {0, 0, CUBLASLT_MATMUL_TILE_UNDEFINED},
#define KSCOUT_TILE(m, n) {m, n, CUBLASLT_MATMUL_TILE_##m##x##n},
#define KSCOUT_STAGE(k, stages)
#define KSCOUT_CLUSTER(m, n)
#include "cublaslt_names.inc"
#undef KSCOUT_TILE
#undef KSCOUT_STAGE
};
constexpr NamedSizes kStages[] = {
    {0, 0, CUBLASLT_MATMUL_STAGES_UNDEFINED},
#define KSCOUT_TILE(m, n)
#define KSCOUT_STAGE(k, stages) {k, stages, CUBLASLT_MATMUL_STAGES_##k##x##stages},
#include "cublaslt_names.inc"
#undef KSCOUT_STAGE
#undef KSCOUT_CLUSTER
};
constexpr NamedSizes kClusters[] = {
    {0, 0, CUBLASLT_CLUSTER_SHAPE_AUTO},
#define KSCOUT_STAGE(k, stages)
#define KSCOUT_CLUSTER(m, n) {m, n, CUBLASLT_CLUSTER_SHAPE_##m##x##n##x1},
#include "cublaslt_names.inc"
};

}  // namespace

std::span<const NamedSizes> tile_names() noexcept { return kTiles; }
std::span<const NamedSizes> stage_names() noexcept { return kStages; }
std::span<const NamedSizes> cluster_names() noexcept { return kClusters; }

const NamedSizes* find_value(std::span<const NamedSizes> names, std::uint32_t value) noexcept {
  const auto found = std::ranges::find(names, value, &NamedSizes::value);
  return found == names.end() ? nullptr : &*found;
}

const NamedSizes* find_sizes(std::span<const NamedSizes> names, std::int32_t first,
                             std::int32_t second) noexcept {
  const auto found = std::ranges::find_if(
      names, [&](const NamedSizes& name) { return name.first == first && name.second == second; });
  return found == names.end() ? nullptr : &*found;
}

}  // namespace kscout::cuda
