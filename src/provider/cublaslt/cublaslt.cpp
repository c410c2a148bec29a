#include "provider/cublaslt/cublaslt.h"

#include <algorithm>
#include <array>
#include <set>

#include "provider/cublaslt/library_numbers.h"
#include "provider/nvidia_gemm.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

// The library's bits: sums split-K slices in place, in a workspace of the accumulator's type, or in C's type.
constexpr std::string_view kReductions[] = {"none", "inplace", "acc", "inplace_acc", "out"};
constexpr std::int32_t kInAccumulator = 2;
// Bits of CUBLASLT_MATMUL_INNER_SHAPE: the instruction of the inner loop.
constexpr std::string_view kInner[] = {"any", "mma884", "mma1684", "mma1688", "mma16816"};

constexpr NamedAxis kCublasLtTable[] = {
    {{"version", "1", "release of the library that defines the algorithm numbers; 0 = any installed release"},
     {},
     NameForm::covered},
    {{"suggestion", "1",
      "n: the n-th suggestion of the library's own heuristic for the problem, or the algorithm that was it; "
      "0: "
      "the algorithm that follows"},
     {},
     NameForm::covered},
    {{"algorithm", "1", "the library's number of the algorithm"}, "a"},
    {{"tile_m", "elements", "rows of C that one block computes; 0 = not stated"}, "_"},
    {{"tile_n", "elements", "columns of C that one block computes; 0 = not stated"}, "x"},
    {{"tile_k", "elements", "K of one stage; 0 = not stated"}, "x"},
    {{"stages", "1", "stages kept in shared memory; 0 = the library's choice"}, "_st"},
    {{"split_k", "1", "split-K slices, summed at the end; 0 = the library divides K its own way", {}, true},
     "_s"},
    {{"reduction", "1", "where split-K slices are summed", kReductions, true}, "_"},
    {{"swizzle", "1", "1: blocks are walked in the order that reuses the level-2 cache", {}, true}, "_w"},
    {{"custom", "1", "a number that only the algorithm understands"}, "_o"},
    {{"inner", "1", "instruction of the inner loop", kInner}, "_"},
    {{"cluster_m", "blocks", "blocks of a cluster along M; 0 = the library's choice"}, "_c"},
    {{"cluster_n", "blocks", "blocks of a cluster along N; 0 = the library's choice"}, "x"},
};
constexpr auto kCublasLtAxes = axes_of(kCublasLtTable);

constexpr std::tuple kCublasLtFields{
    &CublasLtConfig::version,   &CublasLtConfig::suggestion, &CublasLtConfig::algorithm,
    &CublasLtConfig::tile_m,    &CublasLtConfig::tile_n,     &CublasLtConfig::tile_k,
    &CublasLtConfig::stages,    &CublasLtConfig::split_k,    &CublasLtConfig::reduction,
    &CublasLtConfig::swizzle,   &CublasLtConfig::custom,     &CublasLtConfig::inner,
    &CublasLtConfig::cluster_m, &CublasLtConfig::cluster_n};
static_assert(std::tuple_size_v<decltype(kCublasLtFields)> == std::size(kCublasLtAxes));

constexpr auto kAlgorithmName = parts_of(kCublasLtTable);

class CublasLtProvider final : public NvidiaGemmProvider {
 public:
  CublasLtProvider() : NvidiaGemmProvider(cublaslt_gemm_space) {}
  std::string_view help() const noexcept override {
    return "algorithms of NVIDIA's cuBLASLt, run by backend cuda";
  }
  bool built_in() const noexcept override { return true; }
  std::string print(const Signature& signature, const KernelConfig& config) const override {
    check_signature(*this, signature);
    const CublasLtConfig c = CublasLtConfig::from(config);
    std::string text = prefix() + fmt::format("{}_v{}__", gemm_signature_text(signature), c.version);
    if (c.suggestion > 0) text += fmt::format("suggestion{}", c.suggestion);
    if (!c.is_named()) return text;
    if (c.suggestion > 0) text += '_';
    print_axes(text, config, kAlgorithmName);
    return text;
  }

  NamedConfig parse(std::string_view name) const override {
    NameReader in(this->name(), name);
    in.literal(prefix());
    const Signature signature = read_gemm_signature(in, "_v");
    in.check_signature(cublaslt_gemm_space, signature);
    CublasLtConfig c;
    in.literal("_v");
    c.version = in.number("version");
    in.literal("__");
    if (in.optional("suggestion")) {
      c.suggestion = in.number("suggestion");
      if (c.suggestion == 0) in.bad("a suggestion above 0");
    }
    KernelConfig config = c.kernel_config();
    const bool named = c.suggestion == 0 || in.optional("_");
    read_axes(in, config, named ? kAlgorithmName : std::span<const NamePart>());
    return {signature, config};
  }

