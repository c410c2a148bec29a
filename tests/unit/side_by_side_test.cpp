// The timer of the CPU benchmarks, on a clock that the candidates move.
#include "../../bench/side_by_side.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace kscout::bench {
namespace {

/// A machine on which every call takes its candidate's time, several times as long during a slow phase.
struct SlowPhase {
  double now_us = 0, begin_us = 0, end_us = 0, factor = 1;
  int calls = 0;

  SideBySide match() {
    return SideBySide([this] { return static_cast<std::int64_t>(now_us * 1e3); });
  }
  std::function<void()> call(double us) {
    return [this, us] {
      ++calls;
      now_us += now_us >= begin_us && now_us < end_us ? us * factor : us;
    };
  }
};

TEST(SideBySide, KeepsTheBestCandidateThatASlowPhaseHit) {
  // Candidate 10 is the best. The slow phase hits candidates 8 to 13 in the first pass: candidate 10 then
  // takes twice the time of those before it, and 14 others look better.
  SlowPhase machine{.begin_us = 15500, .end_us = 37000, .factor = 3};
  SideBySide match = machine.match();
  for (int i = 0; i < 20; ++i)
    match.add({.name = std::to_string(i), .call = machine.call(i == 10 ? 700 : 1000)});
  match.coarse();
  match.interleaved(6);
  ASSERT_NE(match.best(false), nullptr);
  EXPECT_EQ(match.best(false)->name, "10");
  EXPECT_NEAR(match.best(false)->time_us, 700, 1);
  EXPECT_NEAR(match.candidates()[10].coarse_us, 700, 1);
}

TEST(SideBySide, TimesFewFinalistsAndEveryPeerAndExtraCandidate) {
  SlowPhase machine;
  SideBySide match = machine.match();
  for (int i = 0; i < 5; ++i) match.add({.name = std::to_string(i), .call = machine.call(500 - 100 * i)});
  match.add({.name = "peer", .peer = true, .call = machine.call(300)});
  match.add({.name = "extra", .extra = true, .call = machine.call(5)});
  match.coarse();
  EXPECT_FALSE(std::isfinite(match.candidates()[5].coarse_us));
  match.interleaved(2);
  EXPECT_EQ(match.best(false)->name, "4");  // not the extra candidate, though it is faster
  EXPECT_EQ(match.best(true)->name, "peer");
  EXPECT_FALSE(std::isfinite(match.candidates()[2].time_us));
  EXPECT_NEAR(match.candidates()[3].time_us, 200, 1);
  EXPECT_NEAR(match.candidates()[6].time_us, 5, 0.1);
}

TEST(SideBySide, CallsAHopelesslySlowCandidateOnce) {
  SlowPhase fast, slow;
  SideBySide match([&] { return static_cast<std::int64_t>((fast.now_us + slow.now_us) * 1e3); });
  match.add({.name = "fast", .call = fast.call(1000)});
  match.add({.name = "slow", .call = slow.call(50000)});
  match.coarse();
  EXPECT_EQ(slow.calls, 1);
  match.drop_last();
  EXPECT_EQ(match.candidates().size(), 1u);
}

}  // namespace
}  // namespace kscout::bench
