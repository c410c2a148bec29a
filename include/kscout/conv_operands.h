#pragma once
/// \file
/// Which tensor of a convolution is which operand of the product that it is computed as (see signature_of).
///
///     const auto [a, b, c] = by_operand(Op::conv_bwd_data, in, wei, out);   // out, wei, in
///     const auto [in, wei, out] = by_tensor(Op::conv_bwd_data, a, b, c);    // back again
#include <kscout/types.h>

namespace kscout {

/// Something of each operand: A and B are read, C is computed.
template <class T>
struct OfOperands {
  T a, b, c;
};

/// The same of each tensor: input image, filter, output image.
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
