
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "capi/capi.h"
#include "op/operation.h"

namespace kscout::capi {

namespace {

/// Checks that the C header's numbers equal the library's: sizes and both ends of each list.
static_assert(KSCOUT_DTYPE_FP64 == static_cast<int>(DType::fp64) &&
              KSCOUT_DTYPE_FP32 == static_cast<int>(DType::fp32) &&
              KSCOUT_DTYPE_BF16 == static_cast<int>(DType::bf16) &&
              KSCOUT_DTYPE_INT8 == static_cast<int>(DType::int8) &&
              KSCOUT_DTYPE_INT4 + 1 == EnumWords<DType>::words.size());
static_assert(KSCOUT_LAYOUT_RCR == static_cast<int>(Layout::rcr) &&
              KSCOUT_LAYOUT_RRR == static_cast<int>(Layout::rrr) &&
              KSCOUT_LAYOUT_CRR == static_cast<int>(Layout::crr) && KSCOUT_LAYOUT_CCR + 1 == kGemmLayouts);
static_assert(KSCOUT_LAYOUT_NHWGC == static_cast<int>(Layout::nhwgc) &&
              KSCOUT_LAYOUT_NGCDHW + 1 == EnumWords<Layout>::words.size());
static_assert(KSCOUT_OP_GEMM == static_cast<int>(Op::gemm) &&
              KSCOUT_OP_CONV_FWD == static_cast<int>(Op::conv_fwd) &&
              KSCOUT_OP_CONV_BWD_WEIGHT == static_cast<int>(Op::conv_bwd_weight));
static_assert(KSCOUT_MAX_OPERANDS == Buffers::max_operands);
static_assert(KSCOUT_EPILOGUE_NONE == static_cast<int>(Epilogue::none) &&
              KSCOUT_EPILOGUE_GELU == static_cast<int>(Epilogue::gelu) &&
              KSCOUT_EPILOGUE_BIAS_GELU + 1 == EnumWords<Epilogue>::words.size());
static_assert(sizeof(kscout_gemm) == 8 * 8 + 8 * 4 + 6 * 8, "part of ABI version 1");
static_assert(sizeof(kscout_conv) == 23 * 8 + 8 * 4 + 5 * 8, "part of ABI version 1");
static_assert(sizeof(kscout_config) == 8 + 4 * kMaxAxes, "part of ABI version 1");

/// The members that a C problem and the library's problem share by name.
template <class P>
requires requires(P& p) { p.dtype_a; }
auto shared_members(P& p) noexcept {
  return std::tie(p.m, p.n, p.k, p.batch, p.split_k, p.lda, p.ldb, p.ldc, p.dtype_a, p.dtype_b, p.dtype_c,
                  p.dtype_acc, p.layout, p.epilogue, p.accumulate);
}
template <class P>
requires requires(P& p) { p.dtype_in; }
auto shared_members(P& p) noexcept {
  return std::tie(p.op, p.n, p.c, p.k, p.g, p.d, p.h, p.w, p.z, p.y, p.x, p.stride_d, p.stride_h, p.stride_w,
                  p.dilation_d, p.dilation_h, p.dilation_w, p.left_pad_d, p.left_pad_h, p.left_pad_w,
                  p.right_pad_d, p.right_pad_h, p.right_pad_w, p.split_k, p.prepacked, p.dtype_in,
                  p.dtype_wei, p.dtype_out, p.dtype_acc, p.layout, p.epilogue);
}

/// Calls `pair` for each pair of corresponding members.
template <class A, class B, class Pair>
void each_pair(A& a, B& b, const Pair& pair) {
  const auto from = shared_members(a);
  const auto to = shared_members(b);
  [&]<std::size_t... i>(std::index_sequence<i...>) { (pair(std::get<i>(from), std::get<i>(to)), ...); }
  (std::make_index_sequence<std::tuple_size_v<decltype(from)>>{});
}

/// Converts a C problem to the library's type; throws invalid_argument for numbers without an enumerator.
template <class Problem, class C>
Problem read(const C& from) {
  Problem to;
  each_pair(from, to, []<class V>(auto number, V& value) {
    if constexpr (WordEnum<V>) {
      value = enumerator<V>(number);
    } else if constexpr (std::is_same_v<V, bool>) {
      value = number != 0;
    } else {
      value = number;
    }
  });
  return to;
}
template <class C, class Problem>
void write(const Problem& from, C& to) noexcept {
  to = {};
  each_pair(to, from, []<class N>(N& number, auto value) { number = static_cast<N>(value); });
}

bool is_type(int32_t dtype) noexcept {
  return dtype >= 0 && static_cast<std::size_t>(dtype) < EnumWords<DType>::words.size();
}

/// Whether `space` is a config space of this library.
bool is_space(const void* space) {
  for (const auto name : provider_names()) {
    const Provider& p = provider(name);
    for (const Op op : p.ops()) {
      if (&p.space(op) == space) return true;
    }
  }
  return false;
}

}  // namespace

template <WordEnum E>
E enumerator(std::int32_t value) {
  constexpr const auto& words = EnumWords<E>::words;
  if (value < 0 || static_cast<std::size_t>(value) >= words.size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}={}: no {} has this number (0 to {}: {})", EnumWords<E>::what, value,
                            EnumWords<E>::what, words.size() - 1, fmt::join(words, ", ")));
  }
  return static_cast<E>(value);
}
template DType enumerator<DType>(std::int32_t);
template Op enumerator<Op>(std::int32_t);
template By enumerator<By>(std::int32_t);
template DevicePolicy enumerator<DevicePolicy>(std::int32_t);
template Fallback enumerator<Fallback>(std::int32_t);
template MemoryKind enumerator<MemoryKind>(std::int32_t);

