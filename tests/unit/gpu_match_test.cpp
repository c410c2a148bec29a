// The comparisons of bench/conv_cuda, with a cuDNN and a GPU that are this machine's CPU.
#include "../../bench/gpu_match.h"

#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "../../bench/conv_cuda_match.h"
#include "provider/cudnn/cudnn.h"
#include "support/paths.h"

namespace kscout::bench {
namespace {

class GpuMatchTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
    setenv("KSCOUT_CUDNN", paths::stand_in_cudnn, 1);
  }
};

Timed known(double us) { return {us, false}; }

TEST(GpuMatchSummary, ComparesOurSpeedWithAPeers) {
  std::vector<std::pair<Timed, Timed>> pairs(10, {known(10), known(20)});
  pairs.push_back({known(10), known(5)});
  pairs.push_back({known(10), Timed()});  // no time of the peer
  pairs.push_back({{10, true}, known(80)});
  const Summary summary = compare(pairs);
  EXPECT_EQ(summary.problems, 12u);
  EXPECT_NEAR(summary.geomean, std::pow(2.0, (10 - 1 + 3) / 12.0), 1e-12);
  EXPECT_EQ(summary.p10, 2);
  EXPECT_EQ(summary.least, 0.5);
  EXPECT_EQ(summary.wins, 10u) << "the noisy one is not known to be a win";
  EXPECT_EQ(summary.losses, 1u);
  EXPECT_EQ(compare({}).problems, 0u);
}

TEST(GpuMatchSummary, TheFastestIsNeverOneWithoutATime) {
  EXPECT_EQ(fastest_of(std::vector<Timed>{Timed(), known(3), known(2), Timed()}), 2u);
}

TEST_F(GpuMatchTest, RefusedAndWrongConfigsHaveNoTimeAndAReason) {
  CudnnConfig wrong;
  wrong.version = 91900;
  wrong.engine = 3 + 1;
  const KernelConfig first = cudnn_suggestion(Op::conv_fwd, 1);
  GpuMatch match;
  match.open(parse_conv_problem("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:pad=1"));
  const auto timed =
      match.time({first, wrong.kernel_config(Op::conv_fwd), first, cudnn_suggestion(Op::conv_fwd, 20)}, 3);
  EXPECT_GT(timed[0].us, 0);
  EXPECT_TRUE(std::isnan(timed[1].us));
  EXPECT_EQ(timed[2].us, timed[0].us) << "one config is timed once";
  EXPECT_TRUE(std::isnan(timed[3].us));
  EXPECT_EQ(match.last_failures()[0], "");
  EXPECT_NE(match.last_failures()[1].find("wrong: "), std::string::npos) << match.last_failures()[1];
  EXPECT_NE(match.last_failures()[3].find("fewer than 20"), std::string::npos) << match.last_failures()[3];
}

TEST_F(GpuMatchTest, AConvolutionIsComparedWithAndWithoutAModel) {
  const ConvProblem problem = parse_conv_problem("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:pad=1");
  const Selector selector = Selector::analytic({.provider = "cudnn", .device = device_preset("h200")});
  const ConvRow chosen = ConvMatch(&selector, "", 0).play(problem, true);
  EXPECT_EQ(chosen.failure, "");
  EXPECT_EQ(chosen.config, Selector::name(problem, selector.select(problem)));
  EXPECT_GT(chosen.first_result_ms, 0);
  EXPECT_GT(chosen.cudnn_first_result_ms, 0);
  EXPECT_GT(chosen.first.us, 0);
  EXPECT_GT(chosen.of_8.us, 0);
  EXPECT_TRUE(std::isnan(chosen.best.us));
  const ConvRow best = ConvMatch(nullptr, "default", 0).play(problem, false);
  EXPECT_EQ(best.failure, "");
  EXPECT_EQ(best.ours.us, best.best.us);
  EXPECT_TRUE(std::isnan(best.first_result_ms));
}

TEST_F(GpuMatchTest, ARefinedConvolutionIsTimedBesideTheChoiceAndItsFirstCallsAreTimed) {
  const ConvProblem problem = parse_conv_problem("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:pad=1");
  const Selector selector = Selector::analytic({.provider = "cudnn", .device = device_preset("h200")});
  const ConvRow row = ConvMatch(&selector, "", 3).play(problem, true);
  EXPECT_EQ(row.failure, "");
  EXPECT_GT(row.refined.us, 0);
  EXPECT_NE(row.refined_config, "");
  EXPECT_GT(row.refine_ready_ms, 0);
  EXPECT_GT(row.ten_calls, 0);
  EXPECT_TRUE(std::isnan(row.first_result_ms)) << "its plans are built already";
}

TEST_F(GpuMatchTest, AFailureIsARowAndNoException) {
  const ConvProblem split = parse_conv_problem("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:split_k=2");
  const ConvRow row = ConvMatch(nullptr, "default", 0).play(split, true);
  EXPECT_NE(row.failure.find("split-K"), std::string::npos) << row.failure;
}

TEST_F(GpuMatchTest, DecisionsAreTimedForEveryProblem) {
  Selector selector = Selector::analytic({.provider = "cudnn", .device = device_preset("h200")});
  const std::vector<ConvProblem> problems{parse_conv_problem("conv_fwd:3x8x6x6:8x3x3:bf16:nhwgc:pad=1"),
                                          parse_conv_problem("conv_fwd:2x8x6x6:8x3x3:bf16:nhwgc:pad=1")};
  const DecisionTimes with = compare_conv_deciding(&selector, problems);
  EXPECT_GT(with.cold_us, 0);
  EXPECT_GT(with.heuristic_us, 0);
  EXPECT_TRUE(std::isnan(compare_conv_deciding(nullptr, problems).cold_us));
}

}  // namespace
}  // namespace kscout::bench
