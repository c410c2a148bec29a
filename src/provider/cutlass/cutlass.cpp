#include "provider/cutlass/cutlass.h"

#include <algorithm>

#include "provider/nvidia_gemm.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr std::string_view kPipelines[] = {"wgmma_coop", "wgmma_pingpong", "mma80"};
constexpr std::string_view kSchedulers[] = {"persistent", "stream_k", "grid"};
constexpr std::string_view kEpilogues[] = {"tma", "nosmem", "smem"};
constexpr std::string_view kRasters[] = {"along_m", "along_n"};
constexpr std::string_view kDecompositions[] = {"data_parallel", "split_k", "stream_k"};

constexpr NamedAxis kCutlassTable[] = {
    {{"pipeline", "1",
      "wgmma_coop: two warpgroups share a tile; wgmma_pingpong: each has its own; mma80: instructions of "
      "sm_80, "
      "several stages",
      kPipelines},
     "__"},
    {{"tile_m", "elements", "rows of C that one block computes"}, "_"},
    {{"tile_n", "elements", "columns of C that one block computes"}, "x"},
    {{"tile_k", "elements", "K of one stage"}, "x"},
    {{"warp_m", "elements", "rows of C that one warp computes (mma80); 0 = the warpgroup's"}, "_w"},
    {{"warp_n", "elements", "columns of C that one warp computes (mma80); 0 = the warpgroup's"}, "x"},
    {{"cluster_m", "blocks", "blocks of a cluster along M, which share columns of B"}, "_c"},
    {{"cluster_n", "blocks", "blocks of a cluster along N, which share rows of A"}, "x"},
    {{"scheduler", "1",
      "persistent: blocks stay and take tiles; stream_k: and may share a tile's K; grid: a block per tile",
      kSchedulers},
     "_"},
    {{"epilogue", "1",
      "how C is stored: tma: by tensor copies; nosmem: straight from registers; smem: through "
      "shared memory",
      kEpilogues},
     "_"},
    {{"stages", "1", "stages kept in shared memory; 0 = as many as fit"}, "_s"},
    {{"align", "bytes", "rows of A and B start at multiples of this"}, "_a"},
    {{"swap_ab", "1", "1: computes C transposed, so that few rows of C become columns of a tile"},
     "_swap",
     NameForm::flag},
    {{"fast_accum", "1", "1: sums of 8-bit products stay in the matrix unit, with fewer digits"},
     "_fast",
     NameForm::flag},
    {{"raster", "1", "direction of C in which blocks take consecutive tiles", kRasters, true}, "__"},
    {{"swizzle", "1", "tiles of C walked together for the level-2 cache, at most", {}, true}, "_z"},
    {{"decomposition", "1",
      "how blocks share the K of a tile: not at all; in split_k equal slices; evenly over all blocks",
      kDecompositions, true},
     "_"},
    {{"split_k", "1", "split-K slices, summed at the end", {}, true}, "_k"},
};
constexpr auto kCutlassAxes = axes_of(kCutlassTable);

constexpr std::tuple kCutlassFields{
    &CutlassConfig::pipeline,  &CutlassConfig::tile_m,        &CutlassConfig::tile_n,
    &CutlassConfig::tile_k,    &CutlassConfig::warp_m,        &CutlassConfig::warp_n,
    &CutlassConfig::cluster_m, &CutlassConfig::cluster_n,     &CutlassConfig::scheduler,
    &CutlassConfig::epilogue,  &CutlassConfig::stages,        &CutlassConfig::align,
    &CutlassConfig::swap_ab,   &CutlassConfig::fast_accum,    &CutlassConfig::raster,
    &CutlassConfig::swizzle,   &CutlassConfig::decomposition, &CutlassConfig::split_k};
static_assert(std::tuple_size_v<decltype(kCutlassFields)> == std::size(kCutlassAxes));

constexpr auto kCutlassName = parts_of(kCutlassTable);
/// The last parts are arguments of a launch.
constexpr std::size_t kKernelParts = std::size(kCutlassName) - 4;

/// Exceeds the number of words of each axis in trait `variant`: how K is split, how C is stored, whether C is
/// transposed.
constexpr std::int32_t kWays = 4;

