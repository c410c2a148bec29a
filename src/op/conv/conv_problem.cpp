#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/problem_text.h"
#include "op/given_fields.h"
#include "op/struct_operation.h"

namespace kscout {
namespace {

using P = ConvProblem;

constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxConvElements = std::int64_t{1} << 62;

/// The fields of one spatial axis.
struct AxisFields {
  std::string_view name;
  std::int64_t P::*in, P::*filter, P::*stride, P::*dilation, P::*left_pad, P::*right_pad;
};
constexpr std::array<AxisFields, 3> kAxes = {{
    {"d", &P::d, &P::z, &P::stride_d, &P::dilation_d, &P::left_pad_d, &P::right_pad_d},
    {"h", &P::h, &P::y, &P::stride_h, &P::dilation_h, &P::left_pad_h, &P::right_pad_h},
    {"w", &P::w, &P::x, &P::stride_w, &P::dilation_w, &P::left_pad_w, &P::right_pad_w},
}};

/// The axes that a problem of this layout has.
std::span<const AxisFields> axes_of(Layout layout) noexcept {
  return std::span(kAxes).last(static_cast<std::size_t>(std::max(spatial_rank(layout), 2)));
}

std::int64_t output_size(const P& p, const AxisFields& axis) noexcept {
  const std::int64_t padded = p.*axis.in + p.*axis.left_pad + p.*axis.right_pad;
  const std::int64_t span = (p.*axis.filter - 1) * p.*axis.dilation + 1;
  return padded < span ? 0 : (padded - span) / p.*axis.stride + 1;
}

std::int64_t product_of(const P& p, std::int64_t P::*AxisFields::*field) noexcept {
  std::int64_t product = 1;
  for (const AxisFields& axis : kAxes) product *= p.*(axis.*field);
  return product;
}
std::int64_t filter_elements(const P& p) noexcept { return product_of(p, &AxisFields::filter); }
std::int64_t output_elements(const P& p) noexcept {
  const ConvOutput out = output_sizes(p);
  return out.d * out.h * out.w;
}

/// Positions on one input axis that are multiplied with the same filter elements.
struct Meeting {
  std::int64_t places;  ///< elements of the input
  std::int64_t taps;    ///< elements of the filter
};

/// Calls use(Meeting) for each set of positions that meets a filter element. Element t of the filter meets
/// the positions with (place + left_pad) % stride == t * dilation % stride; elements `period` apart meet the
/// same positions.
template <class F>
void for_each_meeting(const P& p, const AxisFields& axis, F&& use) {
  const std::int64_t stride = p.*axis.stride, dilation = p.*axis.dilation, taps = p.*axis.filter;
  const std::int64_t period = stride / std::gcd(stride, dilation);
  for (std::int64_t tap = 0; tap < std::min(taps, period); ++tap) {
    const std::int64_t rest = (tap * dilation - p.*axis.left_pad) % stride;
    const std::int64_t first = rest < 0 ? rest + stride : rest;
    if (first >= p.*axis.in) continue;
    use(Meeting{(p.*axis.in - first - 1) / stride + 1, (taps - tap - 1) / period + 1});
  }
}

/// The number of sets, and the largest set.
struct Meetings {
  std::int64_t count = 0;
  Meeting largest{0, 0};
};
Meetings meetings_of(const P& p, const AxisFields& axis) noexcept {
  Meetings all;
  for_each_meeting(p, axis, [&](Meeting one) {
    ++all.count;
    if (one.places * one.taps > all.largest.places * all.largest.taps) all.largest = one;
  });
  return all;
}

ImplicitGemm one_gemm(const P& p) noexcept {
  const std::int64_t filter = filter_elements(p), outputs = output_elements(p);
  if (p.op == Op::conv_bwd_weight) return {p.k / p.g, p.c / p.g * filter, p.n * outputs, p.g};
  return {p.n * outputs, p.k / p.g, p.c / p.g * filter, p.g};
}

// ---- checks

template <class... Args>
[[noreturn]] void refuse(const P& p, fmt::format_string<Args...> format, Args&&... args) {
  fail(Errc::invalid_argument, "{} {}", word(p.op), fmt::format(format, std::forward<Args>(args)...));
}

void check_sizes(const P& p) {
  for_each_field<P>([&](const auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(p.*field.member)>, std::int64_t>) {
      const bool may_be_0 = field.name == "split_k" || field.name.find("_pad_") != std::string_view::npos;
      const std::int64_t value = p.*field.member;
      if (value < (may_be_0 ? 0 : 1) || value > kMaxSize)
        refuse(p, "{}={}: must be {} to 2^31 - 1", field.name, value, may_be_0 ? 0 : 1);
    }
  });
}

void check_elements(const P& p, std::string_view tensor, std::initializer_list<std::int64_t> sizes) {
  // A double suffices: sizes are below 2^31, so an excess over 2^62 is large enough to show.
  double elements = 1;
  for (const std::int64_t size : sizes) elements *= static_cast<double>(size);
  if (elements > static_cast<double>(kMaxConvElements))
    refuse(p, "{}: {:.3g} elements exceed the limit of 2^62", tensor, elements);
}

// ---- one-line form

/// One word for several fields that hold the same value.
struct Shorthand {
  std::string name;
  std::vector<std::int64_t P::*> fields;  ///< axis by axis
  std::size_t axes;
  std::int64_t usual;  ///< the fields' default value
};

/// In printing order: a word for more fields comes before words for fewer.
std::vector<Shorthand> shorthands(Layout layout) {
  const auto axes = axes_of(layout);
  Shorthand stride{"stride", {}, axes.size(), 1}, dilation{"dilation", {}, axes.size(), 1},
      pad{"pad", {}, axes.size(), 0};
  for (const AxisFields& axis : axes) {
    stride.fields.push_back(axis.stride);
    dilation.fields.push_back(axis.dilation);
    pad.fields.insert(pad.fields.end(), {axis.left_pad, axis.right_pad});
  }
  std::vector<Shorthand> all{std::move(stride), std::move(dilation), std::move(pad)};
  // pad_d of a 2-D problem is a field, too; check() says that the layout has no axis d.
  for (const AxisFields& axis : kAxes)
    all.push_back({"pad_" + std::string(axis.name), {axis.left_pad, axis.right_pad}, 1, 0});
  return all;
}

/// Sets one number for all axes, or one per axis: "2", "2x1".
void set_shorthand(P& p, const Shorthand& one, std::string_view value) {
  const auto numbers = split(value, 'x');
  if (numbers.size() != 1 && numbers.size() != one.axes) {
    fail(Errc::invalid_argument, "{}={}: has {} numbers; give {}", one.name, value, numbers.size(),
         one.axes == 1   ? "one"
         : one.axes == 2 ? "one, or 2: height x width"
                         : "one, or 3: depth x height x width");
  }
  const std::size_t per_axis = one.fields.size() / one.axes;
  for (std::size_t i = 0; i < one.fields.size(); ++i)
    p.*one.fields[i] = parse_field<std::int64_t>(one.name, numbers[numbers.size() == 1 ? 0 : i / per_axis]);
}

/// The name of a field of sizes.
std::string_view size_field_name(std::int64_t P::*member) {
  std::string_view name;
  for_each_field<P>([&](const auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field.member)>, std::int64_t P::*>) {
      if (field.member == member) name = field.name;
    }
  });
  return name;
}

