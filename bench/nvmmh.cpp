#include "nvmmh.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/loader_name.h"
#include "provider/cutlass/cutlass.h"

namespace kscout::bench {

// The used part of the library's C interface (release 0.1); sizes and numbers belong to the interface.
// Its types are not in the unnamed namespace: in an included source, GCC 14.2 crashes on Library, which uses
// them.
struct CKernel {
  std::uint16_t cta[3], warp[3], instruction[3];
  std::uint16_t split_k;
  std::uint8_t stages, swizzle, order, cluster[2];
};
struct CProblem {
  std::uint32_t m, n, k, batch;
  std::uint8_t layout;
};
static_assert(sizeof(CKernel) == 26 && sizeof(CProblem) == 20);

namespace {

constexpr int kSuccess = 1, kTargetCutlass3 = 4;

struct KnownGpu {
  std::string_view device;
  int number;
};
constexpr KnownGpu kGpus[] = {
    {"a100", 8000}, {"l40s", 8902}, {"h100", 9000}, {"h200", 9003}, {"b200", 10000}};

/// The library's number of a layout with row-major C: 2 * (A is column-major) + (B is).
int layout_number(Layout layout) { return 2 * !row_major_a(layout) + !row_major_b(layout); }

/// The library's name of the types of operands, sums, and C. Of 16-bit types, only fp16 has measurements
/// inside the library (others answer "not entirely loaded"). Kernels of both 16-bit types differ in the type
/// only, so the peer is queried with fp16 for both, its better case.
const char* precision(const GemmProblem& problem) {
  switch (problem.dtype_a) {
    case DType::fp16:
    case DType::bf16:
      return "HSH";
    case DType::fp8:
      return problem.dtype_c == DType::bf16 ? "QQTST" : "QQHSH";
    default:
      return nullptr;
  }
}

}  // namespace

/// Its handles live until the program ends: destroying a used one crashes inside release 0.1.0.
struct MatmulHeuristics::Library {
  void* file = nullptr;
  void* handle = nullptr;
  void* hardware = nullptr;
  int (*load_measurements)(void*, const char*, int, int, void*) = nullptr;
  unsigned (*best)(void*, const char*, unsigned, int, const CProblem*, CKernel*, unsigned, void*) = nullptr;
  std::set<std::pair<std::string, int>> loaded;

  template <class Function>
  bool find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(file, name));
    return function != nullptr;
  }
};

MatmulHeuristics::MatmulHeuristics(std::unique_ptr<Library> library) : library_(std::move(library)) {}
MatmulHeuristics::~MatmulHeuristics() = default;

