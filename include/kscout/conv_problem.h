#pragma once
/// \file
/// Describes a grouped convolution: direction, sizes, filter, signature.
///
///     auto p = kscout::parse_conv_problem("conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1");
///     p.stride_h = p.stride_w = 2;
///     kscout::check(p);                          // throws when the sizes make no sense
///     auto gemm = kscout::implicit_gemm(p);      // m, n, k of the product that it is computed as
///
/// The sizes mean the same in all directions: `h`, `w`, `c` belong to the input image and `k` counts the
/// output channels, even where the input image (conv_bwd_data) or the filter (conv_bwd_weight) is the result.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/fields.h>
#include <kscout/problem.h>
#include <kscout/types.h>

namespace kscout {

/// A 2-D or 3-D convolution; the layout says which. In 2-D, every field of axis d keeps its default.
struct ConvProblem {
  Op op = Op::conv_fwd;  ///< the direction: conv_fwd, conv_bwd_data or conv_bwd_weight
  std::int64_t n = 1;    ///< images
  std::int64_t c = 1;    ///< channels of the input, all groups together
  std::int64_t k = 1;    ///< channels of the output, all groups together
  std::int64_t g = 1;    ///< groups; divides c and k
  std::int64_t d = 1;    ///< depth of the input
  std::int64_t h = 1;
  std::int64_t w = 1;
  std::int64_t z = 1;  ///< depth of the filter
  std::int64_t y = 1;
  std::int64_t x = 1;
  std::int64_t stride_d = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t dilation_d = 1;  ///< distance between neighbouring elements of the filter; 1 = dense
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t left_pad_d = 0;  ///< zeros before the first element; left and right may differ
  std::int64_t left_pad_h = 0;
  std::int64_t left_pad_w = 0;
  std::int64_t right_pad_d = 0;  ///< zeros after the last element
  std::int64_t right_pad_h = 0;
  std::int64_t right_pad_w = 0;
  std::int64_t split_k = 0;  ///< requested split of the product's K; 0 = the selector chooses, 1 = none
  /// The caller packs the filter once for many calls: a kernel gets it as Launch::pack wrote it, and the time
  /// of packing is not the kernel's. Not for conv_bwd_weight, which computes the filter.
  bool prepacked = false;
  DType dtype_in = DType::fp32;
  DType dtype_wei = DType::fp32;
  DType dtype_out = DType::fp32;
  DType dtype_acc = DType::fp32;
  Layout layout = Layout::nhwgc;
  /// conv_fwd: `bias` adds one number to all pixels of an output channel before they are stored. Convolutions
  /// have no other epilogue.
  Epilogue epilogue = Epilogue::none;
  double weight = 1;  ///< how often a workload calls it; its weight in reports; not part of the identity
  bool operator==(const ConvProblem& other) const;
};

template <>
struct Fields<ConvProblem> {
  using T = ConvProblem;
  static constexpr auto list = std::tuple{
      Field{"op", &T::op, "1", "direction: conv_fwd, conv_bwd_data or conv_bwd_weight"},
      Field{"n", &T::n, "1", "images"},
      Field{"c", &T::c, "1", "channels of the input, all groups together"},
      Field{"k", &T::k, "1", "channels of the output, all groups together"},
      Field{"g", &T::g, "1", "groups"},
      Field{"d", &T::d, "elements", "depth of the input; 1 in 2-D"},
      Field{"h", &T::h, "elements", "height of the input"},
      Field{"w", &T::w, "elements", "width of the input"},
      Field{"z", &T::z, "elements", "depth of the filter; 1 in 2-D"},
      Field{"y", &T::y, "elements", "height of the filter"},
      Field{"x", &T::x, "elements", "width of the filter"},
      Field{"stride_d", &T::stride_d, "elements", "step of the filter along the depth"},
      Field{"stride_h", &T::stride_h, "elements", "step of the filter along the height"},
      Field{"stride_w", &T::stride_w, "elements", "step of the filter along the width"},
      Field{"dilation_d", &T::dilation_d, "elements", "distance of the filter's elements along the depth"},
      Field{"dilation_h", &T::dilation_h, "elements", "distance of the filter's elements along the height"},
      Field{"dilation_w", &T::dilation_w, "elements", "distance of the filter's elements along the width"},
      Field{"left_pad_d", &T::left_pad_d, "elements", "zeros before the depth"},
      Field{"left_pad_h", &T::left_pad_h, "elements", "zeros above the height"},
      Field{"left_pad_w", &T::left_pad_w, "elements", "zeros left of the width"},
      Field{"right_pad_d", &T::right_pad_d, "elements", "zeros behind the depth"},
      Field{"right_pad_h", &T::right_pad_h, "elements", "zeros below the height"},
      Field{"right_pad_w", &T::right_pad_w, "elements", "zeros right of the width"},
      Field{"split_k", &T::split_k, "1", "requested split of the product's K; 0 = free choice, 1 = none"},
      Field{"prepacked", &T::prepacked, "1", "the filter is packed once for many calls, outside their time"},
      Field{"dtype_in", &T::dtype_in, "1", "element type of the input image or its gradient"},
      Field{"dtype_wei", &T::dtype_wei, "1", "element type of the filter or its gradient"},
      Field{"dtype_out", &T::dtype_out, "1", "element type of the output image or its gradient"},
      Field{"dtype_acc", &T::dtype_acc, "1", "type of the accumulator"},
      Field{"layout", &T::layout, "1", "storage of the images: nhwgc, ngchw (2-D), ndhwgc, ngcdhw (3-D)"},
      Field{"epilogue", &T::epilogue, "1", "conv_fwd: bias adds a number to each output channel"},
      Field{"weight", &T::weight, "calls", "how often a workload calls it", FieldRole::note},
  };
};

inline bool ConvProblem::operator==(const ConvProblem& other) const { return fields_equal(*this, other); }

template <>
struct ProblemOf<ConvProblem> {
  static constexpr Op kind = Op::conv_fwd;
  static constexpr Op op(const ConvProblem& problem) noexcept { return problem.op; }
};

/// Sets the given fields, in any order, as set_fields of a GEMM does. General fields, from the widest:
///
///     dtype                    every element type, as make_conv sets them
///     stride, dilation, pad    every axis, `pad` both sides: one number, or one per axis, as in pad=0x3
///     pad_d, pad_h, pad_w      both sides of an axis
void set_fields(ConvProblem& problem, std::span<const GivenField> given);

/// The directions of a convolution.
inline constexpr Op kDirections[] = {Op::conv_fwd, Op::conv_bwd_data, Op::conv_bwd_weight};

/// Whether an op is a direction of a convolution.
constexpr bool is_direction(Op op) noexcept {
  return op == Op::conv_fwd || op == Op::conv_bwd_data || op == Op::conv_bwd_weight;
}

/// A convolution of one element type, with the accumulator and output types of make_gemm; all sizes are 1.
ConvProblem make_conv(Op op, DType dtype = DType::fp32, Layout layout = Layout::nhwgc);

/// Element types of the operands of the implicit GEMM: A, B, C are input, filter, output for conv_fwd;
/// output, filter, input for conv_bwd_data; output, input, filter for conv_bwd_weight.
Signature signature_of(const ConvProblem& problem) noexcept;

/// Elements of the output image along each spatial axis.
struct ConvOutput {
  std::int64_t d, h, w;
};
/// floor((in + both pads - ((filter - 1) * dilation + 1)) / stride) + 1 per axis.
ConvOutput output_sizes(const ConvProblem& problem) noexcept;

/// Elements of the three tensors, over all groups.
struct ConvElements {
  std::int64_t in, wei, out;
};
ConvElements operand_elements(const ConvProblem& problem) noexcept;

/// The product that computes a convolution (implicit GEMM), once per group.
struct ImplicitGemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t groups = 1;  ///< independent products of these sizes
  std::int64_t parts = 1;   ///< products that conv_bwd_data consists of (implicit_gemms); else 1
  bool operator==(const ImplicitGemm&) const = default;
};

