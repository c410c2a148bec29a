// Tests provider cudnn on a real GPU. Each test is a process of its own (ctest runs them one by one).
#include <limits>

#include <gtest/gtest.h>

#include <kscout/backend.h>
#include <kscout/error.h>
#include <kscout/provider.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn_library.h"
#include "family/listed.h"
#include "gpu/on_gpu.h"
#include "measure/problem_bench.h"

namespace kscout {
namespace {

class Cudnn : public test::OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped() && !cudnn::missing().empty()) GTEST_SKIP() << "NO CUDNN TESTED: " << cudnn::missing();
  }
  static Outcome measured(const ConvProblem& problem, const KernelConfig& config) {
    ProblemBench bench({.cache = CacheState::cold}, 1, instruments_of(gpu()));
    bench.open(problem);
    return bench.coarse({&gpu(), config}, std::numeric_limits<double>::infinity());
  }
};

KernelConfig first_suggestion(Op op) {
  CudnnConfig config;
  config.suggestion = 1;
  return config.kernel_config(op);
}

TEST_F(Cudnn, EveryKindOfProblemRunsAndIsVerified) {
  for (const char* const op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    for (const char* const sizes :
         {"2x12x9x11:18x3x3:fp32:nhwgc:pad=1:g=3", "2x12x9x11:18x3x3:tf32:nhwgc:pad=1:stride=2",
          "2x16x9x11:24x3x3:fp16:ngchw:pad=1", "2x16x5x9x11:24x3x3x3:bf16:ndhwgc:pad=1",
          "2x16x5x9x11:24x2x3x3:fp16:ngcdhw:stride=2",
          "3x8x1x50:8x1x5:bf16:nhwgc:left_pad_w=4:g=8:dilation_w=2",
          "4x33x13x13:33x3x3:bf16:nhwgc:pad=1:g=33", "8x64x56x56:64x3x3:bf16:nhwgc:pad=1"}) {
      ConvProblem problem = parse_conv_problem(std::string(op) + ":" + sizes);
      const Outcome outcome = measured(problem, first_suggestion(problem.op));
      EXPECT_EQ(outcome.measured.status, Status::ok) << print(problem) << ": " << outcome.reason;
      if (problem.op != Op::conv_fwd) continue;
      problem.epilogue = Epilogue::bias;
      const Outcome biased = measured(problem, first_suggestion(problem.op));
      EXPECT_EQ(biased.measured.status, Status::ok) << print(problem) << ": " << biased.reason;
    }
  }
}

TEST_F(Cudnn, ListedConfigsReadBackAndRun) {
  const ConvProblem problem = parse_conv_problem("conv_fwd:8x64x28x28:64x3x3:bf16:nhwgc:pad=1");
  const auto listed = backend("cuda").suggestions(problem, kListedAlgorithms);
  ASSERT_GT(listed.size(), 10u);
  int ran = 0;
  for (const KernelConfig& kernel : listed) {
    const std::string name = config_name(signature_of(problem), kernel);
    EXPECT_TRUE((parse_config_name(name) == NamedConfig{signature_of(problem), kernel})) << name;
    const Outcome outcome = measured(problem, kernel);
    EXPECT_TRUE(outcome.measured.status == Status::ok || outcome.measured.status == Status::unsupported)
        << name << ": " << outcome.reason;
    ran += outcome.measured.status == Status::ok;
  }
  EXPECT_GT(ran, 10);
}

}  // namespace
}  // namespace kscout
