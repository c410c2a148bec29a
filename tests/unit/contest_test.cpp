// Tests contests: kernels that take turns on the first calls of a problem.
#include "dispatch/contest.h"

#include <string>

#include <gtest/gtest.h>

#include "support/stand_in_instruments.h"

namespace kscout {
namespace {

/// Calls of a program; kernel k takes us[k].
class Program {
 public:
  explicit Program(const ContestRules& rules, std::vector<double> us) : contest_(rules), us_(std::move(us)) {}

  /// The kernels in the order of their calls.
  std::string call(int times) {
    std::string order;
    for (int i = 0; i < times; ++i) {
      read();
      const Turn turn = contest_.next();
      StreamClock::Span span = turn.timed ? clock.start({}) : StreamClock::Span();
      now_us_ += us_[turn.kernel];
      if (turn.timed) contest_.add(turn, span, clock.stop(span, {}), clock);
      order += static_cast<char>('0' + turn.kernel);
    }
    return order;
  }
  /// How often there was a result.
  int read() {
    if (const auto* const times = contest_.result(clock)) {
      ++results_;
      result = *times;
    }
    return results_;
  }

 private:
  double now_us_ = 0;

 public:
  StandInStreamClock clock{now_us_};
  std::vector<double> result;

 private:
  Contest<StreamClock> contest_;
  std::vector<double> us_;
  int results_ = 0;
};

TEST(Contest, KernelsTakeTurnsAndTheSlowAreDropped) {
  Program program({.kernels = 3, .samples = 3, .drop = 2}, {10, 30, 8});
  EXPECT_EQ(program.call(10), "2100122002") << "kernel 1 has one timed call";
  EXPECT_EQ(program.read(), 1);
  EXPECT_EQ(program.result, (std::vector<double>{10, 30, 8}));
  EXPECT_EQ(program.call(2), "00");
  EXPECT_EQ(program.read(), 1) << "once";
  EXPECT_EQ(program.clock.open, 0);
}

TEST(Contest, NothingWaitsForADeviceThatIsBehind) {
  Program program({.samples = 2}, {10, 8});
  program.clock.behind = true;
  EXPECT_EQ(program.call(8), "10011000");
  EXPECT_EQ(program.read(), 0);
  program.clock.behind = false;
  EXPECT_EQ(program.read(), 1);
  EXPECT_EQ(program.result, (std::vector<double>{10, 8}));
}

TEST(Contest, EndsAtItsBudget) {
  Program program({.order = Order::one_by_one, .samples = 5, .budget_us = 25}, {10, 8});
  EXPECT_EQ(program.call(6), "000000");
  EXPECT_EQ(program.read(), 1);
  EXPECT_EQ(program.result, (std::vector<double>{10, Contest<StreamClock>::kNone})) << "no turn of the other";
}

}  // namespace
}  // namespace kscout
