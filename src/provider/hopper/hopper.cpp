#include "provider/hopper/hopper.h"

#include <cmath>

#include <kscout/conv_problem.h>

#include "provider/nvidia_gemm.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr NamedAxis kHopperTable[] = {
    {{"tile_n", "elements", "columns of C that one block computes; a tile has 128 rows and 64 of K"},
     "__128x"},
    {{"cluster", "blocks", "blocks along M that share the loads of B, where B is aligned", {}, true},
     "x64_c"},
    {{"split_k", "1", "split-K slices, summed at the end", {}, true}, "_k"},
};
constexpr auto kHopperAxes = axes_of(kHopperTable);
constexpr std::tuple kHopperFields{&HopperConfig::tile_n, &HopperConfig::cluster, &HopperConfig::split_k};
static_assert(std::tuple_size_v<decltype(kHopperFields)> == std::size(kHopperAxes));
constexpr auto kHopperName = parts_of(kHopperTable);

constexpr ConfigSpace kHopperGemmSpace{"hopper", Op::gemm, kHopperAxes};

// A convolution has these axes too.
constexpr ConfigSpace kHopperConvSpaces[] = {{"hopper", Op::conv_fwd, kHopperAxes},
                                             {"hopper", Op::conv_bwd_data, kHopperAxes},
                                             {"hopper", Op::conv_bwd_weight, kHopperAxes}};
constexpr const ConfigSpace& conv_space(Op op) {
  return kHopperConvSpaces[static_cast<int>(op) - static_cast<int>(Op::conv_fwd)];
}
constexpr bool is_conv(const KernelConfig& config) {
  return config.space && is_direction(config.space->op) && config.space == &conv_space(config.space->op);
}
constexpr std::string_view kHopperConvPrefix = "hopper_conv_";

// A grouped GEMM has the first two axes.
constexpr std::span kHopperGroupedAxes = std::span(kHopperAxes).first<2>();
constexpr std::tuple kHopperGroupedFields{&HopperConfig::tile_n, &HopperConfig::cluster};
static_assert(std::tuple_size_v<decltype(kHopperGroupedFields)> == std::size(kHopperGroupedAxes));
constexpr std::span kHopperGroupedName = std::span(kHopperName).first<2>();
constexpr ConfigSpace kHopperGroupedSpace{"hopper", Op::grouped_gemm, kHopperGroupedAxes};
constexpr std::string_view kHopperGroupedPrefix = "hopper_grouped_gemm_";

/// Number of trait `algorithm`, above those of cuBLASLt and CUTLASS.
constexpr std::int32_t kHopperAlgorithm = 1100;

class HopperProvider final : public NvidiaGemmProvider {
 public:
  HopperProvider() : NvidiaGemmProvider(kHopperGemmSpace) {}
  std::string_view help() const noexcept override {
    return "kernels for Hopper: GEMMs with lines at any address, grouped GEMMs, convolutions of one group; "
           "run by backend cuda";
  }
  std::span<const Op> ops() const noexcept override {
    static constexpr Op kOps[] = {Op::gemm, Op::grouped_gemm, Op::conv_fwd, Op::conv_bwd_data,
                                  Op::conv_bwd_weight};
    return kOps;
  }
  const ConfigSpace& space(Op op) const override {
    if (is_direction(op)) return conv_space(op);
    return op == Op::grouped_gemm ? kHopperGroupedSpace : NvidiaGemmProvider::space(op);
  }
  bool built_in() const noexcept override { return true; }
  std::string print(const Signature& signature, const KernelConfig& config) const override {
    HopperConfig::from(config);  // throws for a value that no name can hold
    if (config.space == &kHopperGemmSpace) return name_of(signature, config, kHopperName);
    check_signature(*this, signature);
    if (is_conv(config)) {
      std::string text = fmt::format("hopper_{}", conv_signature_text(signature));
      print_axes(text, config, kHopperName);
      return text;
    }
    std::string text = std::string(kHopperGroupedPrefix) + gemm_signature_text(signature);
    print_axes(text, config, kHopperGroupedName);
    return text;
  }
  NamedConfig parse(std::string_view name) const override {
    const bool conv = name.starts_with(kHopperConvPrefix);
    if (!conv && !name.starts_with(kHopperGroupedPrefix)) return named(name, kHopperName);
    NameReader in(this->name(), name);
    if (conv) {
      in.literal("hopper_");
      const Signature signature = read_conv_signature(in);
      NamedConfig result{signature, KernelConfig(conv_space(signature.op))};
      in.check_signature(*result.config.space, signature);
      read_axes(in, result.config, kHopperName);
      return result;
    }
    in.literal(kHopperGroupedPrefix);
    NamedConfig result{read_gemm_signature(in, "__"), KernelConfig(kHopperGroupedSpace)};
    result.signature.op = Op::grouped_gemm;
    in.check_signature(kHopperGroupedSpace, result.signature);
    read_axes(in, result.config, kHopperGroupedName);
    return result;
  }

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
    t.vector_elements = t.alignment = is_conv(config) ? 8 : 1;
    t.persistent = 1;
    t.cluster_m = t.cluster = c.cluster;
    t.cluster_n = 1;
    t.algorithm = kHopperAlgorithm;
    t.suggestion = 0;
    return t;
  }
};

}  // namespace

const Provider& hopper_provider() {
  static const HopperProvider provider;
  return provider;
}

HopperConfig HopperConfig::from(const KernelConfig& config) {
  if (config.space == &kHopperGroupedSpace)
    return typed_config(config, kHopperGroupedSpace, kHopperGroupedFields);
  return typed_config(config, is_conv(config) ? *config.space : kHopperGemmSpace, kHopperFields);
}

}  // namespace kscout