std::vector<GeneralField<P>> general_fields(const std::vector<Shorthand>& words) {
  std::vector<GeneralField<P>> all;
  for (const Shorthand& one : words) {
    GeneralField<P> general{
        one.name, {}, [&one](P& p, std::string_view value) { set_shorthand(p, one, value); }};
    for (const auto field : one.fields) general.of.push_back(size_field_name(field));
    all.push_back(std::move(general));
  }
  all.push_back(
      {"dtype", {"dtype_in", "dtype_wei", "dtype_out", "dtype_acc"}, [](P& p, std::string_view value) {
         const P typed = make_conv(p.op, parse<DType>(value));
         p.dtype_in = typed.dtype_in;
         p.dtype_wei = typed.dtype_wei;
         p.dtype_out = typed.dtype_out;
         p.dtype_acc = typed.dtype_acc;
       }});
  return all;
}

/// `text`, then one size per axis.
std::string joined(const P& p, std::string text, std::int64_t P::*AxisFields::*field) {
  for (const AxisFields& axis : axes_of(p.layout)) text += fmt::format("x{}", p.*(axis.*field));
  return text;
}

}  // namespace

ConvProblem make_conv(Op op, DType dtype, Layout layout) {
  const GemmProblem types = make_gemm(0, 0, 0, dtype);
  ConvProblem p;
  p.op = op;
  p.layout = layout;
  p.dtype_in = p.dtype_wei = dtype;
  p.dtype_out = types.dtype_c;
  p.dtype_acc = types.dtype_acc;
  return p;
}