std::unique_ptr<MatmulHeuristics> MatmulHeuristics::open(const Device& device, std::string& why) {
  const char* const named = std::getenv("KSCOUT_NVMMH");
  const char* const file = named && *named ? named : "libnvMatmulHeuristics.so.0";
  auto library = std::make_unique<Library>();
  library->file = dlopen(loader_name(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->file) {
    why = fmt::format("{} (wheel nvidia-matmul-heuristics; KSCOUT_NVMMH names the library)", dlerror());
    return nullptr;
  }
  int (*create)(void**) = nullptr;
  int (*create_hardware)(void**) = nullptr;
  int (*set_gpu)(void*, int) = nullptr;
  unsigned (*version)(char*, unsigned) = nullptr;
  const bool whole =
      library->find(create, "nvMatmulHeuristicsCreate") &&
      library->find(create_hardware, "nvMatmulHeuristicsHardwareDescriptorCreate") &&
      library->find(set_gpu, "nvMatmulHeuristicsHardwareDescriptorSetPredefinedGpu") &&
      library->find(library->load_measurements, "nvMatmulHeuristicsLoadInternalDiscoverySet") &&
      library->find(library->best, "nvMatmulHeuristicsGetGemmConfig") &&
      library->find(version, "nvMatmulHeuristicsGetVersionString");
  if (!whole) {
    why = fmt::format("{}: not the interface of release 0.1", file);
    return nullptr;
  }
  const auto* const gpu = std::find_if(std::begin(kGpus), std::end(kGpus),
                                       [&](const KnownGpu& one) { return one.device == device.name; });
  if (gpu == std::end(kGpus)) {
    why = fmt::format("no preset of it is known for device '{}'", device.name);
    return nullptr;
  }
  if (create(&library->handle) != kSuccess || create_hardware(&library->hardware) != kSuccess ||
      set_gpu(library->hardware, gpu->number) != kSuccess) {
    why = fmt::format("{} refuses its preset of {}", file, device.name);
    return nullptr;
  }
  std::array<char, 64> text{};
  version(text.data(), text.size() - 1);
  auto opened = std::unique_ptr<MatmulHeuristics>(new MatmulHeuristics(std::move(library)));
  opened->version_ = text.data();
  return opened;
}

std::vector<SuggestedKernel> MatmulHeuristics::suggest(const GemmProblem& problem, int count) {
  const char* const types = precision(problem);
  if (!types || count < 1) return {};
  const int layout = layout_number(problem.layout);
  if (library_->loaded.emplace(types, layout).second)  // without stored measurements it uses its model alone
    library_->load_measurements(library_->handle, types, kTargetCutlass3, layout, library_->hardware);
  const CProblem asked{static_cast<std::uint32_t>(problem.m), static_cast<std::uint32_t>(problem.n),
                       static_cast<std::uint32_t>(problem.k), static_cast<std::uint32_t>(problem.batch),
                       static_cast<std::uint8_t>(layout)};
  std::vector<CKernel> found(static_cast<std::size_t>(count));
  const unsigned answered = library_->best(library_->handle, types, 0, kTargetCutlass3, &asked, found.data(),
                                           static_cast<unsigned>(count), library_->hardware);
  found.resize(std::min<std::size_t>(found.size(), answered));
  std::vector<SuggestedKernel> kernels;
  for (const CKernel& one : found) {
    kernels.push_back({one.cta[0], one.cta[1], one.cta[2], one.cluster[0], one.cluster[1], one.stages,
                       one.split_k, one.swizzle, one.order == 0});
  }
  return kernels;
}

namespace {

double octaves(int a, int b) { return std::fabs(std::log2(static_cast<double>(a) / b)); }

/// 0 for the suggestion itself. Each property outweighs all later ones.
double distance(const SuggestedKernel& kernel, const CutlassConfig& c) {
  const bool cutlass2 = c.is(CutlassPipeline::mma80);
  const int parts = std::max(1, kernel.split_k);
  const bool evenly = c.decomposition == static_cast<std::int32_t>(CutlassDecomposition::stream_k);
  double far = cutlass2 ? 1e8 : 0;
  far += 1e6 * (octaves(c.tile_m, kernel.tile_m) + octaves(c.tile_n, kernel.tile_n));
  far += 1e4 * (octaves(c.split_k, parts) + (evenly ? 0.5 : 0));
  far += 1e2 * (octaves(c.cluster_m, std::max(1, kernel.cluster_m)) +
                octaves(c.cluster_n, std::max(1, kernel.cluster_n)));
  far += 10 * octaves(c.tile_k, kernel.tile_k);
  far += octaves(std::max(1, c.swizzle), std::max(1, kernel.swizzle));
  const bool along_n = c.raster == static_cast<std::int32_t>(CutlassRaster::along_n);
  return far + (along_n == kernel.along_n ? 0 : 0.1);
}

}  // namespace

Matched nearest(const SuggestedKernel& kernel, std::span<const KernelConfig> existing) {
  Matched matched;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < existing.size(); ++i) {
    const double far = distance(kernel, CutlassConfig::from(existing[i]));
    if (far > least) continue;
    if (far < least) matched.configs.clear();
    least = far;
    matched.configs.push_back(i);
  }
  matched.exact = least == 0;
  return matched;
}

}  // namespace kscout::bench
