#include "measure/verified_launch.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "op/gemm/gemm_reference.h"
#include "support/stand_in_instruments.h"

namespace kscout {
namespace {

constexpr std::size_t kWorkspace = 64;

/// Computes a product with K = 0 in 10 microseconds more in each call, and writes `excess` bytes after its
/// workspace.
class ZeroLaunch final : public Launch {
 public:
  ZeroLaunch(const GemmProblem& problem, float value, std::size_t excess, double& now_us)
      : count_(problem.m * problem.n), value_(value), excess_(excess), now_us_(now_us) {}
  std::size_t workspace_bytes() const noexcept override { return kWorkspace; }
  void run(const Buffers& given, void* workspace, Stream) override {
    auto* const scratch = static_cast<float*>(workspace);
    now_us_ += 10 * ++calls_;
    had_nan = had_nan || std::isnan(scratch[0]);
    std::memset(workspace, 0, kWorkspace + excess_);
    auto* const c = static_cast<float*>(GemmBuffers::of(given).c);
    for (std::int64_t i = 0; i < count_; ++i) c[i] = value_;
  }

  bool had_nan = false;  ///< the workspace held a NaN

 private:
  std::int64_t count_;
  float value_;
  std::size_t excess_;
  double& now_us_;
  int calls_ = 0;
};

TEST(VerifiedLaunch, FindsWrongElementsAndWritesOutside) {
  const GemmProblem problem = make_gemm(3, 5, 0);
  StandInInstruments clock;
  GemmOperands operands(clock);
  operands.make(problem, 1);
  const GemmReference reference(problem, operands);
  const auto found = [&](float value, std::size_t excess) {
    auto launch = std::make_unique<ZeroLaunch>(problem, value, excess, clock.now_us);
    const ZeroLaunch& zero = *launch;
    VerifiedLaunch one(std::move(launch), operands);
    const Verification result = one.verify(reference);
    EXPECT_TRUE(zero.had_nan) << "the workspace is filled with NaNs";
    EXPECT_TRUE(std::isnan(one.packing_us())) << "nothing is packed";
    EXPECT_EQ(one.time_us(2), 25) << "the mean of the second and the third call";
    return result;
  };
  EXPECT_LE(found(0, 0).error, 1);
  EXPECT_GT(found(1, 0).error, 1);
  const Verification outside = found(0, 8);
  EXPECT_TRUE(std::isinf(outside.error));
  EXPECT_NE(outside.where.find("the workspace was written"), std::string::npos) << outside.where;
  EXPECT_LE(found(0, 0).error, 1) << "the operands are whole again";
}

}  // namespace
}  // namespace kscout
