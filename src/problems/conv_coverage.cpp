// Sets that cover many kinds of convolutions: after the public coverage sets, and our own of known networks.
#include "problems/conv_grid.h"

namespace kscout {
namespace {

/// Every pair of two lists.
Pairs all_pairs(const Values& cs, const Values& ks) {
  Pairs pairs;
  for (const auto c : cs) {
    for (const auto k : ks) pairs.emplace_back(c, k);
  }
  return pairs;
}
Pairs all_pairs(const Values& channels) { return all_pairs(channels, channels); }
/// As many channels out as in.
Pairs equal_pairs(const Values& channels) {
  Pairs pairs;
  for (const auto c : channels) pairs.emplace_back(c, c);
  return pairs;
}

/// What the public sets keep: channels of a group are multiples of 8, the filter fits into the padded image.
std::vector<ConvProblem> kept(ConvSet&& set) {
  std::vector<ConvProblem> problems = set.take();
  std::erase_if(problems, [](const ConvProblem& p) {
    return (p.c / p.g) % 8 != 0 || (p.k / p.g) % 8 != 0 || !is_valid(p);
  });
  return problems;
}

constexpr Filter k5x5{5, 2}, k7x7{7, 3}, k7x7_stride2{7, 3, 2}, k3x3_stride2{3, 1, 2}, k1x1_stride2{1, 0, 2};

}  // namespace

// The families and the number of distinct shapes are those that were published; where the published text
// does not give a family's grid, it was chosen such that the number comes out.
std::vector<ConvProblem> conv_wide(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  const std::vector<Filter> both = {k1x1, k3x3};
  set.pairs({8, 16, 32, 64, 128}, all_pairs({64, 128, 256, 512}), {1, 4, 16}, both);
  set.pairs({4, 7, 8, 14, 16}, all_pairs({512, 1024}), {1, 8, 32}, both);
  set.pairs({56, 112, 224}, all_pairs({64, 128}), {1, 4, 8}, both);
  set.pairs({8, 14, 28, 56}, {{64, 256}, {128, 512}, {256, 64}, {512, 128}, {256, 1024}, {1024, 256}},
            {1, 4, 16}, both);
  set.pairs({28, 56, 112}, all_pairs({64, 128, 256}), {1, 8}, {k3x3_stride2, k1x1_stride2});
  set.pairs({14, 28, 56}, all_pairs({64, 128}), {1, 4, 16}, {k5x5, k7x7, k7x7_stride2});
  set.pairs({7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47}, equal_pairs({64, 128, 256}), {4}, both);
  set.pairs({1, 4, 8}, all_pairs({64, 128, 256, 512, 1024, 2048, 4096}), {1, 8}, {k1x1});
  set.grouped({14, 28}, {16, 32, 64}, {1, 8});
  set.depthwise({14, 28, 56, 112});  // one channel a group: none is kept
  set.pairs({14, 28}, equal_pairs({64, 128, 256, 512}), {1, 2}, both);
  set.pairs({14}, equal_pairs({64, 128, 256}), {64, 128}, both);
  set.pairs({6, 10, 12, 18, 24, 36, 48, 60, 75, 96}, equal_pairs({64, 128, 256}), {1, 4, 16}, both);
  return kept(std::move(set));
}

std::vector<ConvProblem> conv_edge(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  const std::vector<Filter> both = {k1x1, k3x3};
  const Values channels = {8, 16, 32, 64, 128, 256, 512};
  set.pairs({1, 7, 14, 28, 56}, all_pairs({64, 128, 256, 512}), {1}, both);
  set.pairs({7, 14, 28, 56}, all_pairs(channels, {8}), {1, 4, 16}, both);
  set.pairs({7, 14, 28, 56}, all_pairs({8}, channels), {1, 4, 16}, both);
  set.pairs({1, 2, 3, 4, 5, 6, 7}, all_pairs({64, 128, 256}), {1, 4, 16}, both);
  set.pairs({8, 9, 10, 11, 12, 13, 14, 15, 16}, all_pairs({64, 128, 256}), {1, 4, 16}, both);
  for (const std::int64_t edge : {1, 3, 5, 7})  // an output of one element
    set.pairs({edge}, equal_pairs({64, 128, 256, 512}), {1, 8}, {{edge, 0}});
  set.pairs({28, 56}, all_pairs({64, 256}), {1, 4, 16}, {{3, 1, 3}, {3, 1, 4}, {1, 0, 3}, {1, 0, 4}});
  for (const auto& [h, w] : Pairs{{1, 28}, {4, 112}, {7, 56}, {3, 48}}) {
    for (const bool turned : {false, true})
      set.oblong(turned ? w : h, turned ? h : w, equal_pairs({64, 128}), {1, 4}, both);
  }
  set.pairs({1, 2, 3, 4, 5, 6, 7, 8, 14, 16, 28, 56, 112}, {{8, 8}}, {1, 8}, both);
  return kept(std::move(set));
}

/// Layers as they stand in well-known networks, for one and for several images.
std::vector<ConvProblem> conv_of_networks(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  const Values images = {1, 8, 32};
  // Residual networks: stem, bottlenecks, transitions.
  set.pairs({224}, {{3, 64}}, images, {k7x7_stride2});
  set.pairs({56}, {{64, 64}, {64, 256}, {256, 64}}, images, {k1x1});
  set.pairs({28}, {{128, 512}, {512, 128}}, images, {k1x1});
  set.pairs({14}, {{256, 1024}, {1024, 256}}, images, {k1x1});
  set.pairs({7}, {{512, 2048}, {2048, 512}}, images, {k1x1});
  for (const auto& [edge, c] : Pairs{{56, 64}, {28, 128}, {14, 256}, {7, 512}})
    set.pairs({edge}, {{c, c}}, images, {k3x3});
  for (const auto& [edge, c] : Pairs{{56, 128}, {28, 256}, {14, 512}})
    set.pairs({edge}, {{c, c}, {c, 2 * c}}, images, {k3x3_stride2});
  // Depthwise layers of mobile networks, with and without stride, 3 x 3 and 5 x 5.
  for (const auto& [edge, c] : Pairs{{112, 32}, {56, 144}, {28, 192}, {14, 576}, {7, 960}}) {
    for (const auto n : images) {
      for (const Filter& filter : {k3x3, k5x5, k3x3_stride2}) set.add(n, c, c, edge, filter, c);
    }
  }
  // Grouped layers: 32 groups of 4 to 32 channels.
  for (const auto& [edge, c] : Pairs{{56, 128}, {28, 256}, {14, 512}, {7, 1024}}) {
    for (const auto n : images) {
      for (const Filter& filter : {k3x3, k3x3_stride2}) set.add(n, c, c, edge, filter, 32);
    }
  }
  // Dilated layers of segmentation: the field grows, the image does not shrink.
  for (const std::int64_t dilation : {2, 4, 6, 12, 18})
    set.pairs({33, 65}, {{256, 256}, {512, 256}}, {1, 4}, {{3, dilation, 1, dilation}});
  // Video: 3 x 3 x 3, steps in time, and volumes of medicine.
  for (const auto& [edge, c] : Pairs{{56, 64}, {28, 128}, {14, 256}}) {
    for (const std::int64_t n : {1, 4}) {
      set.add_3d(n, c, c, 16, edge, k3x3);
      set.add_3d(n, c, 2 * c, 16, edge, k3x3, 2);
      set.add_3d(n, c, c, 8, edge, k1x1);
    }
  }
  set.add_3d(1, 32, 32, 64, 64, k3x3);
  set.add_3d(1, 1, 32, 128, 128, k3x3);
  // Patches of vision transformers, diffusion's 3 x 3, upscaling, filters of 31.
  set.pairs({224}, {{3, 768}}, images, {{16, 0, 16}});
  set.pairs({64}, {{320, 320}, {640, 320}}, {1, 2}, {k3x3});
  set.pairs({32}, {{640, 640}, {1280, 640}}, {1, 2}, {k3x3});
  set.pairs({128}, {{64, 64}, {64, 12}}, {1, 4}, {k3x3});
  for (const auto& [edge, c] : Pairs{{28, 256}, {14, 512}}) set.add(8, c, c, edge, {31, 15}, c);
  return set.take();
}

}  // namespace kscout
