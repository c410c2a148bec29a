#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include <kscout/any_problem.h>

#include "problems/conv_sets.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

std::string driver_line(int c, int k, int edge, int n = 4, int filter = 3, int g = 1) {
  return "./bin/MIOpenDriver convbfp16 --batchsize " + std::to_string(n) + " --in_channels " +
         std::to_string(c) + " --out_channels " + std::to_string(k) + " --in_h " + std::to_string(edge) +
         " --in_w " + std::to_string(edge) + " --fil_h " + std::to_string(filter) + " --fil_w " +
         std::to_string(filter) + " --group_count " + std::to_string(g) +
         " --conv_stride_h 1 --conv_stride_w 1 --pad_h 1 --pad_w 1 --dilation_h 2 --forw 1\n";
}

TEST(ConvSampling, MiopenLinesAreKeptByRuleAndDrawnByBucket) {
  std::string text = "MIOpen(HIP): started\n" + driver_line(64, 128, 28) + driver_line(80, 144, 28) +
                     driver_line(96, 160, 28) +           // three of one bucket of 64 channels
                     driver_line(64, 128, 28) +           // again
                     driver_line(48, 128, 28) +           // too few channels
                     driver_line(72, 128, 28) +           // no multiple of 16
                     driver_line(64, 128, 28, 32) +       // too many images
                     driver_line(64, 128, 28, 4, 13) +    // too large a filter
                     driver_line(96, 128, 28, 4, 3, 5) +  // groups that do not divide
                     "--batchsize 4 --in_channels 64\n" + driver_line(64, 64, 14);
  const auto shapes = miopen_problems(text, {});
  ASSERT_EQ(shapes.size(), 3u) << "two of the first bucket, one of the second";
  for (const ConvProblem& p : shapes) {
    EXPECT_TRUE(is_valid(p));
    EXPECT_EQ(p.dilation_h, 2);
    EXPECT_EQ(p.dilation_w, 1);
    EXPECT_EQ(p.right_pad_w, 1);
    EXPECT_EQ(p.dtype_in, DType::bf16);
  }
  EXPECT_EQ(miopen_problems(text, {}), shapes) << "the same seed";
  EXPECT_EQ(miopen_problems(text, {.count = 1}).size(), 1u);
  test::expect_error(Errc::corrupt_data, "--batchsize", [] { miopen_problems("nothing here\n", {}); });
}

TEST(ConvSampling, StratifiedDrawsKeepSharesAndLoseNoKind) {
  auto all = make_conv_set("ck_conv_train_fwd_all", DType::bf16);
  const auto share = [](std::span<const ConvProblem> of, auto&& holds) {
    return static_cast<double>(std::ranges::count_if(of, holds)) / static_cast<double>(of.size());
  };
  const auto grouped = [](const ConvProblem& p) { return p.g > 1; };
  const auto large = [](const ConvProblem& p) { return p.h > 64; };
  const auto drawn = stratified(all, 300, 42);
  EXPECT_EQ(drawn.size(), 300u);
  EXPECT_EQ(std::set<std::string>([&] {
              std::set<std::string> names;
              for (const auto& p : drawn) names.insert(print(p));
              return names;
            }())
                .size(),
            300u)
      << "distinct";
  EXPECT_NEAR(share(drawn, grouped), share(all, grouped), 0.02);
  EXPECT_NEAR(share(drawn, large), share(all, large), 0.02);
  EXPECT_EQ(stratified(all, 300, 42), drawn);
  EXPECT_NE(stratified(all, 300, 43), drawn);
  EXPECT_GT(share(stratified(all, 40, 1), grouped), 0.0);
}

TEST(ConvSampling, TopUpOffersWhatWasChosenBadly) {
  const auto shape = [](const char* line) { return parse_conv_problem(line); };
  const ConvProblem bad = shape("conv_fwd:2x256x28x28:256x3x3:bf16:nhwgc:pad=1:g=8"),
                    good = shape("conv_fwd:8x256x28x28:256x1x1:bf16");
  const std::vector<ShapeEfficiency> measured = {{bad, 0.7}, {bad, 0.95}, {good, 0.99}};
  const auto more = top_up(measured, {.count = 40});
  ASSERT_EQ(more.size(), 40u);
  for (const ConvProblem& p : more) {
    EXPECT_EQ(p.n, 2);
    EXPECT_GT(p.g, 1);
    EXPECT_EQ(p.y, 3);
    EXPECT_NE(p, bad) << "measured already";
    EXPECT_EQ((p.c / p.g) % 8, 0);
  }
  EXPECT_TRUE(top_up(std::vector<ShapeEfficiency>{{good, 0.99}}, {}).empty());
  const auto named =
      top_up(std::vector<ShapeEfficiency>{{good, 0.99}}, {.count = 9, .also = {"n=4,grouped"}});
  ASSERT_EQ(named.size(), 9u);
  EXPECT_EQ(named[0].n, 4);
  test::expect_error(Errc::invalid_argument, "'deep' is no kind",
                     [&] { top_up(measured, {.also = {"deep"}}); });
}

}  // namespace
}  // namespace kscout
