#include "provider/native/native_grouped.h"

#include <fmt/format.h>

#include "provider/name_reader.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr std::string_view kScheduleWords[] = {"each", "groups", "pieces"};

constexpr NamedAxis kGroupedTable[] = {
    {kNativeIsaAxis, "__"},
    {{"kind", "1", "how the kernel traverses a product", kNativeKindWords}, "_"},
    {{"mr", "elements", "rows of the register tile, as for GEMMs"}, "_"},
    {{"nr", "elements", "columns of the register tile, as for GEMMs"}, "x"},
    {kNativePackAxes[0], "_", NameForm::packed, "ab"},
    {kNativePackAxes[1], {}, NameForm::covered},
    {kNativeBlockAxes[0], "_b"},
    {kNativeBlockAxes[1], "x"},
    {kNativeBlockAxes[2], "x"},
    {{"order", "1", "outermost loop over cache blocks", kNativeOrderWords, true}, "_"},
    {{"schedule", "1",
      "how threads share the groups: each = all threads compute one group after the other, groups = a thread "
      "computes whole groups, pieces = threads take pieces of all groups from one list",
      kScheduleWords, true},
     "_"},
    {{"piece_m", "elements", "schedule pieces: rows of a piece of C; 0 = all of a group", {}, true}, "_w"},
    {{"piece_n", "elements", "schedule pieces: columns of a piece of C; 0 = all", {}, true}, "x"},
    {{"threads_m", "1", "threads; schedule each: those that share the rows of a group", {}, true}, "_t"},
    {{"threads_n", "1", "schedule each: threads that share the columns; else 1", {}, true}, "x"},
};
constexpr auto kGroupedAxes = axes_of(kGroupedTable);

using G = NativeGroupedConfig;
constexpr std::tuple kGroupedFields{&G::isa,      &G::kind,    &G::mr,      &G::nr,        &G::pack_a,
                                    &G::pack_b,   &G::mc,      &G::kc,      &G::nc,        &G::order,
                                    &G::schedule, &G::piece_m, &G::piece_n, &G::threads_m, &G::threads_n};
static_assert(std::tuple_size_v<decltype(kGroupedFields)> == std::size(kGroupedAxes));

constexpr auto kGroupedName = parts_of(kGroupedTable);

std::string print_native_grouped(const Signature& signature, const KernelConfig& config) {
  G::from(config);  // throws for a value that no name can hold
  std::string text =
      fmt::format("native_grouped_gemm_{}_{}", word(signature.dtype_a), word(signature.layout));
  print_axes(text, config, kGroupedName);
  return text;
}

NamedConfig parse_native_grouped(std::string_view name) {
  NameReader in("native", name);
  in.literal("native_grouped_gemm_");
  NamedConfig result{read_uniform_signature(in, Op::grouped_gemm), KernelConfig(native_grouped_space)};
  in.check_signature(native_grouped_space, result.signature);
  read_axes(in, result.config, kGroupedName);
  return result;
}

Traits native_grouped_traits(const Signature& signature, const KernelConfig& config) {
  const G c = G::from(config);
  Traits t = native_product_traits(c.product(), signature.layout);
  t.workers = c.threads();
  t.workers_m = c.threads_m;
  t.workers_n = c.threads_n;
  t.kind = static_cast<double>(c.kind);
  t.persistent = c.schedule == GroupedSchedule::pieces;
  return t;
}

}  // namespace

constexpr ConfigSpace native_grouped_space{"native", Op::grouped_gemm, kGroupedAxes};

NativeGroupedConfig NativeGroupedConfig::from(const KernelConfig& config) {
  return typed_config(config, native_grouped_space, kGroupedFields);
}

NativeConfig NativeGroupedConfig::product() const noexcept {
  const bool shared = schedule == GroupedSchedule::each;
  return {.isa = isa,
          .kind = kind,
          .mr = mr,
          .nr = nr,
          .pack_a = pack_a,
          .pack_b = pack_b,
          .prefetch = 0,
          .mc = mc,
          .kc = kc,
          .nc = nc,
          .order = order,
          .split_k = 1,
          .threads_m = shared ? threads_m : 1,
          .threads_n = shared ? threads_n : 1};
}

const NativeKernels& native_grouped_kernels() {
  static constexpr const ConfigSpace* kSpaces[] = {&native_grouped_space};
  static constexpr NativeKernels kernels{
      .prefix = "native_grouped_gemm_",
      .spaces = kSpaces,
      .has_register_tiles = true,
      .needs =
          [](const KernelConfig& config) {
            const G c = G::from(config);
            return NativeNeeds{c.isa, c.threads()};
          },
      .print = print_native_grouped,
      .parse = parse_native_grouped,
      .traits = native_grouped_traits,
  };
  return kernels;
}

}  // namespace kscout