Signature signature_of(const ConvProblem& p) noexcept {
  const auto [a, b, c] = by_operand(p.op, p.dtype_in, p.dtype_wei, p.dtype_out);
  return {.op = p.op,
          .dtype_a = a,
          .dtype_b = b,
          .dtype_c = c,
          .dtype_acc = p.dtype_acc,
          .layout = p.layout,
          .epilogue = p.epilogue};
}

ConvOutput output_sizes(const ConvProblem& p) noexcept {
  return {output_size(p, kAxes[0]), output_size(p, kAxes[1]), output_size(p, kAxes[2])};
}

ConvElements operand_elements(const ConvProblem& p) noexcept {
  return {p.n * p.c * product_of(p, &AxisFields::in), p.k * (p.c / p.g) * filter_elements(p),
          p.n * p.k * output_elements(p)};
}

std::vector<ImplicitGemm> implicit_gemms(const ConvProblem& p) {
  if (p.op != Op::conv_bwd_data) return {one_gemm(p)};
  std::vector<ImplicitGemm> gemms;
  for_each_meeting(p, kAxes[0], [&](Meeting d) {
    for_each_meeting(p, kAxes[1], [&](Meeting h) {
      for_each_meeting(p, kAxes[2], [&](Meeting w) {
        gemms.push_back(
            {p.n * d.places * h.places * w.places, p.c / p.g, p.k / p.g * d.taps * h.taps * w.taps, p.g});
      });
    });
  });
  for (ImplicitGemm& gemm : gemms) gemm.parts = static_cast<std::int64_t>(gemms.size());
  return gemms;
}

ImplicitGemm implicit_gemm(const ConvProblem& p) noexcept {
  if (p.op != Op::conv_bwd_data) return one_gemm(p);
  ImplicitGemm gemm{p.n, p.c / p.g, p.k / p.g, p.g};
  for (const AxisFields& axis : kAxes) {
    const Meetings all = meetings_of(p, axis);
    gemm.m *= all.largest.places;
    gemm.k *= all.largest.taps;
    gemm.parts *= all.count;
  }
  return gemm;
}

double flop_count(const ConvProblem& p) noexcept {
  return 2.0 * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(output_elements(p)) *
         static_cast<double>(p.c / p.g) * static_cast<double>(filter_elements(p));
}

double min_bytes(const ConvProblem& p) noexcept {
  const ConvElements elements = operand_elements(p);
  const std::int64_t stored = elements.out + (has_bias(p.epilogue) ? p.k : 0);
  return static_cast<double>(elements.in) * bytes_per_element(p.dtype_in) +
         static_cast<double>(elements.wei) * bytes_per_element(p.dtype_wei) +
         static_cast<double>(stored) * bytes_per_element(p.dtype_out);
}

bool is_depthwise(const ConvProblem& p) noexcept { return p.g == p.c && p.g == p.k; }
bool is_pointwise(const ConvProblem& p) noexcept { return filter_elements(p) == 1; }