GemmProblem problem_of(const kscout_gemm* given) {
  const kscout_gemm& from = required(given, "problem");
  refuse_reserved(from.reserved, from.reserved32, "problem", "kscout_gemm_init");
  return read<GemmProblem>(from);
}

void store(const GemmProblem& from, kscout_gemm& to) noexcept { write(from, to); }

ConvProblem problem_of(const kscout_conv* given) {
  const kscout_conv& from = required(given, "problem");
  refuse_reserved(from.reserved, 0, "problem", "kscout_conv_init");
  return read<ConvProblem>(from);
}

void store(const ConvProblem& from, kscout_conv& to) noexcept { write(from, to); }

const Problem& problem_of(const kscout_problem* given) { return required(given, "problem").problem; }

KernelConfig config_of(const kscout_config* given) {
  const kscout_config& from = required(given, "config");
  if (!is_space(from.space)) {
    throw Error(Errc::invalid_argument,
                "the config was not filled by kscout_select, kscout_rank or kscout_config_parse");
  }
  KernelConfig to(*static_cast<const ConfigSpace*>(from.space));
  std::ranges::copy(from.value, to.value.begin());
  return to;
}

void store(const KernelConfig& from, kscout_config& to) noexcept {
  to.space = from.space;
  std::ranges::copy(from.value, to.value);
}

}  // namespace kscout::capi

using namespace kscout;
using namespace kscout::capi;

void kscout_gemm_init(kscout_gemm* problem, int64_t m, int64_t n, int64_t k, int32_t dtype, int32_t layout) {
  // This function returns no status, so an unknown type is rejected later, when the problem is used.
  const bool known = is_type(dtype);
  store(make_gemm(m, n, k, known ? static_cast<DType>(dtype) : DType::fp32), *problem);
  if (!known) problem->dtype_a = dtype;
  problem->layout = layout;
}

kscout_status kscout_gemm_parse(const char* text, kscout_gemm* problem) {
  return guarded([&] { store(parse_problem(&required(text, "text")), required(problem, "problem")); });
}

kscout_status kscout_gemm_print(const kscout_gemm* problem, char* text, size_t size, size_t* needed) {
  return guarded([&] { store_text(print(problem_of(problem)), text, size, needed); });
}

void kscout_conv_init(kscout_conv* problem, int32_t op, int32_t dtype) {
  const bool known = is_type(dtype);
  store(make_conv(Op::conv_fwd, known ? static_cast<DType>(dtype) : DType::fp32), *problem);
  if (!known) problem->dtype_in = dtype;
  problem->op = op;
}

kscout_status kscout_conv_parse(const char* text, kscout_conv* problem) {
  return guarded([&] { store(parse_conv_problem(&required(text, "text")), required(problem, "problem")); });
}

kscout_status kscout_conv_print(const kscout_conv* problem, char* text, size_t size, size_t* needed) {
  return guarded([&] { store_text(print(problem_of(problem)), text, size, needed); });
}

