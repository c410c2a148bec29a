#pragma once
/// \file
/// Sorts convolutions into the kinds that kernels treat differently, the slices of reports.
///
///     conv_kind(parse_conv_problem("conv_fwd:1x96x56x56:96x3x3:g=96")) == ConvKind::depthwise
#include <cstdint>
#include <string_view>

#include <kscout/conv_problem.h>

namespace kscout {

enum class ConvKind : std::uint8_t { dense, pointwise, grouped, depthwise, stem, three_d };
template <>
struct EnumWords<ConvKind> {
  static constexpr std::string_view what = "kind of convolution";
  static constexpr std::array<std::string_view, 6> words = {"dense",     "pointwise", "grouped",
                                                            "depthwise", "stem",      "three_d"};
};

/// Max input channels of a stem, the first layer of a network.
inline constexpr std::int64_t kStemChannels = 4;

/// The first that applies: three_d by the layout; depthwise with one input channel per group, also with
/// several outputs; grouped; stem with few input channels; pointwise with a filter of one element; else
/// dense.
inline ConvKind conv_kind(const ConvProblem& p) noexcept {
  if (spatial_rank(p.layout) == 3) return ConvKind::three_d;
  if (p.g > 1) return p.c == p.g ? ConvKind::depthwise : ConvKind::grouped;
  if (p.c <= kStemChannels) return ConvKind::stem;
  return is_pointwise(p) ? ConvKind::pointwise : ConvKind::dense;
}

}  // namespace kscout