void check(const ConvProblem& p) {
  if (const std::string_view field = field_without_word(p); !field.empty())
    fail(Errc::invalid_argument, "convolution {}: the value is none of its enum", field);
  if (!is_direction(p.op))
    fail(Errc::invalid_argument, "op '{}' is no direction of a convolution", word(p.op));
  if (is_gemm_layout(p.layout)) {
    refuse(p, "layout={}: is a layout of GEMMs; use one of {}", word(p.layout),
           fmt::join(std::span(EnumWords<Layout>::words).subspan(kGemmLayouts), ", "));
  }
  check_sizes(p);
  if (p.prepacked && p.op == Op::conv_bwd_weight)
    refuse(p, "prepacked=1: the filter is the result, so nothing can be packed before; leave it out");
  if (p.epilogue != Epilogue::none && (p.op != Op::conv_fwd || p.epilogue != Epilogue::bias))
    refuse(p, "epilogue={}: conv_fwd takes none or bias, the gradients none", word(p.epilogue));
  if (!(p.weight >= 0) || !std::isfinite(p.weight))
    refuse(p, "weight={}: must be a finite number of calls, at least 0", p.weight);
  if (p.c % p.g != 0 || p.k % p.g != 0) {
    refuse(p, "g={}: must divide the channels c={} and k={}, which are those of all groups", p.g, p.c, p.k);
  }
  const AxisFields& depth = kAxes[0];
  if (spatial_rank(p.layout) == 2 &&
      (p.d != 1 || p.z != 1 || p.*depth.stride != 1 || p.*depth.dilation != 1 || p.*depth.left_pad != 0 ||
       p.*depth.right_pad != 0)) {
    refuse(p, "layout={}: has no axis d; take ndhwgc or ngcdhw", word(p.layout));
  }
  for (const AxisFields& axis : kAxes) {
    if (output_size(p, axis) < 1) {
      refuse(p,
             "axis {}: a filter of {} elements, {} apart, is larger than the input of {} with its pads {} "
             "and {}",
             axis.name, p.*axis.filter, p.*axis.dilation, p.*axis.in, p.*axis.left_pad, p.*axis.right_pad);
    }
  }
  check_elements(p, "input", {p.n, p.c, p.d, p.h, p.w});
  check_elements(p, "filter", {p.k, p.c / p.g, p.z, p.y, p.x});
  const ConvOutput out = output_sizes(p);
  check_elements(p, "output", {p.n, p.k, out.d, out.h, out.w});
}

bool is_valid(const ConvProblem& p) noexcept {
  try {
    check(p);
    return true;
  } catch (...) {  // also when there is no memory for the message
    return false;
  }
}

std::string print(const ConvProblem& p) {
  ConvProblem plain = make_conv(p.op, p.dtype_in, p.layout);
  plain.n = p.n, plain.c = p.c, plain.k = p.k;
  for (const AxisFields& axis : axes_of(p.layout)) {
    plain.*axis.in = p.*axis.in;
    plain.*axis.filter = p.*axis.filter;
  }
  std::string text =
      fmt::format("{}:{}:{}:{}:{}", word(p.op), joined(p, fmt::format("{}x{}", p.n, p.c), &AxisFields::in),
                  joined(p, std::to_string(p.k), &AxisFields::filter), word(p.dtype_in), word(p.layout));
  for (const Shorthand& one : shorthands(p.layout)) {
    const std::int64_t value = p.*one.fields.front();
    const bool equal = std::ranges::all_of(one.fields, [&](auto field) { return p.*field == value; });
    const bool said = std::ranges::all_of(one.fields, [&](auto field) { return plain.*field == value; });
    if (!equal || said) continue;
    text += fmt::format(":{}={}", one.name, value);
    for (const auto field : one.fields) plain.*field = value;
  }
  return text + assignments(p, plain);
}

void set_fields(ConvProblem& p, std::span<const GivenField> given) {
  // The layout says which axes stride, dilation and pad stand for.
  if (const GivenField* const layout = find_given(given, "layout"))
    p.layout = parse_field<Layout>("layout", layout->value);
  const std::vector<Shorthand> words = shorthands(p.layout);
  set_given_fields<P>(p, given, general_fields(words));
}

ConvProblem parse_conv_problem(std::string_view text) {
  const auto op = line_op(text);
  if (!op || !is_direction(*op)) {
    fail(Errc::invalid_argument, "'{}' is not a convolution; write {}", text,
         operation(Op::conv_fwd).syntax(Op::conv_fwd));
  }
  return problem_of(fields_of_line(text)).conv();
}

}  // namespace kscout