/// Number of stages that fit beside the epilogue's buffers in the shared memory of an sm_90 block. CUTLASS's
/// own count differs slightly (one stage less for 128 x 192 and 64 x 128).
double stages_that_fit(const Signature& s, const CutlassConfig& c) {
  // CUDA keeps 1 KiB of a multiprocessor's for each block.
  static const double shared = device_preset("h200").shared_bytes_per_core - 1024;
  const double stage =
      c.tile_k * (c.tile_m * bytes_per_element(s.dtype_a) + c.tile_n * bytes_per_element(s.dtype_b));
  const double columns = std::min(c.swap_ab ? c.tile_m : c.tile_n, 32);
  const double rows = c.is(CutlassPipeline::wgmma_coop) ? 128 : 64;
  const double store = c.is(CutlassEpilogue::tma) ? 2 * rows * columns * bytes_per_element(s.dtype_c) : 0;
  return std::floor((shared - store) / stage);
}

class CutlassProvider final : public NvidiaGemmProvider {
 public:
  CutlassProvider() : NvidiaGemmProvider(cutlass_gemm_space) {}
  std::string_view help() const noexcept override {
    return "GEMM kernels of NVIDIA's CUTLASS for Hopper, generated and compiled on their own, run by backend "
           "cuda";
  }
  std::string print(const Signature& signature, const KernelConfig& config) const override {
    return print_parts(signature, config, kCutlassName);
  }
  std::string print_parts(const Signature& signature, const KernelConfig& config,
                          std::span<const NamePart> parts) const {
    CutlassConfig::from(config);  // throws for a value that no name can hold
    return name_of(signature, config, parts);
  }
  NamedConfig parse(std::string_view name) const override { return named(name, kCutlassName); }

  Traits traits(const Signature& signature, const KernelConfig& config, const Device&) const override {
    const CutlassConfig c = CutlassConfig::from(config);
    const bool mma80 = c.is(CutlassPipeline::mma80);
    constexpr double kWarpLanes = 32, kWarpSpecialised = 384;
    Traits t = gpu_traits();
    t.tile_m = c.tile_m;
    t.tile_n = c.tile_n;
    t.tile_k = c.tile_k;
    t.inner_m = mma80 ? c.warp_m : c.tile_m;
    t.inner_n = mma80 ? c.warp_n : c.tile_n;
    t.threads_per_worker =
        mma80 ? kWarpLanes * (c.tile_m / std::max(c.warp_m, 1)) * (c.tile_n / std::max(c.warp_n, 1))
              : kWarpSpecialised;
    t.stages = c.stages > 0 ? c.stages : stages_that_fit(signature, c);
    t.split_k = c.split_k;
    t.shared_bytes =
        t.stages * t.tile_k *
        (t.tile_m * bytes_per_element(signature.dtype_a) + t.tile_n * bytes_per_element(signature.dtype_b));
    t.register_elements = t.inner_m * t.inner_n;
    t.vector_elements = c.align / bytes_per_element(signature.dtype_a);
    t.alignment = t.vector_elements;
    t.order = c.raster;
    t.persistent = c.is(CutlassScheduler::grid) ? 0 : 1;
    t.cluster_m = c.cluster_m;
    t.cluster_n = c.cluster_n;
    t.cluster = t.cluster_m * t.cluster_n;
    t.algorithm = Traits::first_compiled_algorithm + c.pipeline;
    t.variant = (c.decomposition * kWays + c.epilogue) * kWays + c.swap_ab;
    t.suggestion = 0;
    t.swizzle = c.swizzle;
    return t;
  }
};

}  // namespace

constexpr ConfigSpace cutlass_gemm_space{"cutlass", Op::gemm, kCutlassAxes};

namespace {

const CutlassProvider& cutlass() {
  static const CutlassProvider provider;
  return provider;
}

}  // namespace

const Provider& cutlass_provider() { return cutlass(); }

CutlassConfig CutlassConfig::from(const KernelConfig& config) {
  return typed_config(config, cutlass_gemm_space, kCutlassFields);
}

KernelConfig CutlassConfig::kernel_config() const {
  return untyped_config(*this, cutlass_gemm_space, kCutlassFields);
}

std::string cutlass_kernel_name(const Signature& signature, const KernelConfig& config) {
  return cutlass().print_parts(signature, config, std::span(kCutlassName).first(kKernelParts));
}

}  // namespace kscout
