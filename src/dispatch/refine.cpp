#include "dispatch/refine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <kscout/error.h>

#include "measure/batch.h"
#include "measure/instruments.h"
#include "measure/rounds.h"

namespace kscout {
namespace {

/// A config whose untimed runs, two of them, take so many times the first contender's is hopeless.
constexpr double kHopeless = 3;
constexpr std::size_t kLeastRounds = 3, kMostRounds = 101;

/// Memory of a backend.
class DeviceBytes {
 public:
  DeviceBytes(Memory& memory, std::size_t bytes)
      : memory_(memory), data_(memory.allocate(std::max<std::size_t>(bytes, 1))) {}
  ~DeviceBytes() { memory_.release(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* data() const noexcept { return data_; }

 private:
  Memory& memory_;
  void* data_;
};

struct Contender {
  std::size_t position;
  std::unique_ptr<Launch> launch;
  double expected_us = 0;
};

std::vector<Contender> made_ready(Backend& backend, const GemmProblem& problem,
                                  std::span<const Choice> choices) {
  std::vector<Contender> ready;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    try {
      ready.push_back({i, backend.prepare(problem, choices[i].config)});
    } catch (const Error& error) {  // a kernel that itself refuses the problem
      if (error.code() != Errc::unsupported) throw;
    }
  }
  return ready;
}

std::size_t bytes_of_c(const GemmProblem& problem) {
  return static_cast<std::size_t>(
      std::ceil(static_cast<double>(operand_elements(problem).c) * bytes_per_element(problem.dtype_c)));
}

/// The one whose median is taken: the smallest that is surely below that of the first, else the first.
Fastest verdict(std::span<const Contender> contenders, std::span<const SampleSummary> timed) {
  const auto surely_faster = [&](const SampleSummary& one) { return one.high < timed[0].low; };
  std::size_t best = 0;
  for (std::size_t i = 1; i < timed.size(); ++i) {
    const SampleSummary& one = timed[i];
    if (surely_faster(one) && one.median < timed[best].median) best = i;
  }
  Fastest fastest{.index = contenders[best].position, .time_us = timed[best].median, .timed = timed.size()};
  for (std::size_t i = 0; i < timed.size(); ++i) {
    if (i != best) fastest.next_us = std::fmin(fastest.next_us, timed[i].median);
  }
  return fastest;
}

}  // namespace

std::optional<Fastest> fastest_on(Backend& backend, const GemmProblem& problem,
                                  std::span<const Choice> choices, const GemmBuffers& buffers,
                                  const RefineBudget& budget) {
  auto contenders = made_ready(backend, problem, choices);
  if (contenders.size() < 2) return std::nullopt;
  std::size_t workspace_bytes = 0;
  for (const auto& one : contenders)
    workspace_bytes = std::max(workspace_bytes, one.launch->workspace_bytes());
  const DeviceBytes workspace(backend.memory(), workspace_bytes), c(backend.memory(), bytes_of_c(problem));
  backend.memory().set(c.data(), std::byte{0}, bytes_of_c(problem), {});
  GemmBuffers own = buffers;
  own.c = c.data();

  Instruments& clock = backend.instruments();
  const auto time_us = [&](Contender& one, int calls) {
    return clock.time_us(*one.launch, own, workspace.data(), calls);
  };
  for (Contender& one : contenders) {
    if (clock.loading_us() > 0) time_us(one, 1);
    one.expected_us = time_us(one, 1);
  }
  // The machine may have done something else during one run.
  const auto again = [&](Contender& one) { one.expected_us = std::min(one.expected_us, time_us(one, 1)); };
  again(contenders.front());
  const double limit_us = kHopeless * contenders.front().expected_us;
  for (Contender& one : contenders) {
    if (one.expected_us > limit_us) again(one);
  }
  std::erase_if(contenders, [&](const Contender& one) { return one.expected_us > limit_us; });

  const RoundsRule rule{.rounds = kMostRounds, .budget_us = budget.seconds * 1e6};
  const auto timed = time_in_rounds(contenders.size(), rule, [&](std::size_t i) {
    Contender& one = contenders[i];
    return std::optional(time_us(one, static_cast<int>(calls_of_batch(clock.batch_us(), one.expected_us))));
  });
  if (timed.front().count < kLeastRounds) return std::nullopt;
  return verdict(contenders, timed);
}

}  // namespace kscout
