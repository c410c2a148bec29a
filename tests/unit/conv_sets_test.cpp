// Tests the counts of the public training sets, and that their validation shapes can be held out of training.
#include "op/conv/conv_sets.h"

#include <array>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <kscout/any_problem.h>
#include <kscout/error.h>

#include "core/hash.h"

namespace kscout {
namespace {

TEST(ConvSets, HaveTheCountsOfTheirDefinitions) {
  struct Counts {
    const char* name;
    std::size_t total, distinct;
  };
  for (const Counts& want :
       {Counts{"ck_conv_train_fwd", 1538, 1434}, Counts{"ck_conv_train_fwd_all", 1886, 1782},
        Counts{"ck_conv_train_fwd_log", 299, 294}, Counts{"ck_conv_train_fwd_both", 299 + 1886, 2070},
        Counts{"ck_conv_train_bwd_data", 1242, 1154}, Counts{"ck_conv_train_bwd_weight", 2009, 1853},
        Counts{"ck_conv_train_bwd_data_all", 1650, 1562}, Counts{"ck_conv_train_bwd_weight_all", 2225, 2069},
        Counts{"ck_conv_validation_bwd_data", 10, 10}, Counts{"ck_conv_validation_bwd_weight", 10, 10},
        Counts{"ck_conv_holdout_fwd", 300, 298}, Counts{"ck_conv_wide", 1698, 1631},
        Counts{"ck_conv_edge", 1810, 1514}, Counts{"conv", 206, 206}}) {
    EXPECT_EQ(repeated_conv_set({.set = want.name, .dtype = DType::bf16}).size(), want.total) << want.name;
    const auto distinct = make_conv_set(want.name, DType::bf16);
    EXPECT_EQ(distinct.size(), want.distinct) << want.name;
    for (const ConvProblem& problem : distinct) {
      EXPECT_TRUE(is_valid(problem)) << print(problem);
      EXPECT_EQ(problem.weight, 1);
    }
  }
  EXPECT_EQ(conv_sets().size(), 18u);
}

/// A digest of which shapes a set has, in any order: of sorted lines with the sizes, strides, paddings and
/// dilations (images, groups, channels, depth, height, width), as a script writes them that runs CK Tile's
/// generators.
std::string shapes_digest(const std::vector<ConvProblem>& problems) {
  std::set<std::string> lines;
  for (const ConvProblem& p : problems) {
    EXPECT_EQ(std::tie(p.left_pad_d, p.left_pad_h, p.left_pad_w),
              std::tie(p.right_pad_d, p.right_pad_h, p.right_pad_w));
    const std::array sizes = {p.n,          p.g,          p.c,          p.k,          p.d,
                              p.h,          p.w,          p.z,          p.y,          p.x,
                              p.stride_d,   p.stride_h,   p.stride_w,   p.left_pad_d, p.left_pad_h,
                              p.left_pad_w, p.dilation_d, p.dilation_h, p.dilation_w};
    lines.insert(fmt::format("{}\n", fmt::join(sizes, ",")));
  }
  std::uint64_t hash = text_hash("");
  for (const std::string& line : lines) hash = text_hash(line, hash);
  return hash_digits(hash);
}

TEST(ConvSets, HaveTheShapesOfThePublicGenerators) {
  for (const auto& [name, digest] :
       {std::pair{"ck_conv_wide", "0e2fc0c22fbaff8a"}, std::pair{"ck_conv_edge", "2d74c45f44378675"},
        std::pair{"ck_conv_holdout_fwd", "2d49402e6b7dc6d0"},
        std::pair{"ck_conv_train_fwd_log", "d29327fd3bed9bf0"},
        std::pair{"ck_conv_train_fwd_all", "fef51a8816a29c64"},
        std::pair{"ck_conv_train_bwd_data_all", "fd306eb374d4e77e"},
        std::pair{"ck_conv_train_bwd_weight_all", "23d264f0115c10a1"}}) {
    EXPECT_EQ(shapes_digest(make_conv_set(name, DType::bf16)), digest) << name;
  }
}

TEST(ConvSets, TheValidationShapesLieInTheTrainingSetsSoTheyMustBeTakenOut) {
  for (const std::string direction : {"bwd_data", "bwd_weight"}) {
    std::set<ProblemSizes> validation;
    for (const ConvProblem& p : make_conv_set("ck_conv_validation_" + direction, DType::bf16))
      validation.insert(sizes_of(p));
    std::size_t inside = 0;
    for (const ConvProblem& p : make_conv_set("ck_conv_train_" + direction, DType::bf16))
      inside += validation.contains(sizes_of(p));
    EXPECT_EQ(inside, 10u) << direction;
  }
}

/// A digest that changes with any problem of a set, its weight or their order.
std::string digest_of(const std::vector<ConvProblem>& problems) {
  std::uint64_t hash = text_hash("");
  for (const ConvProblem& problem : problems) hash = text_hash(print(problem), hash);
  return hash_digits(hash);
}

TEST(ConvSets, OfOurOwnStayTheSame) {
  struct Golden {
    ProblemSetRequest request;
    std::size_t count;
    const char* digest;
  };
  for (const Golden& want :
       {Golden{{.set = "conv_networks"}, 3207, "2139e763d90ccf83"},
        Golden{{.set = "conv_layers"}, 1927, "1b2abea190593c20"},
        Golden{{.set = "conv_random", .max_gflop = 1, .count = 500}, 500, "3d94941bb04bcccf"},
        Golden{{.set = "conv_random", .dtype = DType::bf16, .seed = 7}, 200, "0cc0be6c7e568b7d"},
        Golden{{.set = "conv_edge"}, 1016, "d6174342b0674258"}}) {
    const auto problems = make_conv_set(want.request);
    EXPECT_EQ(problems.size(), want.count) << want.request.set;
    EXPECT_EQ(digest_of(problems), want.digest) << want.request.set;
    for (const ConvProblem& problem : problems) EXPECT_TRUE(is_valid(problem)) << print(problem);
  }
}

/// 10^9 multiply-adds and layers of a network for one image.
std::pair<double, double> work_of(const char* network) {
  double work = 0, calls = 0;
  for (const ConvProblem& p : make_conv_set({.set = "conv_networks", .models = {network}})) {
    if (p.n != 1) continue;
    work += p.weight * flop_count(p) / 2e9;
    calls += p.weight;
  }
  return {work, calls};
}

TEST(ConvSets, NetworksHaveThePublishedWork) {
  struct Published {
    const char* name;
    double work, calls;
  };
  // Multiply-adds of the convolutions, from the publications or their reference implementations.
  for (const Published& want : {Published{"resnet-18", 1.81, 20},
                                Published{"resnet-50", 4.09, 53},
                                Published{"resnet-101", 7.80, 104},
                                Published{"resnext-50-32x4d", 4.23, 53},
                                Published{"resnext-101-32x8d", 16.41, 104},
                                Published{"regnetx-400mf", 0.41, 71},
                                Published{"regnetx-8gf", 8.0, 74},
                                Published{"regnety-8gf", 8.47, 90},
                                Published{"mobilenet-v1", 0.568, 27},
                                Published{"mobilenet-v2", 0.299, 52},
                                Published{"mobilenet-v3-large", 0.215, 62},
                                Published{"efficientnet-b0", 0.385, 81},
                                Published{"efficientnet-b4", 4.39, 160},
                                Published{"convnext-t", 4.45, 58},
                                Published{"vgg-16", 15.35, 13},
                                Published{"inception-v3", 5.71, 94},
                                Published{"densenet-121", 2.83, 120},
                                Published{"shufflenet-v2", 0.144, 56},
                                Published{"squeezenet", 0.82, 26},
                                Published{"yolo-v3", 32.9, 75}}) {
    const auto [work, calls] = work_of(want.name);
    EXPECT_NEAR(work, want.work, 0.01 * want.work) << want.name;
    EXPECT_EQ(calls, want.calls) << want.name;
  }
  EXPECT_THROW(make_conv_set({.set = "conv_networks", .models = {"resnet-5"}}), Error);
  EXPECT_THROW(make_conv_set({.set = "conv_edge", .models = {"resnet-50"}}), Error);
}

TEST(ConvSets, RandomOnesHoldEveryKindWithinTheirLimits) {
  std::size_t dense = 0, grouped = 0, depthwise = 0, multiplier = 0, flat = 0, deep = 0, even = 0,
              dilated = 0, strided = 0, one_sided = 0, wide_pad = 0, pointwise = 0, batch = 0;
  const auto problems =
      make_conv_set({.set = "conv_random", .max_gflop = 2, .max_bytes = 1e8, .count = 1000});
  for (const ConvProblem& p : problems) {
    EXPECT_LE(flop_count(p), 2e9);
    EXPECT_LE(min_bytes(p), 1e8);
    dense += p.g == 1;
    grouped += p.g > 1 && p.c > p.g;
    depthwise += p.g > 1 && p.c == p.g;
    multiplier += p.g > 1 && p.c == p.g && p.k > p.g;
    flat += p.h == 1 && p.w > 1;
    deep += p.layout == Layout::ndhwgc;
    even += p.x % 2 == 0;
    dilated += p.dilation_h > 1;
    strided += p.stride_h > 1;
    one_sided += p.left_pad_h != p.right_pad_h;
    wide_pad += p.left_pad_h >= p.y && p.y > 1;
    pointwise += is_pointwise(p);
    batch += p.n > 1;
  }
  for (const std::size_t count : {dense, grouped, depthwise, multiplier, flat, deep, even, dilated, strided,
                                  one_sided, wide_pad, pointwise, batch})
    EXPECT_GE(count, 20u);
  EXPECT_THROW(make_conv_set({.set = "conv_random", .max_gflop = 1e-12}), Error);
}

TEST(ConvSets, EdgeCasesHoldEveryEdge) {
  std::size_t odd = 0, whole = 0, skipping = 0, wide_pad = 0, one_output = 0, flat = 0, dilated_stride = 0,
              multiplier = 0, large = 0, pixel = 0, deep = 0, one_sided = 0, packed_once = 0;
  for (const ConvProblem& p : make_conv_set("conv_edge", DType::fp32)) {
    const ConvOutput out = output_sizes(p);
    odd += (p.c / p.g) % 2 == 1 && (p.k / p.g) % 2 == 1;
    whole += p.y == p.h && p.x == p.w && p.y > 1;
    skipping += p.stride_h > p.y;
    wide_pad += p.left_pad_h >= p.y && p.y > 1;
    one_output += out.h == 1 && out.w == 1;
    flat += p.h == 1 && p.w > 1;
    dilated_stride += p.dilation_h > 1 && p.stride_h > 1;
    multiplier += p.g > 1 && p.c == p.g && p.k > p.g;
    large += p.h >= 384 && p.c <= 4;
    pixel += p.h == 1 && p.w == 1 && p.c >= 500;
    deep += p.layout == Layout::ndhwgc;
    one_sided += p.left_pad_w != p.right_pad_w;
    packed_once += p.prepacked;
  }
  for (const std::size_t count : {odd, whole, skipping, wide_pad, one_output, flat, dilated_stride,
                                  multiplier, large, pixel, deep, one_sided, packed_once})
    EXPECT_GE(count, 8u);
}

TEST(ConvSets, AQuarterOfRandomFiltersIsPackedOnce) {
  const auto problems = make_conv_set({.set = "conv_random", .max_gflop = 1, .count = 400});
  const auto once = std::ranges::count(problems, true, &ConvProblem::prepacked);
  EXPECT_GE(once, 70);
  EXPECT_LE(once, 130);
}

TEST(ConvSets, PackingReplacesHowOftenFiltersArePacked) {
  std::vector<ConvProblem> problems = {parse_conv_problem("conv_fwd:1x8x8x8:8x3x3:prepacked=1:weight=3"),
                                       parse_conv_problem("conv_bwd_weight:1x8x8x8:8x3x3:weight=5")};
  const auto texts = [&](Packing packing) {
    std::vector<std::string> lines;
    for (const ConvProblem& problem : with_packing(problems, packing)) lines.push_back(print(problem));
    return lines;
  };
  const std::string fwd = "conv_fwd:1x8x8x8:8x3x3:fp32:nhwgc";
  const std::string weight = "conv_bwd_weight:1x8x8x8:8x3x3:fp32:nhwgc:weight=5";
  EXPECT_EQ(texts(Packing::once), (std::vector{fwd + ":prepacked=1:weight=3", weight}));
  EXPECT_EQ(texts(Packing::per_call), (std::vector{fwd + ":weight=3", weight}));
  EXPECT_EQ(texts(Packing::both),
            (std::vector{fwd + ":weight=1.5", fwd + ":prepacked=1:weight=1.5", weight}));
}

TEST(ConvSets, PartsByGeometryMayShareWeightsButNoImageSize) {
  const auto of = [](std::int64_t images, std::int64_t height) {
    ConvProblem p = make_conv(Op::conv_fwd);
    p.n = images, p.c = 16, p.k = 32, p.h = height, p.w = 14;
    return group_of(p, SplitBy::geometry);
  };
  EXPECT_EQ(of(1, 14), of(64, 14));
  EXPECT_NE(of(1, 14), of(1, 28));
  ConvProblem other = make_conv(Op::conv_fwd, DType::fp16, Layout::ngchw);
  other.n = 8, other.c = 16, other.k = 32, other.h = 14, other.w = 14;
  EXPECT_EQ(group_of(other, SplitBy::geometry), of(1, 14)) << "types and layouts do not count";
  EXPECT_EQ(group_of(make_gemm(1, 2, 3), SplitBy::geometry), group_of(make_gemm(9, 2, 3), SplitBy::geometry));
}

TEST(ConvSets, PartsAndExcludedProblemsShareNoWeights) {
  const auto weights = [](const ConvProblem& p) { return group_of(p, SplitBy::weights); };
  const auto problems = make_conv_set("conv_networks", DType::fp32);
  const auto [train, held_out] = split_problems(problems, 0.25, 1, SplitBy::weights);
  EXPECT_EQ(train.size() + held_out.size(), problems.size());
  EXPECT_GT(held_out.size(), problems.size() / 8);
  std::set<ProblemSizes> seen;
  for (const ConvProblem& p : train) seen.insert(weights(p));
  for (const ConvProblem& p : held_out) EXPECT_FALSE(seen.contains(weights(p))) << print(p);

  const auto resnet = make_conv_set({.set = "conv_networks", .models = {"resnet-50"}});
  auto others = problems;
  leave_out_groups(others, resnet, SplitBy::weights);
  EXPECT_LT(others.size(),
            problems.size() - resnet.size());  // other networks have layers of the same channels
  std::set<ProblemSizes> excluded;
  for (const ConvProblem& p : resnet) excluded.insert(weights(p));
  for (const ConvProblem& p : others) EXPECT_FALSE(excluded.contains(weights(p))) << print(p);
}

TEST(ConvSets, OurOwnHoldsEveryKindOfConvolution) {
  std::size_t depthwise = 0, grouped = 0, dilated = 0, strided = 0, deep = 0, pointwise = 0;
  for (const ConvProblem& p : make_conv_set("conv", DType::bf16)) {
    depthwise += is_depthwise(p);
    grouped += p.g > 1 && !is_depthwise(p);
    dilated += p.dilation_h > 1;
    strided += p.stride_h > 1;
    deep += p.layout == Layout::ndhwgc;
    pointwise += is_pointwise(p);
  }
  for (const std::size_t count : {depthwise, grouped, dilated, strided, deep, pointwise})
    EXPECT_GE(count, 10u);
}

TEST(ConvSets, WeightsAreValidatedInAnotherOrderThanData) {
  const auto data = make_conv_set("ck_conv_validation_bwd_data", DType::bf16);
  const auto weight = make_conv_set("ck_conv_validation_bwd_weight", DType::bf16);
  EXPECT_EQ(sizes_of(weight[0]), sizes_of(data[3]));
  EXPECT_EQ(sizes_of(weight[1]), sizes_of(data[8]));
  EXPECT_EQ(sizes_of(weight[8]), sizes_of(data[2]));
}

}  // namespace
}  // namespace kscout
