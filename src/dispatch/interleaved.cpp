#include "dispatch/interleaved.h"

#include "measure/clock.h"

namespace kscout {

std::vector<SampleSummary> time_interleaved(std::span<const std::function<void()>> calls, double seconds) {
  constexpr std::size_t kLeastRounds = 5, kMostRounds = 1000;
  std::vector<std::vector<double>> samples(calls.size());
  const auto deadline =
      now_ns() + static_cast<std::int64_t>(seconds * 1e9 * static_cast<double>(calls.size()));
  for (std::size_t round = 0; round < kMostRounds && (round < kLeastRounds || now_ns() < deadline); ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto begin = now_ns();
      calls[i]();
      samples[i].push_back(static_cast<double>(now_ns() - begin) / 1e3);
    }
  }
  std::vector<SampleSummary> summaries;
  summaries.reserve(calls.size());
  for (const auto& s : samples) summaries.push_back(summarise(s));
  return summaries;
}

}  // namespace kscout