/// Lists every product of the problem, per group:
///
///     conv_fwd         m = n * outputs          n = k / g             k = c / g * filter
///     conv_bwd_weight  m = k / g                n = c / g * filter    k = n * outputs
///     conv_bwd_data    m = n * inputs           n = c / g             k = k / g * filter     (stride 1)
///
/// With a stride, input elements whose positions differ modulo the stride are multiplied with different
/// filter elements. conv_bwd_data then consists of one product per set of positions that has any filter
/// element, each with its own m and k. Multiply-adds with padding zeros are counted, because kernels execute
/// them.
std::vector<ImplicitGemm> implicit_gemms(const ConvProblem& problem);

/// The largest product (by m * k) of implicit_gemms, with `parts` set. Cost: a few operations per element of
/// the filter's edges; allocates nothing.
ImplicitGemm implicit_gemm(const ConvProblem& problem) noexcept;

/// 2 * n * k * outputs * c / g * filter, for all directions. A double, so it never overflows.
double flop_count(const ConvProblem& problem) noexcept;

/// Minimum number of bytes moved: each of the three tensors once.
double min_bytes(const ConvProblem& problem) noexcept;

/// Whether every channel is its own group: g == c == k.
bool is_depthwise(const ConvProblem& problem) noexcept;
/// Whether the filter has one element.
bool is_pointwise(const ConvProblem& problem) noexcept;

