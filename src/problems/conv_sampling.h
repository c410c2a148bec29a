#pragma once
/// \file
/// Fewer convolutions that stand for many, and more of those that a model knows too little of.
///
///     const auto shapes = miopen_problems(text_of_driver_lines, {.dtype = DType::bf16});
///     const auto fewer = stratified(shapes, 100, /*seed=*/42);
///     const auto more = top_up(efficiencies_of_shapes, {.count = 200});
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/conv_problem.h>

namespace kscout {

struct MiopenRequest {
  Op op = Op::conv_fwd;
  DType dtype = DType::bf16;
  std::size_t count = 300;
  std::uint64_t seed = 42;
};

/// The shapes in a log of MIOpen's driver: `--batchsize --in_channels --out_channels --in_h --in_w --fil_h
/// --fil_w
/// --group_count --conv_stride_h --conv_stride_w --pad_h --pad_w` must all stand in a line, `--dilation_h`
/// and
/// `--dilation_w` may. Kept: channels from 64 on in multiples of 16, at most 16 images, filters up to 11,
/// groups that divide. Of each bucket of channels (steps of 64), image, filter, strides and groups at most
/// two, drawn; then `count` of all, drawn. Other lines are passed over. Throws corrupt_data when no line
/// could be used.
std::vector<ConvProblem> miopen_problems(std::string_view text, const MiopenRequest& request);

/// About `count` problems in which filters, strides, kinds of groups, image sizes and channels have the
/// shares that they have in all: a bucket's quota is its rounded share, at least 1. In drawn order.
std::vector<ConvProblem> stratified(std::span<const ConvProblem> problems, std::size_t count,
                                    std::uint64_t seed);

/// How well a model chose for a problem that it did not see: speed of its pick over that of the best, 0 to 1.
struct ShapeEfficiency {
  ConvProblem problem;
  double efficiency = 0;
};

struct TopUpRequest {
  std::size_t count = 500;
  double below = 0.9;                  ///< mean efficiency of a kind of problem under which it wants more
  std::vector<std::string> also = {};  ///< kinds that want more anyway: "n=2,grouped"
  int density = 1;                     ///< 2: a finer grid
};

/// Problems that were not measured yet, of the kinds (images; plain, grouped, depthwise; sizes of image,
/// channels and filter) for which choices were bad, in turns. Groups are of multiples of 8 channels, products
/// at least 32 x 32 x 32. Throws invalid_argument for a kind that nobody knows.
std::vector<ConvProblem> top_up(std::span<const ShapeEfficiency> measured, const TopUpRequest& request);

}  // namespace kscout
