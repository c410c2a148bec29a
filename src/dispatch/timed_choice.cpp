
#include "dispatch/timed_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/version.h>

#include "core/fail.h"
#include "measure/measured_backend.h"
#include "measure/samples.h"
#include "measure/timing.h"
#include "op/operation.h"

namespace kscout {

namespace {

std::string identity_of(ProblemRef problem) {
  Problem identity = problem.value();
  identity.set_weight(1);
  return print(identity);
}

std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

StoredTiming timing_of(ProblemRef problem, std::string config_name, double time_us, Backend& on) {
  return {.problem = identity_of(problem),
          .config = std::move(config_name),
          .device = device_identity(on.device()),
          .driver = "",
          .version = KSCOUT_VERSION,
          .backend = std::string(on.name()),
          .time_us = time_us,
          .at = seconds_now()};
}

StoredDecision decision_of(ProblemRef problem, const KernelConfig& config, const Fastest& fastest,
                           Backend& on) {
  return {.problem = identity_of(problem),
          .config = config_name(signature_of(problem), config),
          .device = device_identity(on.device()),
          .driver = "",
          .version = KSCOUT_VERSION,
          .backend = std::string(on.name()),
          .time_us = fastest.time_us,
          .next_us = fastest.next_us,
          .timed = static_cast<std::int64_t>(fastest.timed),
          .at = seconds_now()};
}

namespace {

/// A sweep's protocol with smaller budgets, because a caller waits for the result.
constexpr Protocol kSearch{.prune_factor = 3, .contenders = 16, .rounds = 12, .rounds_budget_us = 8e4};

/// The instruments that all candidates share.
Instruments& instruments_of(std::span<const Candidate> candidates) {
  Instruments& shared = instruments_of(*candidates.front().backend);
  for (const Candidate& one : candidates) {
    if (&instruments_of(*one.backend) == &shared) continue;
    fail(Errc::unsupported,
         "backends {} and {}: an exhaustive search measures operands in one device's memory; register only "
         "one",
         candidates.front().backend->name(), one.backend->name());
  }
  return shared;
}

Protocol protocol_for(const Instruments& device) {
  Protocol protocol = kSearch;
  if (&device != &host_instruments()) protocol.slack_us = 0;  // a GPU's clock does not count lost time slices
  return protocol;
}

/// Whether results of the problem can be verified here.
bool can_open(ProblemBench& bench, ProblemRef problem) {
  try {
    bench.open(problem.value());
    return true;
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
    return false;
  }
}

/// First pass: positions of the verified candidates that may be the fastest.
std::vector<std::size_t> promising(ProblemBench& bench, const Protocol& protocol,
                                   std::span<const Candidate> candidates) {
  std::vector<double> times_us;
  double best_us = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    const Measurement measured = bench.coarse(candidate, best_us).measured;
    const bool right = measured.status == Status::ok || measured.status == Status::pruned_early;
    times_us.push_back(right ? measured.time_us : std::numeric_limits<double>::infinity());
    best_us = std::min(best_us, times_us.back());
  }
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < times_us.size(); ++i) {
    if (std::isfinite(times_us[i]) && times_us[i] <= prune_limit_us(protocol, best_us)) left.push_back(i);
  }
  return left;
}

}  // namespace

std::optional<Fastest> fastest_config(ProblemRef problem, std::span<const Candidate> candidates) {
  if (candidates.empty()) return std::nullopt;
  Instruments& device = instruments_of(candidates);
  const Protocol protocol = protocol_for(device);
  ProblemBench bench(protocol, 1, device);
  if (!can_open(bench, problem)) return std::nullopt;
  const auto left = promising(bench, protocol, candidates);
  std::vector<Candidate> contenders;
  for (const std::size_t i : left) contenders.push_back(candidates[i]);

  Fastest fastest;
  bench.contenders(contenders, [&](std::size_t i, const Outcome& outcome) {
    const Status status = outcome.measured.status;
    const double time_us = outcome.measured.time_us;
    if (status != Status::ok && status != Status::pruned_early) return;
    ++fastest.timed;
    if (status != Status::ok) return;  // pruned early: too few samples for next_us
    fastest.times_us.emplace_back(left[i], time_us);
    if (!(time_us >= fastest.time_us)) {  // true for the first one, too
      fastest.next_us = std::fmin(fastest.next_us, fastest.time_us);
      fastest.time_us = time_us;
      fastest.index = left[i];
    } else {
      fastest.next_us = std::fmin(fastest.next_us, time_us);
    }
  });
  if (std::isnan(fastest.time_us)) return std::nullopt;
  return fastest;
}

