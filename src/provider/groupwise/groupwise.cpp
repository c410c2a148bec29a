#include "provider/groupwise/groupwise.h"

#include <array>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "provider/name_reader.h"
#include "provider/signature_rules.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr std::string_view kGroupwiseKinds[] = {"gemm", "depthwise"};

constexpr NamedAxis kGroupwiseTable[] = {
    {{"kind", "1", "implicit GEMM on the tensor cores, or a channel in each lane", kGroupwiseKinds}, "__"},
    {{"tile_m", "elements", "rows of the implicit GEMM that one block computes; 0 = depthwise"},
     "_t",
     NameForm::optional},
    {{"tile_n", "elements", "columns that one block computes; 0 = depthwise"}, "x", NameForm::optional},
    {{"merge", "groups", "groups that one block computes as one product; 0 = depthwise"},
     "_m",
     NameForm::optional},
    {{"vector", "elements", "channels of one thread; 0 = gemm"}, "_v", NameForm::optional},
    {{"pixels", "elements", "results along the width of one thread; 0 = gemm"}, "x", NameForm::optional},
    {{"split_k", "1", "split-K slices, summed at the end", {}, true}, "_k"},
};
constexpr auto kGroupwiseAxes = axes_of(kGroupwiseTable);
constexpr auto kGroupwiseName = parts_of(kGroupwiseTable);
constexpr std::tuple kGroupwiseFields{
    &GroupwiseConfig::kind,   &GroupwiseConfig::tile_m, &GroupwiseConfig::tile_n, &GroupwiseConfig::merge,
    &GroupwiseConfig::vector, &GroupwiseConfig::pixels, &GroupwiseConfig::split_k};
static_assert(std::tuple_size_v<decltype(kGroupwiseFields)> == std::size(kGroupwiseAxes));

constexpr ConfigSpace kGroupwiseSpaces[] = {{"groupwise", Op::conv_fwd, kGroupwiseAxes},
                                            {"groupwise", Op::conv_bwd_data, kGroupwiseAxes},
                                            {"groupwise", Op::conv_bwd_weight, kGroupwiseAxes}};
constexpr const ConfigSpace& space_of(Op op) {
  return kGroupwiseSpaces[static_cast<int>(op) - static_cast<int>(Op::conv_fwd)];
}

/// Numbers of trait `algorithm`, above those of every engine of cuDNN.
constexpr std::int32_t kGemmAlgorithm = 1200, kDepthwiseAlgorithm = 1201;

class GroupwiseProvider final : public Provider {
 public:
  std::string_view name() const noexcept override { return "groupwise"; }
  std::string_view help() const noexcept override {
    return "kernels of grouped and depthwise convolutions for NVIDIA's GPUs, run by backend cuda";
  }
  bool built_in() const noexcept override { return true; }
  bool runs_on(const Device& device) const noexcept override {
    return device.kind == DeviceKind::gpu && device.vendor == "NVIDIA";
  }
  std::span<const Op> ops() const noexcept override { return kDirections; }
  const ConfigSpace& space(Op op) const override {
    if (!is_direction(op))
      fail(Errc::unsupported, "groupwise has no kernels for {}; it has {}", word(op),
           fmt::join(kDirectionWords, ", "));
    return space_of(op);
  }

  std::string print(const Signature& signature, const KernelConfig& config) const override {
    check_signature(*this, signature);
    GroupwiseConfig::from(config);  // throws for what no name can hold
    std::string text = fmt::format("groupwise_{}", conv_signature_text(signature));
    print_axes(text, config, kGroupwiseName);
    return text;
  }

  NamedConfig parse(std::string_view name) const override {
    NameReader in(this->name(), name);
    in.literal("groupwise_");
    const Signature signature = read_conv_signature(in);
    NamedConfig result{signature, KernelConfig(space_of(signature.op))};
    in.check_signature(*result.config.space, signature);
    read_axes(in, result.config, kGroupwiseName);
    GroupwiseConfig::from(result.config);
    return result;
  }

  Traits traits(const Signature&, const KernelConfig& config, const Device&) const override {
    const GroupwiseConfig c = GroupwiseConfig::from(config);
    constexpr double kGap = 8;  // elements after each line in shared memory
    Traits t;
    t.workers = t.workers_m = t.workers_n = 0;
    t.packs_a = t.packs_b = 0;
    t.kind = 0;
    t.split_k = c.split_k;
    t.suggestion = 0;
    if (c.kind == GroupwiseKind::depthwise) {
      t.algorithm = kDepthwiseAlgorithm;
      t.threads_per_worker = 128;
      t.vector_elements = t.alignment = c.vector;
      t.inner_m = c.pixels;
      t.inner_n = c.vector;
      t.register_elements = static_cast<double>(c.pixels) * c.vector;
      return t;
    }
    t.algorithm = kGemmAlgorithm;
    t.variant = c.merge;
    t.tile_m = c.tile_m;
    t.tile_n = c.tile_n;
    t.tile_k = 32;
    t.stages = 4;
    t.threads_per_worker = c.tile_m * c.tile_n >= 128 * 64 ? 256 : 128;
    t.register_elements = static_cast<double>(c.tile_m) * c.tile_n;
    t.shared_bytes = t.stages * 2 * (c.tile_m + c.tile_n) * (t.tile_k + kGap);
    t.alignment = 1;
    return t;
  }
};

}  // namespace

const Provider& groupwise_provider() {
  static const GroupwiseProvider provider;
  return provider;
}

GroupwiseConfig GroupwiseConfig::from(const KernelConfig& config) {
  const bool own = config.space && config.space->provider == kGroupwiseSpaces[0].provider;
  const auto c = typed_config(config, own ? *config.space : kGroupwiseSpaces[0], kGroupwiseFields);
  const bool has_tiles = c.tile_m > 0 && c.tile_n > 0 && c.merge > 0;
  const bool has_strips = c.vector > 0 && c.pixels > 0;
  const bool depthwise = c.kind == GroupwiseKind::depthwise;
  const bool has_others = depthwise ? c.tile_m + c.tile_n + c.merge > 0 : c.vector + c.pixels > 0;
  if ((depthwise ? !has_strips : !has_tiles) || has_others) {
    fail(Errc::invalid_argument,
         "groupwise {}: kind gemm has tile_m, tile_n and merge, kind depthwise has vector and pixels, and "
         "axes of the other kind are 0 (kind={}, tile_m={}, tile_n={}, merge={}, vector={}, pixels={})",
         word(config.space->op), kGroupwiseKinds[depthwise], c.tile_m, c.tile_n, c.merge, c.vector, c.pixels);
  }
  return c;
}

}  // namespace kscout
