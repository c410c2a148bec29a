#include "side_by_side.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace kscout::bench {

namespace {

constexpr double kSeriesUs = 100;  ///< min length of a coarse series
constexpr double kRoundUs = 1500;  ///< min length of a sample in a round
/// A candidate this many times slower than the best so far is dropped in the first pass. Another program on
/// the same core halves the speed, and a lost time slice hits a single call, not the shorter of two.
constexpr double kFirstPassFactor = 4;
constexpr double kLastPassFactor = 1.8;  ///< the same in the last pass
constexpr double kShortUs = 2000;  ///< shorter calls are never dropped after one call, which runs cold code

}  // namespace

double SideBySide::series(const Candidate& one, double min_us, double one_us) const {
  if (one.prepare) one.prepare();
  const int calls = static_cast<int>(std::clamp(min_us / std::max(one_us, 0.01), 1.0, 1e5));
  const std::int64_t begin = clock_();
  for (int i = 0; i < calls; ++i) one.call();
  return static_cast<double>(clock_() - begin) * 1e-3 / calls;
}

void SideBySide::coarse() {
  double best = std::numeric_limits<double>::infinity();
  const auto sample = [&](Candidate& one, double min_us) {
    one.coarse_us = std::min(one.coarse_us, series(one, min_us, one.coarse_us));
    if (!one.extra) best = std::min(best, one.coarse_us);
  };
  for (Candidate& one : candidates_) {
    if (one.peer) continue;
    sample(one, 0);
    if (one.coarse_us < std::max(kShortUs, kFirstPassFactor * best)) sample(one, kSeriesUs);
  }
  for (std::size_t i = candidates_.size(); i-- > 0;) {
    Candidate& one = candidates_[i];
    if (!one.peer && one.coarse_us < kFirstPassFactor * best) sample(one, kSeriesUs);
  }
  for (Candidate& one : candidates_) {
    if (!one.peer && one.coarse_us < kLastPassFactor * best) sample(one, kSeriesUs);
  }
}

void SideBySide::interleaved(std::size_t finalists, const RoundsRule& rule) {
  std::vector<Candidate*> chosen;
  for (Candidate& one : candidates_) {
    if (!one.peer && !one.extra) chosen.push_back(&one);
  }
  std::ranges::stable_sort(chosen, {}, &Candidate::coarse_us);
  chosen.resize(std::min(chosen.size(), finalists));
  for (Candidate& one : candidates_) {
    if (one.peer || one.extra) chosen.push_back(&one);
  }
  const auto summaries = time_in_rounds(chosen.size(), rule, [&](std::size_t i) {
    const Candidate& one = *chosen[i];
    const double warm_us = series(one, 0, 1);
    const double us = series(one, kRoundUs, warm_us);
    // Waits until idle threads of other libraries stop spinning, which would slow down the next candidate.
    // libgomp spins for 300,000 pauses, up to 15 ms on current processors.
    if (one.peer) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::optional(us);
  });
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i]->time_us = summaries[i].median;
}

const Candidate* SideBySide::best(bool peer) const {
  const Candidate* found = nullptr;
  for (const Candidate& one : candidates_) {
    if (one.peer == peer && !one.extra && (found == nullptr || one.time_us < found->time_us)) found = &one;
  }
  return found;
}

}  // namespace kscout::bench