/// Throws invalid_argument when a size is below 1 or above 2^31 - 1, a pad is below 0, g does not divide c
/// and k, the filter is larger than the padded input, a 2-D problem uses axis d, the filter of a
/// conv_bwd_weight is prepacked, or a tensor would exceed 2^62 elements.
void check(const ConvProblem& problem);
bool is_valid(const ConvProblem& problem) noexcept;

/// Prints the one-line form, with 2 or 3 spatial sizes of input and filter:
///
///     OP:NxCx[D x]HxW:Kx[Zx]YxX:dtype:layout{:name=value}
///
/// `name=value` follows for every field that differs from its default. Where the values are equal, `stride`,
/// `dilation`, `pad` stand for all axes and `pad_d`, `pad_h`, `pad_w` for both sides.
/// parse_conv_problem(print(p)) == p.
std::string print(const ConvProblem& problem);

/// Reads the one-line form. `dtype` and `layout` are optional (default fp32; nhwgc or ndhwgc by the number of
/// sizes); fields as for set_fields. Throws invalid_argument with the offending part.
ConvProblem parse_conv_problem(std::string_view text);

// ---- Maps the tensors of a convolution to the operands of its implicit GEMM and back (see signature_of).
//
//     const auto [a, b, c] = by_operand(Op::conv_bwd_data, in, wei, out);   // out, wei, in
//     const auto [in, wei, out] = by_tensor(Op::conv_bwd_data, a, b, c);    // back again

/// One value per operand: A and B are read, C is computed.
template <class T>
struct OfOperands {
  T a, b, c;
};

/// One value per tensor: input image, filter, output image.
template <class T>
struct OfTensors {
  T in, wei, out;
};

/// A, B, C are input, filter, output for conv_fwd; output, filter, input for conv_bwd_data; output, input,
/// filter for conv_bwd_weight.
template <class T>
constexpr OfOperands<T> by_operand(Op direction, T in, T wei, T out) {
  if (direction == Op::conv_bwd_data) return {out, wei, in};
  if (direction == Op::conv_bwd_weight) return {out, in, wei};
  return {in, wei, out};
}

/// The inverse of by_operand.
template <class T>
constexpr OfTensors<T> by_tensor(Op direction, T a, T b, T c) {
  if (direction == Op::conv_bwd_data) return {c, b, a};
  if (direction == Op::conv_bwd_weight) return {b, c, a};
  return {a, b, c};
}

}  // namespace kscout

template <>
struct std::hash<kscout::ConvProblem> {
  std::size_t operator()(const kscout::ConvProblem& problem) const { return kscout::fields_hash(problem); }
};
