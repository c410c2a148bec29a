#include "provider/native/native_conv.h"

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "provider/name_reader.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr std::string_view kConvKindWords[] = {"gemm", "igemm", "rows", "patch", "lanes", "wino"};

constexpr NamedAxis kConvTable[] = {
    {kNativeIsaAxis, "__"},
    {{"kind", "1", "how the kernel traverses the problem", kConvKindWords}, "_"},
    {{"mr", "elements",
      "rows of the register tile: pixels, of conv_bwd_weight output channels; lanes of conv_bwd_weight: sums "
      "kept at once"},
     "_"},
    {{"nr", "elements", "columns of the register tile: channels of the result"}, "x"},
    {{"pack_x", "1", "kind gemm: copy the image into the order in which the inner loop reads it",
      kNativePackWords},
     "_",
     NameForm::packed,
     "xw"},
    {{"pack_w", "1", "copy the filter into the order in which the inner loop reads it", kNativePackWords},
     {},
     NameForm::covered},
    {{"pixels",
      "elements",
      "pixels of a cache block, in whole image rows but for igemm, patch and wino; kind gemm: 0 = all; kind "
      "lanes: "
      "blocks smaller than an image row are register tiles",
      {},
      true},
     "_b"},
    {{"depth", "elements", "channels that are summed before the next cache block; 0 = all", {}, true}, "x"},
    {{"channels", "elements", "kind gemm: channels of the result in a cache block; 0 = all", {}, true}, "x"},
    {{"threads_p", "1", "threads that share the pixels; of conv_bwd_weight each has its own sums", {}, true},
     "_t"},
    {{"threads_k",
      "1",
      "threads that share the channels of the result; of conv_bwd_weight the output channels",
      {},
      true},
     "x"},
};
constexpr auto kConvAxes = axes_of(kConvTable);

constexpr std::tuple kConvFields{
    &NativeConvConfig::isa,       &NativeConvConfig::kind,     &NativeConvConfig::mr,
    &NativeConvConfig::nr,        &NativeConvConfig::pack_x,   &NativeConvConfig::pack_w,
    &NativeConvConfig::pixels,    &NativeConvConfig::depth,    &NativeConvConfig::channels,
    &NativeConvConfig::threads_p, &NativeConvConfig::threads_k};
static_assert(std::tuple_size_v<decltype(kConvFields)> == std::size(kConvAxes));

}  // namespace

constexpr ConfigSpace native_conv_fwd_space{"native", Op::conv_fwd, kConvAxes};
constexpr ConfigSpace native_conv_bwd_data_space{"native", Op::conv_bwd_data, kConvAxes};
constexpr ConfigSpace native_conv_bwd_weight_space{"native", Op::conv_bwd_weight, kConvAxes};

const ConfigSpace& native_conv_space(Op op) noexcept {
  if (op == Op::conv_bwd_data) return native_conv_bwd_data_space;
  return op == Op::conv_bwd_weight ? native_conv_bwd_weight_space : native_conv_fwd_space;
}

NativeConvConfig NativeConvConfig::from(const KernelConfig& config) {
  const Op op = config.space ? config.space->op : Op::conv_fwd;
  return typed_config(config, native_conv_space(op), kConvFields);
}

namespace {

constexpr auto kConvName = parts_of(kConvTable);

std::string print_native_conv(const Signature& signature, const KernelConfig& config) {
  NativeConvConfig::from(config);  // throws for a value that no name can hold
  std::string text = "native_" + conv_signature_text(signature);
  print_axes(text, config, kConvName);
  return text;
}

NamedConfig parse_native_conv(std::string_view name) {
  NameReader in("native", name);
  in.literal("native_");
  const Signature signature = read_conv_signature(in);
  NamedConfig result{signature, KernelConfig(native_conv_space(signature.op))};
  in.check_signature(*result.config.space, signature);
  read_axes(in, result.config, kConvName);
  return result;
}

Traits native_conv_traits(const Signature&, const KernelConfig& config) {
  const NativeConvConfig c = NativeConvConfig::from(config);
  const auto or_unknown = [](std::int32_t size) { return size > 0 ? size : Traits::unknown; };
  Traits t;
  t.tile_m = or_unknown(c.pixels);
  t.tile_n = or_unknown(c.channels);
  t.tile_k = or_unknown(c.depth);
  t.inner_m = c.mr;
  t.inner_n = c.nr;
  t.inner_k = 1;
  t.workers = c.threads();
  t.workers_m = c.threads_p;
  t.workers_n = c.threads_k;
  t.threads_per_worker = 1;
  t.workers_per_core = 1;
  t.stages = 1;
  t.split_k = 1;
  t.register_elements = c.mr * c.nr;
  t.vector_elements = native_lanes(c.isa);
  t.alignment = 1;
  t.packs_a = c.pack_x;
  t.packs_b = c.pack_w;
  t.kind = static_cast<double>(c.kind);
  t.persistent = 0;
  t.cluster = 1;
  t.swizzle = 1;
  return t;
}

constexpr const ConfigSpace* kConvSpaces[] = {&native_conv_fwd_space, &native_conv_bwd_data_space,
                                              &native_conv_bwd_weight_space};

}  // namespace

const NativeKernels& native_conv_kernels() {
  static constexpr NativeKernels kernels{
      .prefix = "native_conv_",
      .spaces = kConvSpaces,
      .has_register_tiles = true,
      .needs =
          [](const KernelConfig& config) {
            const NativeConvConfig c = NativeConvConfig::from(config);
            return NativeNeeds{c.isa, c.threads()};
          },
      .print = print_native_conv,
      .parse = parse_native_conv,
      .traits = native_conv_traits,
  };
  return kernels;
}

}  // namespace kscout
