#include "dispatch/refine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/version.h>

#include "measure/clock.h"
#include "measure/samples.h"

namespace kscout {
namespace {

constexpr double kHopeless = 3;  ///< times the first contender's untimed run
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
  double first_us = 0;
  std::vector<double> samples_us = {};
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

double timed_us(Launch& launch, const GemmBuffers& buffers, void* workspace) {
  const auto begin = now_ns();
  launch.run(buffers, workspace);
  return static_cast<double>(now_ns() - begin) / 1e3;
}

/// The one whose median is taken: the smallest that is surely below that of the first, else the first.
Refined verdict(std::span<const Contender> contenders) {
  std::vector<SampleSummary> summaries;
  for (const Contender& one : contenders) summaries.push_back(summarise(one.samples_us));
  std::size_t best = 0;
  for (std::size_t i = 1; i < summaries.size(); ++i) {
    if (summaries[i].high < summaries[0].low && summaries[i].median < summaries[best].median) best = i;
  }
  double next_us = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    if (i != best) next_us = std::fmin(next_us, summaries[i].median);
  }
  return {contenders[best].position, summaries[best].median, next_us, contenders.size()};
}

}  // namespace

std::optional<Refined> fastest_on(Backend& backend, const GemmProblem& problem,
                                  std::span<const Choice> choices, const GemmBuffers& buffers,
                                  const RefineBudget& budget) {
  if (&backend.memory() != &host_memory()) return std::nullopt;  // a clock here does not see a device's queue
  auto contenders = made_ready(backend, problem, choices);
  if (contenders.size() < 2) return std::nullopt;
  std::size_t workspace_bytes = 0;
  for (const auto& one : contenders)
    workspace_bytes = std::max(workspace_bytes, one.launch->workspace_bytes());
  const DeviceBytes workspace(backend.memory(), workspace_bytes), c(backend.memory(), bytes_of_c(problem));
  std::fill_n(static_cast<std::byte*>(c.data()), bytes_of_c(problem), std::byte{0});
  GemmBuffers own = buffers;
  own.c = c.data();

  for (Contender& one : contenders) one.first_us = timed_us(*one.launch, own, workspace.data());
  const double limit_us = kHopeless * contenders.front().first_us;
  std::erase_if(contenders, [&](const Contender& one) { return one.first_us > limit_us; });

  double left_us = budget.seconds * 1e6, round_us = 0;
  for (std::size_t round = 0; round < kMostRounds && round_us <= left_us; ++round) {
    round_us = 0;
    for (Contender& one : contenders) {
      one.samples_us.push_back(timed_us(*one.launch, own, workspace.data()));
      round_us += one.samples_us.back();
    }
    left_us -= round_us;
  }
  if (contenders.front().samples_us.size() < kLeastRounds) return std::nullopt;
  return verdict(contenders);
}

StoredDecision decision_of(const GemmProblem& problem, const Choice& choice, const Refined& refined,
                           const Device& device) {
  GemmProblem identity = problem;
  identity.weight = 1;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.problem = print(identity),
          .config = config_name(signature_of(problem), choice.config),
          .device = device_identity(device),
          .driver = "",
          .version = KSCOUT_VERSION,
          .time_us = refined.time_us,
          .next_us = refined.next_us,
          .timed = static_cast<std::int64_t>(refined.timed),
          .at = std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

}  // namespace kscout
