#include "provider/hopper/hopper.h"

#include <cmath>

#include "provider/nvidia_gemm.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr Axis kHopperAxes[] = {
    {"tile_n", "elements", "columns of C that one block computes; a tile has 128 rows and 64 of K"},
    {"cluster", "blocks", "blocks along M that share the loads of B, where B is aligned", {}, true},
    {"split_k", "1", "split-K slices, summed at the end", {}, true},
};

constexpr std::tuple kHopperFields{&HopperConfig::tile_n, &HopperConfig::cluster, &HopperConfig::split_k};
static_assert(std::tuple_size_v<decltype(kHopperFields)> == std::size(kHopperAxes));

constexpr NamePart kHopperName[] = {{"__128x", axis_at(kHopperAxes, "tile_n")},
                                    {"x64_c", axis_at(kHopperAxes, "cluster")},
                                    {"_k", axis_at(kHopperAxes, "split_k")}};

/// Number of trait `algorithm`, above those of cuBLASLt and CUTLASS.
constexpr std::int32_t kHopperAlgorithm = 1100;

class HopperProvider final : public NvidiaGemmProvider {
 public:
  HopperProvider() : NvidiaGemmProvider(hopper_gemm_space) {}
  std::string_view help() const noexcept override {
    return "GEMM kernels for Hopper with lines at any address, run by backend cuda";
  }
  bool built_in() const noexcept override { return true; }
  std::string print(const Signature& signature, const KernelConfig& config) const override {
    HopperConfig::from(config);  // throws for a value that no name can hold
    return name_of(signature, config, kHopperName);
  }
  NamedConfig parse(std::string_view name) const override { return named(name, kHopperName); }

  Traits traits(const Signature&, const KernelConfig& config, const Device&) const override {
    const HopperConfig c = HopperConfig::from(config);
    constexpr double kTileM = 128, kTileK = 64, kPipelineBytes = 192 * 1024;
    Traits t = gpu_traits();
    t.tile_m = t.inner_m = kTileM;
    t.tile_n = t.inner_n = c.tile_n;
    t.tile_k = kTileK;
    t.threads_per_worker = 384;
    const double stage_bytes = kTileK * (kTileM + c.tile_n) * 2;
    t.stages = std::floor(kPipelineBytes / stage_bytes);
    t.split_k = c.split_k;
    t.shared_bytes = t.stages * stage_bytes;
    t.register_elements = kTileM * c.tile_n;
    t.vector_elements = t.alignment = 1;
    t.persistent = 1;
    t.cluster_m = t.cluster = c.cluster;
    t.cluster_n = 1;
    t.algorithm = kHopperAlgorithm;
    t.suggestion = 0;
    return t;
  }
};

}  // namespace

constexpr ConfigSpace hopper_gemm_space{"hopper", Op::gemm, kHopperAxes};

const Provider& hopper_provider() {
  static const HopperProvider provider;
  return provider;
}

HopperConfig HopperConfig::from(const KernelConfig& config) {
  return typed_config(config, hopper_gemm_space, kHopperFields);
}

KernelConfig HopperConfig::kernel_config() const {
  return untyped_config(*this, hopper_gemm_space, kHopperFields);
}

}  // namespace kscout