namespace {

/// A config is left out when each of its two untimed runs takes this many times the first contender's.
constexpr double kPruneFactor = 3;
constexpr std::size_t kMinRounds = 3, kMaxRounds = 101;

/// Memory of a backend, released by the destructor.
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
  std::unique_ptr<DeviceBytes> packed = nullptr;  ///< filter; null for a launch that packs nothing
};

std::vector<Contender> made_ready(Backend& backend, ProblemRef problem, std::span<const Choice> choices) {
  std::vector<Contender> ready;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    try {
      ready.push_back({i, backend.prepare(problem, choices[i].config)});
    } catch (const Error& error) {  // the kernel itself refuses the problem
      if (error.code() != Errc::unsupported) throw;
    }
  }
  return ready;
}

std::size_t bytes_of_c(ProblemRef problem) {
  return static_cast<std::size_t>(operation(problem.kind()).operands(problem).result().bytes());
}

/// The contender with the smallest median whose interval ends below that of the first contender; else the
/// first.
Fastest verdict(std::span<const Contender> contenders, std::span<const SampleSummary> timed) {
  const auto surely_faster = [&](const SampleSummary& one) { return one.high < timed[0].low; };
  std::size_t best = 0;
  for (std::size_t i = 1; i < timed.size(); ++i) {
    const SampleSummary& one = timed[i];
    if (surely_faster(one) && one.median < timed[best].median) best = i;
  }
  Fastest fastest{.index = contenders[best].position, .time_us = timed[best].median, .timed = timed.size()};
  for (std::size_t i = 0; i < timed.size(); ++i) {
    fastest.times_us.emplace_back(contenders[i].position, timed[i].median);
    if (i != best) fastest.next_us = std::fmin(fastest.next_us, timed[i].median);
  }
  return fastest;
}

}  // namespace

std::optional<Fastest> fastest_on(Backend& backend, ProblemRef problem, std::span<const Choice> choices,
                                  const Buffers& buffers, const RefineBudget& budget) {
  auto contenders = made_ready(backend, problem, choices);
  if (contenders.size() < 2) return std::nullopt;
  std::size_t workspace_bytes = 0;
  for (Contender& one : contenders) {
    workspace_bytes = std::max(workspace_bytes, one.launch->workspace_bytes());
    if (one.launch->packed_bytes() == 0) continue;
    one.packed = std::make_unique<DeviceBytes>(backend.memory(), one.launch->packed_bytes());
    one.launch->pack(buffers.operand[operation(problem.kind()).packable], one.packed->data());
  }
  const DeviceBytes workspace(backend.memory(), workspace_bytes), c(backend.memory(), bytes_of_c(problem));
  backend.memory().set(c.data(), std::byte{0}, bytes_of_c(problem), {});
  Buffers own = buffers;
  own.operand[operation(problem.kind()).operands(problem).result().at] = c.data();

  Instruments& clock = instruments_of(backend);
  const auto time_us = [&](Contender& one, int calls) {
    own.packed = one.packed ? one.packed->data() : nullptr;
    return clock.time_us(*one.launch, own, workspace.data(), calls);
  };
  for (Contender& one : contenders) {
    if (clock.loading_us() > 0) time_us(one, 1);
    one.expected_us = time_us(one, 1);
  }
  // Runs once more, because other load may have slowed one run down.
  const auto again = [&](Contender& one) { one.expected_us = std::min(one.expected_us, time_us(one, 1)); };
  again(contenders.front());
  const double limit_us = kPruneFactor * contenders.front().expected_us;
  for (Contender& one : contenders) {
    if (one.expected_us > limit_us) again(one);
  }
  std::erase_if(contenders, [&](const Contender& one) { return one.expected_us > limit_us; });

  const RoundsRule rule{.rounds = kMaxRounds, .budget_us = budget.seconds * 1e6};
  const auto timed = time_in_rounds(contenders.size(), rule, [&](std::size_t i) {
    Contender& one = contenders[i];
    return std::optional(time_us(one, static_cast<int>(calls_of_batch(clock.batch_us(), one.expected_us))));
  });
  if (timed.front().count < kMinRounds) return std::nullopt;
  return verdict(contenders, timed);
}

}  // namespace kscout
