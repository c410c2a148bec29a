// The grids of the public CK Tile convolution heuristics, and our own validation sets.
#include "problems/conv_sets.h"

#include <array>

#include "core/names.h"
#include "problems/conv_grid.h"

namespace kscout {
namespace {

const Values kUpTo1024 = {64, 128, 256, 512, 1024}, kUpTo512 = {64, 128, 256, 512};

std::vector<ConvProblem> train_bwd_data(DType dtype) {
  ConvSet set(Op::conv_bwd_data, dtype);
  set.grid({7, 14}, {256, 512, 1024}, kUpTo1024, {1, 4, 8, 16, 32}, {k1x1, k3x3});
  set.grid({28, 32, 56}, kUpTo512, kUpTo512, {2, 4, 8, 16, 32}, {k1x1, k3x3});
  set.large({32, 64, 128, 256}, {64, 128, 256});
  set.pairs({14, 28, 56}, kAsymmetric, {4, 8, 16}, {k1x1, k3x3});
  set.pairs({7, 14, 28, 56}, kTinyBatch, {1, 2}, {k1x1});
  set.pairs({14, 28}, {{64, 64}, {128, 128}, {256, 256}}, {64, 128}, {k3x3});
  set.grouped({14, 28, 56}, {64, 128, 256}, {1, 4, 8, 16});
  set.depthwise({14, 28, 56, 112});
  return set.take();
}

std::vector<ConvProblem> train_bwd_weight(DType dtype) {
  ConvSet set(Op::conv_bwd_weight, dtype);
  set.grid({7, 14}, kUpTo1024, kUpTo1024, {1, 2, 4, 8, 16, 32}, {k1x1, k3x3});
  set.grid({28, 32, 56}, {32, 64, 128, 256, 512}, kUpTo512, {1, 2, 4, 8, 16, 32}, {k1x1, k3x3});
  set.large({16, 32, 64, 128, 256}, {32, 64, 128, 256});
  Pairs channels = kAsymmetric;
  channels.emplace_back(256, 1024);
  set.pairs({14, 28, 56}, channels, {4, 8, 16, 32}, {k1x1, k3x3});
  set.pairs({7, 14, 28, 56}, kTinyBatch, {1, 2}, {k1x1});
  set.pairs({7, 14, 28}, {{64, 64}, {128, 128}, {256, 256}, {512, 512}}, {64, 128}, {k3x3, k1x1});
  set.grouped({14, 28, 56}, {64, 128, 256}, {1, 4, 8, 16});
  set.depthwise({14, 28, 56, 112});
  set.grid({14, 28, 56}, {64, 128, 256}, {128, 256, 512}, {4, 8, 16}, {{3, 1, 2}});
  return set.take();
}

void forward_2d(ConvSet& set) {
  set.grid({8, 16}, kUpTo1024, kUpTo1024, {1, 4, 8, 16, 32}, {k1x1, k3x3});
  set.grid({28, 32, 56}, kUpTo512, kUpTo512, {2, 4, 8, 16, 32}, {k1x1, k3x3});
  set.large({64, 128, 256}, {64, 128, 256});
  set.pairs({16, 28, 56}, kAsymmetric, {4, 8, 16}, {k1x1, k3x3});
  set.pairs({8, 16, 28, 56}, kTinyBatch, {1, 2}, {k1x1});
  set.pairs({16, 28}, {{64, 64}, {128, 128}, {256, 256}}, {64, 128}, {k3x3});
  set.grouped({16, 28, 56}, {8, 16, 32, 64}, {1, 4, 8, 16});
  set.depthwise({16, 28, 56, 112});
  set.pairs({56, 112}, {{64, 128}, {128, 256}, {256, 512}}, {1, 4, 8, 16}, {{3, 1, 2}, {1, 0, 2}});
}

std::vector<ConvProblem> train_fwd(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  forward_2d(set);
  return set.take();
}

std::vector<ConvProblem> train_fwd_all(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  forward_2d(set);
  for (const std::int64_t dilation : {2, 4, 6})
    set.pairs({14, 28, 56}, kAsymmetric, {1, 4, 8, 16}, {{3, dilation, 1, dilation}});
  const Pairs channels = {{64, 64}, {64, 128}, {128, 128}};
  for (const std::int64_t depth : {8, 16, 32}) {
    for (const std::int64_t edge : {28, 56}) {
      for (const auto& [c, k] : channels) {
        for (const std::int64_t n : {1, 2, 4, 8}) {
          set.add_3d(n, c, k, depth, edge, k3x3);
          set.add_3d(n, c, k, depth, edge, k1x1);
          if (depth >= 16 && n <= 2) set.add_3d(n, c, k, depth, edge, k3x3, 2);
        }
      }
    }
  }
  return set.take();
}

/// The ten shapes that backward models are validated on.
std::vector<ConvProblem> validation(Op op, DType dtype) {
  struct Shape {
    std::int64_t n, c, k, edge, filter;
  };
  constexpr Shape kShapes[] = {{4, 64, 128, 32, 3},  {8, 256, 64, 14, 1},  {16, 128, 128, 28, 3},
                               {8, 512, 256, 7, 3},  {32, 64, 64, 56, 3},  {16, 512, 256, 14, 1},
                               {4, 32, 64, 112, 3},  {8, 128, 256, 32, 3}, {2, 64, 64, 28, 3},
                               {16, 256, 128, 14, 3}};
  constexpr std::size_t kWeightOrder[] = {3, 8, 0, 4, 1, 5, 6, 7, 2, 9};
  ConvSet set(op, dtype);
  for (std::size_t i = 0; i < std::size(kShapes); ++i) {
    const Shape& s = kShapes[op == Op::conv_bwd_weight ? kWeightOrder[i] : i];
    set.add(s.n, s.c, s.k, s.edge, s.filter == 3 ? k3x3 : k1x1);
  }
  return set.take();
}

using Make = std::vector<ConvProblem> (*)(DType);
struct NamedSet {
  ProblemSetInfo info;
  Make make;
};

constexpr std::string_view
    kTrainFwd = "1,434 forward 2-D shapes of the public CK Tile models: grids of sizes",
    kTrainFwdAll = "the same with dilation, 3-D and temporal strides: 1,782",
    kTrainData = "1,154 shapes of the public bwd_data model",
    kTrainWeight = "1,853 shapes of the public bwd_weight model",
    kWide = "1,631 forward shapes after the public wide coverage set",
    kEdge = "1,514 forward shapes after the public edge set: one image, 8 channels, small and oblong images",
    kOwn =
        "forward shapes of known networks: residual, mobile, grouped, dilated, video, 1-D-like, large "
        "filters",
    kTen = "ten shapes that the public models are validated on; they lie in the training sets";

const NamedSet kSets[] = {
    {{"ck_conv_train_fwd", kTrainFwd}, train_fwd},
    {{"ck_conv_train_fwd_all", kTrainFwdAll}, train_fwd_all},
    {{"ck_conv_train_bwd_data", kTrainData}, train_bwd_data},
    {{"ck_conv_train_bwd_weight", kTrainWeight}, train_bwd_weight},
    {{"ck_conv_validation_bwd_data", kTen}, [](DType dtype) { return validation(Op::conv_bwd_data, dtype); }},
    {{"ck_conv_validation_bwd_weight", kTen},
     [](DType dtype) { return validation(Op::conv_bwd_weight, dtype); }},
    {{"ck_conv_wide", kWide}, conv_wide},
    {{"ck_conv_edge", kEdge}, conv_edge},
    {{"conv", kOwn}, conv_of_networks},
};

}  // namespace

std::span<const ProblemSetInfo> conv_sets() noexcept {
  static const auto infos = [] {
    std::array<ProblemSetInfo, std::size(kSets)> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = kSets[i].info;
    return all;
  }();
  return infos;
}

std::vector<ConvProblem> repeated_conv_set(std::string_view name, DType dtype) {
  std::vector<std::string_view> names;
  for (const NamedSet& set : kSets) names.push_back(set.info.name);
  return kSets[index_of_word("problem set", name, names)].make(dtype);
}

std::vector<ConvProblem> make_conv_set(std::string_view name, DType dtype) {
  auto problems = merge_equal(repeated_conv_set(name, dtype));
  for (ConvProblem& problem : problems) problem.weight = 1;  // repetition is no workload
  return problems;
}

}  // namespace kscout