kscout_status kscout_conv_config_name(const kscout_conv* problem, const kscout_config* config, char* name,
                                      size_t size, size_t* needed) {
  return guarded([&] {
    store_text(config_name(signature_of(problem_of(problem)), config_of(config)), name, size, needed);
  });
}

kscout_status kscout_config_name(const kscout_gemm* problem, const kscout_config* config, char* name,
                                 size_t size, size_t* needed) {
  return guarded([&] {
    store_text(config_name(signature_of(problem_of(problem)), config_of(config)), name, size, needed);
  });
}

kscout_status kscout_problem_parse(const char* text, kscout_problem** problem) {
  return guarded([&] {
    refuse_null(problem, "problem");
    *problem = new kscout_problem{parse_any_problem(&required(text, "text"))};
  });
}

void kscout_problem_free(kscout_problem* problem) { delete problem; }

kscout_status kscout_problem_print(const kscout_problem* problem, char* text, size_t size, size_t* needed) {
  return guarded([&] { store_text(print(problem_of(problem)), text, size, needed); });
}

kscout_status kscout_problem_operands(const kscout_problem* problem, kscout_operand* operands,
                                      size_t capacity, size_t* count) {
  return guarded([&] {
    refuse_null(count, "count");
    if (capacity > 0) refuse_null(operands, "operands");
    const Problem& of = problem_of(problem);
    const OperandList all = operation(of.op()).operands(of);
    for (std::size_t i = 0; i < std::min(capacity, all.size()); ++i) {
      const Tensor& tensor = all[i];
      operands[i] = {.name = tensor.name.data(),  // a literal, so a 0 byte follows
                     .elements = tensor.elements(),
                     .bytes = tensor.bytes(),
                     .position = static_cast<int32_t>(tensor.at),
                     .dtype = static_cast<int32_t>(tensor.dtype),
                     .is_output = tensor.role == TensorRole::output,
                     .optional = tensor.optional,
                     .reserved = {}};
    }
    *count = all.size();
  });
}

kscout_status kscout_problem_config_name(const kscout_problem* problem, const kscout_config* config,
                                         char* name, size_t size, size_t* needed) {
  return guarded([&] {
    store_text(config_name(signature_of(problem_of(problem)), config_of(config)), name, size, needed);
  });
}

kscout_status kscout_config_parse(const char* name, kscout_config* config) {
  return guarded(
      [&] { store(parse_config_name(&required(name, "name")).config, required(config, "config")); });
}

kscout_status kscout_config_axis(const kscout_config* config, const char* axis, int32_t* value) {
  return guarded([&] {
    const std::int32_t found = config_of(config)[std::string_view(&required(axis, "axis"))];
    required(value, "value") = found;
  });
}

using namespace kscout;
using namespace kscout::capi;

namespace {

/// Calls found(value) for the field with this name, if its type satisfies `Wanted`.
template <template <class> class Wanted, class F>
void with_field(const Device& device, const char* name, F&& found) {
  std::vector<std::string_view> names;
  for_each_field<Device>([&](const auto& field) {
    if (Wanted<typename std::remove_cvref_t<decltype(field)>::value>::value) names.push_back(field.name);
  });
  const auto wanted = names[parse_word("fact", &required(name, "name"), names)];
  for_each_field<Device>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    if constexpr (Wanted<V>::value) {
      if (field.name == wanted) found(device.*field.member);
    }
  });
}

template <class V>
using IsText = std::bool_constant<!std::is_floating_point_v<V>>;

const char* c_text(const std::string& text) { return text.c_str(); }
const char* c_text(DeviceKind kind) { return word(kind).data(); }  // a literal, so a 0 byte follows

}  // namespace

kscout_status kscout_device_find(const char* name, kscout_device** device) {
  return guarded([&] {
    refuse_null(device, "device");
    *device = new kscout_device{find_device(&required(name, "name"))};
  });
}

void kscout_device_free(kscout_device* device) { delete device; }

kscout_status kscout_device_number(const kscout_device* device, const char* name, double* value) {
  return guarded([&] {
    refuse_null(value, "value");
    with_field<std::is_floating_point>(required(device, "device").device, name,
                                       [&](double fact) { *value = fact; });
  });
}

kscout_status kscout_device_text(const kscout_device* device, const char* name, const char** text) {
  return guarded([&] {
    refuse_null(text, "text");
    with_field<IsText>(required(device, "device").device, name,
                       [&](const auto& fact) { *text = c_text(fact); });
  });
}
