// Defines the grids of the public CK Tile convolution heuristics, and our own validation sets.

#include "op/conv/conv_sets.h"

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/names.h"

namespace kscout {
namespace {

const Values kUpTo1024 = {64, 128, 256, 512, 1024}, kUpTo512 = {64, 128, 256, 512};

void backward_data_2d(ConvSet& set) {
  set.grid({7, 14}, {256, 512, 1024}, kUpTo1024, {1, 4, 8, 16, 32}, {k1x1, k3x3});
  set.grid({28, 32, 56}, kUpTo512, kUpTo512, {2, 4, 8, 16, 32}, {k1x1, k3x3});
  set.large({32, 64, 128, 256}, {64, 128, 256});
  set.pairs({14, 28, 56}, kAsymmetric, {4, 8, 16}, {k1x1, k3x3});
  set.pairs({7, 14, 28, 56}, kTinyBatch, {1, 2}, {k1x1});
  set.pairs({14, 28}, {{64, 64}, {128, 128}, {256, 256}}, {64, 128}, {k3x3});
  set.grouped({14, 28, 56}, {64, 128, 256}, {1, 4, 8, 16});
  set.depthwise({14, 28, 56, 112});
}

std::vector<ConvProblem> train_bwd_data(DType dtype) {
  ConvSet set(Op::conv_bwd_data, dtype);
  backward_data_2d(set);
  return set.take();
}

void backward_weight_2d(ConvSet& set) {
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
}

std::vector<ConvProblem> train_bwd_weight(DType dtype) {
  ConvSet set(Op::conv_bwd_weight, dtype);
  backward_weight_2d(set);
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

const Pairs kDilated = {{64, 128}, {128, 256}, {256, 512}, {128, 128}, {256, 256}};

/// Adds 3 x 3 filters whose padding keeps the image's size.
void dilated(ConvSet& set, const Values& dilations, const Values& edges, const Pairs& channels,
             const Values& ns) {
  for (const std::int64_t dilation : dilations) set.pairs(edges, channels, ns, {{3, dilation, 1, dilation}});
}

/// Adds volumes: 3 x 3 x 3 and 1 x 1 x 1, and temporal strides of 2.
void volumes(ConvSet& set) {
  for (const std::int64_t depth : {8, 16, 32}) {
    for (const std::int64_t edge : {28, 56}) {
      for (const auto& [c, k] : Pairs{{64, 128}, {128, 256}, {128, 128}}) {
        for (const std::int64_t n : {1, 2, 4, 8}) {
          set.add_3d(n, c, k, depth, edge, k3x3);
          set.add_3d(n, c, k, depth, edge, k1x1);
          if (depth >= 16 && n <= 4 && c != k) set.add_3d(n, c, k, depth, edge, k3x3, 2);
        }
      }
    }
  }
}

std::vector<ConvProblem> train_fwd_all(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  forward_2d(set);
  dilated(set, {2, 4, 6}, {14, 28, 56}, kDilated, {1, 4, 8, 16});
  volumes(set);
  return set.take();
}

std::vector<ConvProblem> train_fwd_with_log(DType dtype) {
  std::vector<ConvProblem> problems = convs_of_log(dtype);
  for (ConvProblem& problem : train_fwd_all(dtype)) problems.push_back(problem);
  return problems;
}

std::vector<ConvProblem> train_bwd_data_all(DType dtype) {
  ConvSet set(Op::conv_bwd_data, dtype);
  backward_data_2d(set);
  set.pairs({28, 56, 112}, kDilated, {1, 4, 8, 16}, {{3, 1, 2}});
  dilated(set, {2, 4, 6}, {14, 28, 56}, kDilated, {1, 4, 8, 16});
  volumes(set);
  return set.take();
}

std::vector<ConvProblem> train_bwd_weight_all(DType dtype) {
  ConvSet set(Op::conv_bwd_weight, dtype);
  backward_weight_2d(set);
  dilated(set, {2, 4, 6}, {14, 28, 56}, kDilated, {1, 4, 8, 16});
  dilated(set, {2, 4}, {7, 32, 112}, {{64, 64}, {128, 128}, {256, 256}}, {2, 8});
  return set.take();
}

/// The ten shapes that validate backward models.
std::vector<ConvProblem> validation(Op op, DType dtype) {
  struct Square {
    std::int64_t n, c, k, edge, filter;
  };
  constexpr Square kShapes[] = {{4, 64, 128, 32, 3},  {8, 256, 64, 14, 1},  {16, 128, 128, 28, 3},
                                {8, 512, 256, 7, 3},  {32, 64, 64, 56, 3},  {16, 512, 256, 14, 1},
                                {4, 32, 64, 112, 3},  {8, 128, 256, 32, 3}, {2, 64, 64, 28, 3},
                                {16, 256, 128, 14, 3}};
  constexpr std::size_t kWeightOrder[] = {3, 8, 0, 4, 1, 5, 6, 7, 2, 9};
  ConvSet set(op, dtype);
  for (std::size_t i = 0; i < std::size(kShapes); ++i) {
    const Square& s = kShapes[op == Op::conv_bwd_weight ? kWeightOrder[i] : i];
    set.add(s.n, s.c, s.k, s.edge, s.filter == 3 ? k3x3 : k1x1);
  }
  return set.take();
}

using Make = std::vector<ConvProblem> (*)(const ConvSetRequest&);
struct NamedSet {
  ProblemSetInfo info;
  Make make;
  bool weighted = false;  ///< a repeated shape is called more often; otherwise it means nothing
};

/// The maker of a set without options.
template <std::vector<ConvProblem> (*kMake)(DType)>
std::vector<ConvProblem> plain(const ConvSetRequest& request) {
  return kMake(request.dtype);
}

constexpr std::string_view
    kTrainFwd = "1,434 forward 2-D shapes of the public CK Tile models: grids of sizes",
    kTrainFwdAll = "the same with dilation, 3-D and temporal strides: 1,782",
    kTrainFwdLog = "294 forward shapes that public training draws from a log of MIOpen",
    kTrainFwdBoth = "ck_conv_train_fwd_log and ck_conv_train_fwd_all together, the public forward_training",
    kTrainData = "1,154 shapes of the public bwd_data model",
    kTrainWeight = "1,853 shapes of the public bwd_weight model",
    kTrainDataAll = "the same with stride 2, dilation and 3-D, as later models: 1,562",
    kTrainWeightAll = "the same with dilation, as later models: 2,069",
    kHoldout = "298 of ck_conv_train_fwd_all that public validation draws; train --exclude leaves them out",
    kWide = "1,631 forward shapes: the public wide coverage set",
    kEdge = "1,514 forward shapes: the public edge set; one image, 8 channels, small and oblong images",
    kOwn =
        "forward shapes of known networks: residual, mobile, grouped, dilated, video, 1-D-like, large "
        "filters",
    kNetworks =
        "layers of public networks for 1, 8 and 32 images, weighted by calls (families/conv_networks.toml)",
    kRandom = "log-random sizes, seeded: dense, grouped, depthwise, 1-D, 3-D; any stride, dilation and pad",
    kAwkward =
        "edge cases: odd channels, filters of the image's size, wide pads, one pixel, 1-D, multipliers",
    kTen = "ten shapes that the public models are validated on; they lie in the training sets";

const NamedSet kSets[] = {
    {{"ck_conv_train_fwd", kTrainFwd}, plain<train_fwd>},
    {{"ck_conv_train_fwd_all", kTrainFwdAll}, plain<train_fwd_all>},
    {{"ck_conv_train_fwd_log", kTrainFwdLog}, plain<convs_of_log>},
    {{"ck_conv_train_fwd_both", kTrainFwdBoth}, plain<train_fwd_with_log>},
    {{"ck_conv_train_bwd_data", kTrainData}, plain<train_bwd_data>},
    {{"ck_conv_train_bwd_data_all", kTrainDataAll}, plain<train_bwd_data_all>},
    {{"ck_conv_train_bwd_weight", kTrainWeight}, plain<train_bwd_weight>},
    {{"ck_conv_train_bwd_weight_all", kTrainWeightAll}, plain<train_bwd_weight_all>},
    {{"ck_conv_validation_bwd_data", kTen},
     [](const ConvSetRequest& of) { return validation(Op::conv_bwd_data, of.dtype); }},
    {{"ck_conv_validation_bwd_weight", kTen},
     [](const ConvSetRequest& of) { return validation(Op::conv_bwd_weight, of.dtype); }},
    {{"ck_conv_holdout_fwd", kHoldout}, plain<conv_holdout>},
    {{"ck_conv_wide", kWide}, plain<conv_wide>},
    {{"ck_conv_edge", kEdge}, plain<conv_edge>},
    {{"conv", kOwn}, plain<conv_of_networks>},
    {{"conv_networks", kNetworks},
     [](const ConvSetRequest& of) { return convs_of_networks(of.dtype, of.networks); },
     true},
    {{"conv_random", kRandom}, random_convs},
    {{"conv_edge", kAwkward}, plain<edge_convs>},
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

namespace {

const NamedSet& set_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const NamedSet& set : kSets) names.push_back(set.info.name);
  return kSets[index_of_word("problem set", name, names)];
}

}  // namespace

std::vector<ConvProblem> in_layouts(std::vector<ConvProblem> problems, std::span<const Layout> layouts) {
  if (layouts.empty()) return problems;
  for (const Layout layout : layouts) {
    if (is_gemm_layout(layout))
      fail(Errc::invalid_argument, "layout {}: is a layout of GEMMs; convolutions have {}", word(layout),
           fmt::join(std::span(EnumWords<Layout>::words).subspan(kGemmLayouts), ", "));
  }
  std::vector<ConvProblem> laid_out;
  for (ConvProblem& problem : problems) {
    const int axes = spatial_rank(problem.layout);
    for (const Layout layout : layouts) {
      if (spatial_rank(layout) != axes) continue;
      problem.layout = layout;
      laid_out.push_back(problem);
    }
  }
  if (laid_out.empty() && !problems.empty()) {
    std::vector<std::string_view> words;
    for (const Layout layout : layouts) words.push_back(word(layout));
    fail(Errc::invalid_argument, "none of {} convolutions has as many axes as --layout {}", problems.size(),
         fmt::join(words, ","));
  }
  return laid_out;
}

std::vector<ConvProblem> repeated_conv_set(std::string_view name, DType dtype) {
  return set_named(name).make({.name = name, .dtype = dtype});
}

bool is_conv_set(std::string_view name) noexcept {
  return std::ranges::find(conv_sets(), name, &ProblemSetInfo::name) != conv_sets().end();
}

std::vector<ConvProblem> make_conv_set(const ConvSetRequest& request) {
  const NamedSet& set = set_named(request.name);
  if (!request.networks.empty() && !set.weighted)
    fail(Errc::invalid_argument, "networks are chosen from set 'conv_networks', not from '{}'", request.name);
  auto problems = merge_equal(set.make(request));
  if (!set.weighted) {
    for (ConvProblem& problem : problems) problem.weight = 1;
  }
  return problems;
}

std::vector<ConvProblem> make_conv_set(std::string_view name, DType dtype) {
  return make_conv_set({.name = name, .dtype = dtype});
}

// ---- Sets that cover many kinds of convolutions: the public coverage sets, and our own set of known
// networks.

namespace {

/// All pairs of elements of two lists.
Pairs all_pairs(const Values& cs, const Values& ks) {
  Pairs pairs;
  for (const auto c : cs) {
    for (const auto k : ks) pairs.emplace_back(c, k);
  }
  return pairs;
}
Pairs all_pairs(const Values& channels) { return all_pairs(channels, channels); }
/// Pairs with equal numbers of input and output channels.
Pairs equal_pairs(const Values& channels) {
  Pairs pairs;
  for (const auto c : channels) pairs.emplace_back(c, c);
  return pairs;
}

/// The problems that the public sets keep: channels per group are multiples of 8, and the filter fits into
/// the padded image.
std::vector<ConvProblem> kept(ConvSet&& set) {
  std::vector<ConvProblem> problems = set.take();
  std::erase_if(problems, [](const ConvProblem& p) {
    return (p.c / p.g) % 8 != 0 || (p.k / p.g) % 8 != 0 || !is_valid(p);
  });
  return problems;
}

constexpr Filter k5x5{5, 2}, k7x7{7, 3}, k7x7_stride2{7, 3, 2}, k3x3_stride2{3, 1, 2}, k1x1_stride2{1, 0, 2};
const Pairs kFewChannels = {{64, 64}, {128, 128}, {64, 128}};

}  // namespace

// The public sets also have depthwise families. One channel per group is no multiple of 8, so none is kept.
std::vector<ConvProblem> conv_wide(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  const std::vector<Filter> both = {k1x1, k3x3};
  set.pairs({8, 16, 32, 64, 128}, all_pairs({64, 128, 256, 512}), {1, 4, 16}, both);
  set.pairs({4, 7, 8, 14, 16}, all_pairs({512, 1024}), {1, 8, 32}, both);
  set.pairs({56, 112, 224}, all_pairs({64, 128}), {1, 4, 8}, both);
  set.pairs({8, 14, 28, 56}, {{64, 256}, {128, 512}, {256, 64}, {512, 128}, {256, 1024}, {1024, 256}},
            {1, 4, 16}, both);
  set.pairs({28, 56, 112}, {{64, 128}, {128, 256}, {256, 512}}, {1, 4, 8}, {k3x3_stride2, k1x1_stride2});
  set.pairs({16, 32, 56}, kFewChannels, {1, 4}, {k5x5, k7x7, k7x7_stride2});
  set.pairs({7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 47}, kFewChannels, {1, 4}, both);
  set.pairs({1, 4, 8}, all_pairs({64, 128, 256, 512, 1024, 2048, 4096}), {1, 8}, {k1x1});
  set.grouped({14, 28, 56}, {16, 32, 64}, {1, 4, 8});
  set.pairs({7, 14, 28}, kTinyBatch, {1, 2}, both);
  set.pairs({8, 14, 28}, equal_pairs({64, 128, 256}), {64, 128}, {k3x3});
  set.pairs({6, 10, 12, 18, 24, 36, 48, 60, 75, 96}, kFewChannels, {1, 4}, both);
  return kept(std::move(set));
}

std::vector<ConvProblem> conv_edge(DType dtype) {
  ConvSet set(Op::conv_fwd, dtype);
  const std::vector<Filter> both = {k1x1, k3x3};
  const Values to_256 = {8, 16, 32, 64, 128, 256}, tiny = {1, 2, 3, 4, 5, 6, 7}, from_3 = {3, 4, 5, 6, 7};
  set.pairs({4, 7, 8, 14, 16, 28}, all_pairs({8, 16, 32, 64, 128, 256, 512}), {1}, both);
  set.pairs({4, 7, 14, 28, 56}, all_pairs(to_256, {8}), {1, 4}, both);
  set.pairs({4, 7, 14, 28, 56}, all_pairs({8}, to_256), {1, 4}, both);
  set.pairs(tiny, all_pairs({8, 16, 64, 128}), {1, 4}, {k1x1});
  set.pairs(from_3, all_pairs({8, 16, 64, 128}), {1, 4}, {k3x3});
  set.pairs({8, 9, 10, 11, 12, 13, 14, 15, 16}, all_pairs({8, 16, 32}), {1, 2}, both);
  for (const std::int64_t edge : {1, 3, 5, 7})  // an output of one element
    set.pairs({edge}, all_pairs({64, 128, 256}), {1}, {{edge, 0}});
  set.pairs({12, 16, 24, 32, 48}, kFewChannels, {1, 4}, {{1, 0, 3}, {3, 1, 3}, {1, 0, 4}, {3, 1, 4}});
  for (const auto& [h, w] : Pairs{{1, 28}, {4, 112}, {7, 56}, {3, 48}}) {
    for (const bool turned : {false, true})
      set.oblong(turned ? w : h, turned ? h : w, equal_pairs({64, 128}), {1, 4}, both);
  }
  set.pairs({1, 2, 3, 4, 5, 6, 7, 8, 14, 28}, {{8, 8}}, {1, 2, 4}, {k1x1});
  set.pairs({3, 4, 5, 6, 7, 8, 14, 28}, {{8, 8}}, {1, 2, 4}, {k3x3});
  return kept(std::move(set));
}

/// Layers of well-known networks, for one and for several images.
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
  // Dilated layers of segmentation networks: the receptive field grows without shrinking the image.
  for (const std::int64_t dilation : {2, 4, 6, 12, 18})
    set.pairs({33, 65}, {{256, 256}, {512, 256}}, {1, 4}, {{3, dilation, 1, dilation}});
  // Video (3 x 3 x 3, strides in time) and medical volumes.
  for (const auto& [edge, c] : Pairs{{56, 64}, {28, 128}, {14, 256}}) {
    for (const std::int64_t n : {1, 4}) {
      set.add_3d(n, c, c, 16, edge, k3x3);
      set.add_3d(n, c, 2 * c, 16, edge, k3x3, 2);
      set.add_3d(n, c, c, 8, edge, k1x1);
    }
  }
  set.add_3d(1, 32, 32, 64, 64, k3x3);
  set.add_3d(1, 1, 32, 128, 128, k3x3);
  // Patch embeddings of vision transformers, 3 x 3 of diffusion models, upscaling, filters of 31.
  set.pairs({224}, {{3, 768}}, images, {{16, 0, 16}});
  set.pairs({64}, {{320, 320}, {640, 320}}, {1, 2}, {k3x3});
  set.pairs({32}, {{640, 640}, {1280, 640}}, {1, 2}, {k3x3});
  set.pairs({128}, {{64, 64}, {64, 12}}, {1, 4}, {k3x3});
  for (const auto& [edge, c] : Pairs{{28, 256}, {14, 512}}) set.add(8, c, c, edge, {31, 15}, c);
  return set.take();
}

}  // namespace kscout
