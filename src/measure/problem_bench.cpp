#include "measure/problem_bench.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <kscout/error.h>

#include "measure/clock.h"
#include "measure/rounds.h"
#include "measure/stopping.h"

namespace kscout {

namespace {

constexpr double kLongUs = 500;       // calls this long need no warm-up call: they warm the caches themselves
constexpr double kBelievedUs = 5000;  // a first call this long is believed when it is hopeless,
constexpr double kFirstCall = 1.5;    // also if caches and a neighbour cost it this factor
constexpr std::size_t kCoarseLeast = 2, kCoarseMost = 5;
constexpr std::size_t kDisturbedLeast = 4;  // nobody is raced out on fewer samples of a disturbed machine
constexpr std::size_t kTightLeast = 6, kTightMost = 41;  // 6 = fewest samples with a 95 % interval

/// Rounds of one problem lie tenths of a second apart when its calls are long: a contender is not lost to one
/// bad moment.
constexpr Hurdle kHurdles[] = {{2, 1.5}, {4, 1.25}};

void record(const SampleSummary& summary, Verdict verdict, bool disturbed, Measurement& m) {
  m.time_us = summary.median;
  m.spread = summary.spread;
  m.repeats = static_cast<std::int32_t>(summary.count);
  m.noisy = disturbed || verdict == Verdict::spent;
}

/// An exception of a backend becomes an outcome.
Outcome failed(const std::exception& error, std::int32_t pass, CacheState cache) {
  Outcome outcome;
  outcome.measured.pass = pass;
  outcome.measured.cache = cache;
  const auto* const ours = dynamic_cast<const Error*>(&error);
  outcome.measured.status = ours && ours->code() == Errc::unsupported ? Status::unsupported : Status::crashed;
  outcome.reason = error.what();
  return outcome;
}

}  // namespace

void ProblemBench::open(const GemmProblem& problem) {
  problem_ = problem;
  {
    const StopWatch watch(spent_.operands);
    operands_.make(problem, mix_hash(seed_, fields_hash(problem)));
  }
  const StopWatch watch(spent_.verify);
  reference_ = std::make_unique<GemmReference>(problem, operands_);
}

double ProblemBench::call_us(Launch& launch) {
  const double us = device_.time_us(launch, operands_.buffers(), workspace_.data(), 1);
  steady_.called(static_cast<std::int64_t>(us * 1e3));
  return us;
}

TimedCalls ProblemBench::run_batch(Launch& launch, double expected_us) {
  const bool cold = protocol_.cache == CacheState::cold;
  if (cold) {
    const StopWatch watch(spent_.flushes);
    operands_.evict_from_caches();
  }
  const double calls = cold ? 1 : calls_of_batch(device_.batch_us(), expected_us);
  const double us = device_.time_us(launch, operands_.buffers(), workspace_.data(), static_cast<int>(calls));
  return {us, us * calls};
}

TimedCalls ProblemBench::sample(Launch& launch, double expected_us, bool& disturbed) {
  const TimedCalls taken = steady_.take(
      launch, [&] { return run_batch(launch, expected_us); }, disturbed);
  if (device_.slowed()) disturbed = true;
  return taken;
}

TimeSpent ProblemBench::spent() const noexcept {
  TimeSpent all = spent_;
  all.kernels = steady_.called_ns();
  all.waits = steady_.waited_ns();
  return all;
}

std::string ProblemBench::damage() const {
  if (std::string text = operands_.damage(); !text.empty()) return text;
  if (const std::string text = workspace_.damage(); !text.empty()) return "the workspace was written " + text;
  return {};
}

void ProblemBench::repair() {
  operands_.repair();
  workspace_.resize(workspace_.size());
}

bool ProblemBench::verify(Launch& launch, Outcome& outcome, double& first_us) {
  {
    const StopWatch watch(spent_.verify);
    workspace_.resize(launch.workspace_bytes());
    workspace_.poison();
    operands_.reset_c();
  }
  first_us = call_us(launch);
  const StopWatch watch(spent_.verify);
  const Verification verification = reference_->check(operands_.c());
  outcome.measured.error = verification.error;
  outcome.reason = damage();
  if (!outcome.reason.empty()) {
    repair();
  } else if (!(verification.error <= 1)) {
    outcome.reason = verification.where;
  }
  if (outcome.reason.empty()) return true;
  outcome.measured.status = Status::wrong;
  return false;
}

void ProblemBench::time_coarsely(Launch& launch, double first_us, double best_us, Outcome& outcome) {
  const bool fixed = protocol_.repeat > 0;
  if (!fixed && first_us > kBelievedUs && first_us > kFirstCall * protocol_.hopeless * best_us) {
    outcome.measured.status = Status::raced;
    outcome.measured.time_us = first_us;
    outcome.measured.repeats = 1;
    return;
  }
  double expected_us = first_us;
  if (fixed || first_us < kLongUs) {
    for (int i = 0; i < protocol_.warmup; ++i) expected_us = std::min(expected_us, call_us(launch));
    // The first calls of a short kernel say little about the next ones (sleeping threads, branches to learn).
    if (expected_us < device_.batch_us()) expected_us = run_batch(launch, expected_us).call_us;
  }
  Sampler sampler({.fixed = static_cast<std::size_t>(protocol_.repeat),
                   .least = kCoarseLeast,
                   .most = kCoarseMost,
                   .target = protocol_.coarse_target,
                   .budget_us = protocol_.coarse_budget_us,
                   .best_us = best_us,
                   .hopeless = protocol_.hopeless,
                   .race = protocol_.race});
  // One sample can be spoilt by whatever the system does; two independent ones seldom are.
  sampler.seen(std::min(expected_us, first_us / kFirstCall));
  bool disturbed = false;
  const auto doubtful = [&] {
    return sampler.verdict() == Verdict::raced && disturbed && sampler.count() < kDisturbedLeast;
  };
  while (sampler.verdict() == Verdict::go_on || doubtful()) {
    const TimedCalls batch = sample(launch, expected_us, disturbed);
    expected_us = batch.call_us;
    sampler.add(batch.call_us, batch.all_us);
  }
  record(sampler.summary(), sampler.verdict(), disturbed, outcome.measured);
  if (sampler.verdict() == Verdict::raced) outcome.measured.status = Status::raced;
  if (std::string text = damage(); !text.empty()) {
    // Right once, and then out of bounds: no time of it counts.
    repair();
    const double error = outcome.measured.error;
    outcome.measured = {.status = Status::wrong, .cache = protocol_.cache, .error = error};
    outcome.reason = std::move(text);
  }
}

Outcome ProblemBench::coarse(const Candidate& candidate, double best_us) {
  try {
    Outcome outcome;
    outcome.measured.cache = protocol_.cache;
    const auto launch = candidate.backend->prepare(problem_, candidate.config);
    double first_us = 0;
    if (verify(*launch, outcome, first_us)) time_coarsely(*launch, first_us, best_us, outcome);
    return outcome;
  } catch (const std::exception& error) {
    return failed(error, 1, protocol_.cache);
  }
}

struct ProblemBench::Contender {
  std::unique_ptr<Launch> launch;
  double expected_us = 0;
  bool disturbed = false;
  Outcome outcome;
};

std::vector<ProblemBench::Contender> ProblemBench::prepare_contenders(std::span<const Candidate> candidates) {
  std::vector<Contender> all;
  std::size_t workspace = 0;
  for (const auto& [backend, config] : candidates) {
    Contender& one = all.emplace_back();
    try {
      one.launch = backend->prepare(problem_, config);
      workspace = std::max(workspace, one.launch->workspace_bytes());
    } catch (const std::exception& error) {
      one.outcome = failed(error, 2, protocol_.cache);
    }
  }
  workspace_.resize(workspace);
  return all;
}

std::optional<TimedCalls> ProblemBench::sample_contender(Contender& one) {
  if (!one.launch) return std::nullopt;
  try {
    // The config before this one left its own traces in the caches: one call makes them ours.
    if (protocol_.cache == CacheState::warm && one.expected_us < kLongUs)
      one.expected_us = call_us(*one.launch);
    const TimedCalls batch = sample(*one.launch, one.expected_us, one.disturbed);
    one.expected_us = batch.call_us;
    std::string text = damage();
    if (text.empty()) return batch;
    repair();
    one.outcome = {{.status = Status::wrong}, std::move(text)};
  } catch (const std::exception& error) {
    one.outcome = failed(error, 2, protocol_.cache);
  }
  return std::nullopt;
}

void ProblemBench::contenders(std::span<const Candidate> candidates,
                              const std::function<void(std::size_t, const Outcome&)>& answer) {
  std::vector<Contender> all = prepare_contenders(candidates);
  const RoundsRule rule{.least = kTightLeast,
                        .most = kTightMost,
                        .target = protocol_.tight_target,
                        .budget_us = protocol_.tight_budget_us,
                        .hurdles = kHurdles};
  const auto timed =
      time_in_rounds(all.size(), rule, [&](std::size_t i) { return sample_contender(all[i]); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    Measurement& measured = all[i].outcome.measured;
    if (timed[i].verdict != Verdict::go_on)
      record(timed[i].summary, timed[i].verdict, all[i].disturbed, measured);
    if (timed[i].verdict == Verdict::raced) measured.status = Status::raced;
    measured.pass = 2;
    measured.cache = protocol_.cache;
    answer(i, all[i].outcome);
  }
}

}  // namespace kscout
