#include "provider/native/native.h"

#include <algorithm>
#include <vector>

#include "core/fail.h"
#include "provider/name_reader.h"
#include "provider/native/native_conv.h"
#include "provider/native/native_grouped.h"
#include "provider/signature_rules.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr NamedAxis kTable[] = {
    {kNativeIsaAxis, "__"},
    {{"kind", "1", "how the kernel traverses the problem", kNativeKindWords}, "_"},
    {{"mr", "elements",
      "rows of the register tile; skinny_n with A column-major: lines of A streamed at once"},
     "_"},
    {{"nr", "elements",
      "columns of the register tile; skinny_m with B row-major: lines of B streamed at once"},
     "x"},
    {kNativePackAxes[0], "_", NameForm::packed, "ab"},
    {kNativePackAxes[1], {}, NameForm::covered},
    {{"prefetch", "elements", "how far ahead streamed operands are prefetched; 0 = left to the hardware"},
     "_p",
     NameForm::optional},
    {kNativeBlockAxes[0], "_b"},
    {kNativeBlockAxes[1], "x"},
    {kNativeBlockAxes[2], "x"},
    {{"order", "1",
      "outermost loop over cache blocks; the operand that does not depend on it is packed again",
      kNativeOrderWords, true},
     "_"},
    {{"split_k", "1", "split-K slices: computed by threads of their own, summed at the end", {}, true}, "_s"},
    {{"threads_m", "1", "threads that share the rows of C", {}, true}, "_t"},
    {{"threads_n", "1", "threads that share the columns of C", {}, true}, "x"},
};
constexpr auto kAxes = axes_of(kTable);

constexpr std::tuple kNativeFields{&NativeConfig::isa,       &NativeConfig::kind,     &NativeConfig::mr,
                                   &NativeConfig::nr,        &NativeConfig::pack_a,   &NativeConfig::pack_b,
                                   &NativeConfig::prefetch,  &NativeConfig::mc,       &NativeConfig::kc,
                                   &NativeConfig::nc,        &NativeConfig::order,    &NativeConfig::split_k,
                                   &NativeConfig::threads_m, &NativeConfig::threads_n};
static_assert(std::tuple_size_v<decltype(kNativeFields)> == std::size(kAxes));

constexpr auto kName = parts_of(kTable);

std::string print_native_gemm(const Signature& signature, const KernelConfig& config) {
  NativeConfig::from(config);  // throws for a value that no name can hold
  std::string text = "native_gemm_" + gemm_signature_text(signature);
  print_axes(text, config, kName);
  return text;
}

NamedConfig parse_native_gemm(std::string_view name) {
  NameReader in("native", name);
  in.literal("native_gemm_");
  NamedConfig result{read_gemm_signature(in, "__"), KernelConfig(native_gemm_space)};
  in.check_signature(native_gemm_space, result.signature);
  read_axes(in, result.config, kName);
  return result;
}

Traits native_gemm_traits(const Signature& signature, const KernelConfig& config) {
  const NativeConfig c = NativeConfig::from(config);
  Traits t = native_product_traits(c, signature.layout);
  t.shared_bytes = 4 * ((c.pack_a ? t.tile_m * t.tile_k : 0) + (c.pack_b ? t.tile_n * t.tile_k : 0));
  t.kind = c.kind == NativeKind::small                                        ? 2
           : c.kind == NativeKind::skinny_m || c.kind == NativeKind::skinny_n ? 1
                                                                              : 0;
  return t;
}

/// The kernels of every operation, GEMM first.
std::span<const NativeKernels> all_native_kernels() {
  static const auto all = [] {
    std::vector<NativeKernels> kernels{native_gemm_kernels(), native_conv_kernels(),
                                       native_grouped_kernels()};
    const auto further = further_native_kernels();
    kernels.insert(kernels.end(), further.begin(), further.end());
    return kernels;
  }();
  return all;
}

class NativeProvider final : public Provider {
 public:
  NativeProvider() {
    for (const NativeKernels& kernels : all_native_kernels()) {
      for (const ConfigSpace* const space : kernels.spaces) ops_.push_back(space->op);
    }
  }

  std::string_view name() const noexcept override { return "native"; }
  std::string_view help() const noexcept override {
    return "f32 GEMM and grouped convolution on CPUs: AVX2, AVX-512 and portable code, compiled in";
  }
  bool built_in() const noexcept override { return true; }
  bool runs_on(const Device& device) const noexcept override { return device.kind == DeviceKind::cpu; }
  int host_threads(const KernelConfig& config) const noexcept override {
    return native_kernels_of(*config.space).needs(config).threads;
  }
  std::span<const Op> ops() const noexcept override { return ops_; }
  const ConfigSpace& space(Op op) const override {
    for (const NativeKernels& kernels : all_native_kernels()) {
      for (const ConfigSpace* const space : kernels.spaces) {
        if (space->op == op) return *space;
      }
    }
    fail(Errc::unsupported, "native has no kernels for {}", word(op));
  }

