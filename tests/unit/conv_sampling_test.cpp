#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include <kscout/any_problem.h>

#include "op/conv/conv_sets.h"
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

/// Problems that were left out for a reason.
std::size_t left_out(const MiopenProblems& log, std::string_view reason) {
  const auto found = std::ranges::find(log.left_out, reason, &SkippedLines::reason);
  return found == log.left_out.end() ? 0 : found->count;
}

TEST(ConvSampling, MiopenLinesAreDrawnByBucketAndTheRestIsCounted) {
  const std::string text = "MIOpen(HIP): started\n" + driver_line(64, 128, 28) + driver_line(80, 144, 28) +
                           driver_line(96, 160, 28) +           // three of one bucket of 64 channels
                           driver_line(64, 128, 28) +           // again
                           driver_line(96, 128, 28, 4, 3, 5) +  // groups that do not divide
                           "--batchsize 4 --in_channels 64\n" + driver_line(64, 64, 14) +
                           "\nMIOpenDriver poolfp16 -n 4 -c 3 -H 8 -W 8\n";
  const MiopenProblems log = miopen_problems(text, {});
  EXPECT_EQ(log.lines, 9u);
  ASSERT_EQ(log.problems.size(), 3u) << "two of the first bucket, one of the second";
  for (const ConvProblem& p : log.problems) {
    EXPECT_TRUE(is_valid(p));
    EXPECT_EQ(p.dilation_h, 2);
    EXPECT_EQ(p.dilation_w, 1);
    EXPECT_EQ(p.right_pad_w, 1);
    EXPECT_EQ(p.dtype_in, DType::bf16);
  }
  EXPECT_EQ(left_out(log, "without a command line of MIOpenDriver"), 1u);
  EXPECT_EQ(left_out(log, "that are no valid convolution"), 1u);
  EXPECT_EQ(left_out(log, "without --in_h (-H)"), 1u);
  EXPECT_EQ(left_out(log, "of operation 'poolfp16'"), 1u);
  EXPECT_EQ(left_out(log, "repeated"), 1u);
  std::size_t accounted = log.problems.size();
  for (const SkippedLines& one : log.left_out) accounted += one.count;
  EXPECT_EQ(accounted, log.lines) << "every line is a problem or counted: "
                                  << skipped_lines_text(log.left_out);
  EXPECT_NE(skipped_lines_text(log.left_out).find("1 without --in_h (-H) (line 7)"), std::string::npos)
      << skipped_lines_text(log.left_out);
  EXPECT_EQ(miopen_problems(text, {}).problems, log.problems) << "the same seed";
  EXPECT_EQ(miopen_problems(text, {.count = 1}).problems.size(), 1u);
  EXPECT_EQ(left_out(miopen_problems(text, {.count = 1}), "above --count"), 2u);
  test::expect_error(Errc::corrupt_data, "--batchsize (-n)", [] { miopen_problems("nothing here\n", {}); });
}

TEST(ConvSampling, MiopenLinesHaveShortFlagsAndAnySizes) {
  const auto only = [](const std::string& line, const MiopenRequest& request = {}) {
    const MiopenProblems log = read_miopen_log(line + "\n", request);
    return log.problems.size() == 1 ? print(log.problems.front()) : skipped_lines_text(log.left_out);
  };
  const std::string first =
      "convfp16 -n 32 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -l 1 -j 1 -m conv -g 1 -F 1 -t "
      "1";
  EXPECT_EQ(only("MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver " + first),
            "conv_fwd:32x3x224x224:64x7x7:fp16:nhwgc:stride=2:pad=3");
  EXPECT_EQ(only(first), only("MIOpenDriver " + first)) << "the words after the program";
  EXPECT_EQ(only(first, {.op = Op::conv_bwd_data, .dtype = DType::bf16}),
            "conv_bwd_data:32x3x224x224:64x7x7:bf16:nhwgc:stride=2:pad=3");
  EXPECT_EQ(only("MIOpenDriver conv -n 1 -c 72 -H 20 -W 10 -k 72 -y 3 -x 1 -p 1 -g 72 -l 2"),
            "conv_fwd:1x72x20x10:72x3x1:fp32:nhwgc:pad_h=1:g=72:dilation_h=2");
  EXPECT_EQ(
      only("MIOpenDriver convbfp16 -n 1 -c 8 -_ 3 -! 4 -H 8 -W 8 -k 16 -@ 3 -y 3 -x 3 -# 2 -$ 1 -p 1 -q 1"),
      "conv_fwd:1x8x4x8x8:16x3x3x3:bf16:ndhwgc:pad=1:stride_d=2");
  EXPECT_EQ(only("MIOpenDriver conv --batchsize=1 --in_channels=8 --in_h=8 --in_w=8 -k 8 -y 1 -x 1"),
            "conv_fwd:1x8x8x8:8x1x1:fp32:nhwgc");
  const std::string good = "MIOpenDriver conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1\n";
  const auto reasons = [&](const std::string& line) {
    return skipped_lines_text(read_miopen_log(good + line + "\n", {}).left_out);
  };
  EXPECT_EQ(reasons(good), "none");
  EXPECT_EQ(reasons("MIOpenDriver conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -m trans"),
            "1 with --mode trans (line 2)");
  EXPECT_EQ(reasons("MIOpenDriver conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -z same"),
            "1 with --pad_mode same (line 2)");
  EXPECT_EQ(reasons("MIOpenDriver conv -n 1 -c 8 -H eight -W 8 -k 8 -y 1 -x 1"),
            "1 without a whole number after --in_h (-H) (line 2)");
  EXPECT_EQ(reasons("MIOpenDriver bnorm -n 1\nMIOpenDriver bnorm -n 2"),
            "2 of operation 'bnorm' (first: line 2)");
  // What follows -x may be lost: pads, strides, groups.
  EXPECT_EQ(skipped_lines_text(
                read_miopen_log(good + "MIOpenDriver " + first.substr(0, first.find(" -p")), {}).left_out),
            "1 of lines that are cut short (line 2)");
  EXPECT_EQ(read_miopen_log(first, {}).problems.size(), 1u) << "the last flag of MIOpen's lines";
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
