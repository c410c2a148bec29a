#include "measure/rounds.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "measure/clock.h"

namespace kscout {

std::vector<SampleSummary> time_in_rounds(std::size_t count, const RoundsRule& rule,
                                          const std::function<std::optional<double>(std::size_t)>& sample) {
  std::mt19937 random(rule.seed);
  std::vector<std::size_t> left(count);
  std::iota(left.begin(), left.end(), 0);
  std::vector<TurnSample> samples;
  double spent_us = 0, longest_us = 0;
  for (std::size_t round = 0; round < rule.rounds && !left.empty(); ++round) {
    if (round >= rule.least && spent_us + longest_us > rule.budget_us) break;
    std::ranges::shuffle(left, random);
    const std::int64_t begin = now_ns();
    std::vector<std::size_t> failed;
    for (const std::size_t i : left) {
      if (const auto us = sample(i)) {
        samples.push_back({i, *us});
      } else {
        failed.push_back(i);
      }
    }
    for (const std::size_t i : failed) {
      std::erase(left, i);
      std::erase_if(samples, [&](const TurnSample& one) { return one.rival == i; });
    }
    const double round_us = static_cast<double>(now_ns() - begin) / 1e3;
    spent_us += round_us;
    longest_us = std::max(longest_us, round_us);
  }
  return without_drift(samples, count);
}

}  // namespace kscout