  std::string print(const Signature& signature, const KernelConfig& config) const override {
    check_signature(*this, signature);
    return native_kernels_of(space(signature.op)).print(signature, config);
  }
  NamedConfig parse(std::string_view name) const override {
    const auto all = all_native_kernels();
    const auto fits = [&](const NativeKernels& kernels) { return name.starts_with(kernels.prefix); };
    const auto found = std::ranges::find_if(all, fits);
    return (found == all.end() ? all.front() : *found).parse(name);
  }
  Traits traits(const Signature& signature, const KernelConfig& config, const Device&) const override {
    return native_kernels_of(space(signature.op)).traits(signature, config);
  }

 private:
  std::vector<Op> ops_;
};

}  // namespace

constexpr ConfigSpace native_gemm_space{"native", Op::gemm, kAxes};

const NativeKernels& native_gemm_kernels() {
  static constexpr const ConfigSpace* kSpaces[] = {&native_gemm_space};
  static constexpr NativeKernels kernels{
      .prefix = "native_gemm_",
      .spaces = kSpaces,
      .has_register_tiles = true,
      .needs =
          [](const KernelConfig& config) {
            const NativeConfig c = NativeConfig::from(config);
            return NativeNeeds{c.isa, c.threads()};
          },
      .print = print_native_gemm,
      .parse = parse_native_gemm,
      .traits = native_gemm_traits,
  };
  return kernels;
}

const NativeKernels& native_kernels_of(const ConfigSpace& space) {
  for (const NativeKernels& kernels : all_native_kernels()) {
    if (std::ranges::find(kernels.spaces, &space) != kernels.spaces.end()) return kernels;
  }
  fail(Errc::invalid_argument, "a config of {} is not one of native {}", space.provider, word(space.op));
}

[[gnu::weak]] std::span<const NativeKernels> further_native_kernels() noexcept { return {}; }

const Provider& native_provider() {
  static const NativeProvider provider;
  return provider;
}

Traits native_product_traits(const NativeConfig& c, Layout layout) {
  const bool is_dot = native_form(c.kind, layout) == NativeForm::dot;
  const double lanes = native_lanes(c.isa);
  const auto or_unknown = [](std::int32_t size) { return size > 0 ? size : Traits::unknown; };
  Traits t;
  t.tile_m = or_unknown(c.mc);
  t.tile_n = or_unknown(c.nc);
  t.tile_k = or_unknown(c.kc);
  t.inner_m = c.mr;
  t.inner_n = c.nr;
  t.inner_k = is_dot ? lanes : 1;
  t.workers = c.threads();
  t.workers_m = c.threads_m;
  t.workers_n = c.threads_n;
  t.threads_per_worker = 1;
  t.workers_per_core = 1;
  t.stages = 1;
  t.split_k = c.split_k;
  t.register_elements = c.mr * c.nr * t.inner_k;
  t.vector_elements = lanes;
  t.alignment = 1;
  t.packs_a = c.pack_a;
  t.packs_b = c.pack_b;
  t.order = static_cast<double>(c.order);
  t.prefetch = c.prefetch;
  t.persistent = 0;
  t.cluster = 1;
  t.swizzle = 1;
  return t;
}

NativeConfig NativeConfig::from(const KernelConfig& config) {
  return typed_config(config, native_gemm_space, kNativeFields);
}

std::vector<std::pair<std::string, std::string>> register_tile_terms() {
  std::string lanes = "0", rows = "0", accumulators = "0";
  for (std::size_t isa = 0; isa < std::size(kNativeIsaWords); ++isa) {
    const RegisterTiles tiles = register_tiles(static_cast<NativeIsa>(isa));
    std::string of_width = "0";
    for (int vectors = 1; vectors <= 4; ++vectors)
      of_width =
          fmt::format("if(c.nr == {}, {}, {})", vectors * tiles.lanes, tiles.rows[vectors - 1], of_width);
    const auto add = [&](std::string& term, const auto& value) {
      term = fmt::format("if(c.isa == '{}', {}, {})", kNativeIsaWords[isa], value, term);
    };
    add(lanes, tiles.lanes);
    add(rows, of_width);
    add(accumulators, tiles.accumulators);
  }
  return {{"lanes", lanes},
          {"outer_rows", rows},
          {"accumulators", accumulators},
          {"tile_side", std::to_string(kMaxTileSide)}};
}

NativeForm native_form(NativeKind kind, Layout layout) noexcept {
  switch (kind) {
    case NativeKind::dot:
      return NativeForm::dot;
    case NativeKind::skinny_m:
      return row_major_b(layout) ? NativeForm::update : NativeForm::dot;
    case NativeKind::skinny_n:
      return row_major_a(layout) ? NativeForm::dot : NativeForm::update;
    default:
      return NativeForm::outer;
  }
}

}  // namespace kscout