  Traits traits(const Signature& signature, const KernelConfig& config, const Device&) const override {
    const CublasLtConfig c = CublasLtConfig::from(config);
    Traits t = gpu_traits();
    if (c.suggestion > 0) t.listed = c.suggestion;
    t.suggestion = c.is_named() ? 0 : c.suggestion;
    if (!c.is_named()) return t;  // the library may suggest a different algorithm for each problem
    const auto said = [](std::int32_t value) { return value > 0 ? value : Traits::unknown; };
    t.tile_m = said(c.tile_m);
    t.tile_n = said(c.tile_n);
    t.tile_k = said(c.tile_k);
    t.stages = said(c.stages);
    t.split_k = said(c.split_k);
    t.cluster_m = said(c.cluster_m);
    t.cluster_n = said(c.cluster_n);
    t.cluster = t.cluster_m * t.cluster_n;
    t.algorithm = c.algorithm;
    t.variant = c.custom;
    t.swizzle = c.swizzle + 1;
    t.shared_bytes =
        t.stages * t.tile_k *
        (t.tile_m * bytes_per_element(signature.dtype_a) + t.tile_n * bytes_per_element(signature.dtype_b));
    t.register_elements = t.tile_m * t.tile_n;
    return t;
  }
};

}  // namespace

constexpr ConfigSpace cublaslt_gemm_space{"cublaslt", Op::gemm, kCublasLtAxes};

const Provider& cublaslt_provider() {
  static const CublasLtProvider provider;
  return provider;
}

CublasLtConfig CublasLtConfig::from(const KernelConfig& config) {
  return typed_config(config, cublaslt_gemm_space, kCublasLtFields);
}

KernelConfig CublasLtConfig::kernel_config() const {
  return untyped_config(*this, cublaslt_gemm_space, kCublasLtFields);
}

std::vector<KernelConfig> other_splits(const GemmProblem& problem, const KernelConfig& named, double cores) {
  CublasLtConfig config = CublasLtConfig::from(named);
  if (problem.batch > 1 || config.tile_m == 0 || config.tile_n == 0 || config.tile_k == 0) return {};
  // Of these, cuBLASLt 13.1 refuses nearly every other number.
  if (config.algorithm == 41 || config.algorithm == 42) return {};
  const std::int32_t own = config.split_k, reduction = config.reduction;
  config.suggestion = 0;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t tiles = ceil_div(problem.m, config.tile_m) * ceil_div(problem.n, config.tile_n);
  const std::int64_t steps = ceil_div(problem.k, config.tile_k);
  if (tiles == 0 || steps == 0) return {};
  std::set<std::int64_t> splits;
  const auto wave = static_cast<std::int64_t>(cores) / tiles;
  for (const std::int64_t wanted : std::array<std::int64_t, 10>{1, 2, 3, 4, 6, 8, 12, 16, wave, 2 * wave}) {
    if (wanted < 1 || wanted > steps) continue;
    const std::int64_t slices = ceil_div(steps, ceil_div(steps, wanted));
    if (ceil_div(problem.k / slices, config.tile_k) * slices * config.tile_k >= problem.k)
      splits.insert(slices);
  }
  splits.erase(own);
  std::vector<KernelConfig> configs;
  for (const std::int64_t slices : splits) {
    config.split_k = static_cast<std::int32_t>(slices);
    config.reduction = slices == 1 ? 0 : own > 1 ? reduction : kInAccumulator;
    configs.push_back(config.kernel_config());
  }
  return configs;
}

std::optional<CublasLtNumbers> library_numbers(const CublasLtConfig& c) {
  if (!c.is_named()) return std::nullopt;
  // The library's matrices are transposed: its rows are columns here.
  const NamedSizes* const tile = find_sizes(library_tiles(), c.tile_n, c.tile_m);
  const NamedSizes* const stages = find_sizes(library_stages(), c.tile_k, c.stages);
  const NamedSizes* const cluster = find_sizes(library_clusters(), c.cluster_n, c.cluster_m);
  if (!tile || !stages || !cluster) return std::nullopt;
  return CublasLtNumbers{.id = c.algorithm,
                         .tile = tile->number,
                         .stages = stages->number,
                         .split_k = c.split_k == 0 ? -1 : c.split_k,
                         .reduction = static_cast<std::uint32_t>(c.reduction),
                         .swizzle = static_cast<std::uint32_t>(c.swizzle),
                         .custom = static_cast<std::uint32_t>(c.custom),
                         .inner = static_cast<std::uint16_t>(c.inner),
                         .cluster = static_cast<std::uint16_t>(cluster->number)};
}

std::optional<CublasLtConfig> config_of(const CublasLtNumbers& n, std::int32_t version) {
  const NamedSizes* const tile = find_number(library_tiles(), n.tile);
  const NamedSizes* const stages = find_number(library_stages(), n.stages);
  const NamedSizes* const cluster = find_number(library_clusters(), n.cluster);
  if (!tile || !stages || !cluster || n.split_k < -1) return std::nullopt;
  return CublasLtConfig{.version = version,
                        .algorithm = n.id,
                        .tile_m = tile->second,
                        .tile_n = tile->first,
                        .tile_k = stages->first,
                        .stages = stages->second,
                        .split_k = std::max(n.split_k, 0),
                        .reduction = static_cast<std::int32_t>(n.reduction),
                        .swizzle = static_cast<std::int32_t>(n.swizzle),
                        .custom = static_cast<std::int32_t>(n.custom),
                        .inner = n.inner,
                        .cluster_m = cluster->second,
                        .cluster_n = cluster->first};
}

}  // namespace kscout
