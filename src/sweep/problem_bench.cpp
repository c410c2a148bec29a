#include "sweep/problem_bench.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <kscout/error.h>

#include "measure/clock.h"

namespace kscout {

namespace {

constexpr double kBatchUs = 20;       // a batch is at least this long: clock and call cost stay below 0.3 %
constexpr double kMostCalls = 256;    // of one batch
constexpr double kLongUs = 5000;      // calls this long need no warm-up call: the verified one was theirs
constexpr double kBelievedUs = 1000;  // a first call this long is believed when it is hopeless
constexpr std::size_t kCoarseLeast = 3, kCoarseMost = 11;
constexpr std::size_t kTightLeast = 6, kTightMost = 41;  // 6 = fewest samples with a 95 % interval

void record(const SampleSummary& summary, Verdict verdict, Measurement& m) {
  m.time_us = summary.median;
  m.spread = summary.spread;
  m.repeats = static_cast<std::int32_t>(summary.count);
  m.noisy = verdict == Verdict::spent;
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
  const std::int64_t begin = now_ns();
  launch.run(operands_.buffers(), workspace_.data());
  const std::int64_t took = now_ns() - begin;
  spent_.kernels += took;
  return static_cast<double>(took) / 1e3;
}

double ProblemBench::sample_us(Launch& launch, double expected_us, double& spent_us) {
  if (protocol_.cache == CacheState::cold) {
    {
      const StopWatch watch(spent_.flushes);
      operands_.evict_from_caches();
    }
    return spent_us = call_us(launch);
  }
  const int calls =
      static_cast<int>(std::clamp(std::ceil(kBatchUs / std::max(expected_us, 1e-3)), 1.0, kMostCalls));
  const GemmBuffers buffers = operands_.buffers();
  const std::int64_t begin = now_ns();
  for (int i = 0; i < calls; ++i) launch.run(buffers, workspace_.data());
  const std::int64_t took = now_ns() - begin;
  spent_.kernels += took;
  spent_us = static_cast<double>(took) / 1e3;
  return spent_us / calls;
}

std::string ProblemBench::damage() const {
  if (const std::string text = operands_.damage(); !text.empty()) return text;
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
  if (!fixed && first_us > kBelievedUs && first_us > protocol_.hopeless * best_us) {
    outcome.measured.status = Status::raced;
    outcome.measured.time_us = first_us;
    outcome.measured.repeats = 1;
    return;
  }
  double expected_us = first_us;
  if (fixed || first_us < kLongUs) {
    for (int i = 0; i < protocol_.warmup; ++i) expected_us = call_us(launch);
  }
  Sampler sampler({.fixed = static_cast<std::size_t>(protocol_.repeat),
                   .least = kCoarseLeast,
                   .most = kCoarseMost,
                   .target = protocol_.coarse_target,
                   .budget_us = protocol_.coarse_budget_us,
                   .best_us = best_us,
                   .hopeless = protocol_.hopeless,
                   .race = protocol_.race});
  while (sampler.verdict() == Verdict::go_on) {
    double spent_us = 0;
    expected_us = sample_us(launch, expected_us, spent_us);
    sampler.add(expected_us, spent_us);
  }
  record(sampler.summary(), sampler.verdict(), outcome.measured);
  if (sampler.verdict() == Verdict::raced) outcome.measured.status = Status::raced;
  if (std::string text = damage(); !text.empty()) {
    // Right once, and then out of bounds: no time of it counts.
    repair();
    const double error = outcome.measured.error;
    outcome.measured = {.status = Status::wrong, .cache = protocol_.cache, .error = error};
    outcome.reason = std::move(text);
  }
}

Outcome ProblemBench::coarse(const KernelConfig& config, double best_us) {
  try {
    Outcome outcome;
    outcome.measured.cache = protocol_.cache;
    const auto launch = backend_.prepare(problem_, config);
    double first_us = 0;
    if (verify(*launch, outcome, first_us)) time_coarsely(*launch, first_us, best_us, outcome);
    return outcome;
  } catch (const std::exception& error) {
    return failed(error, 1, protocol_.cache);
  }
}

struct ProblemBench::Contender {
  std::unique_ptr<Launch> launch;
  std::optional<Sampler> sampler;
  double expected_us = 0;
  Outcome outcome;
  bool active = false;
};

void ProblemBench::contenders(std::span<const KernelConfig> configs,
                              const std::function<void(std::size_t, const Outcome&)>& answer) {
  const StoppingRule rule{.least = kTightLeast,
                          .most = kTightMost,
                          .target = protocol_.tight_target,
                          .budget_us = protocol_.tight_budget_us / static_cast<double>(configs.size())};
  std::vector<Contender> all(configs.size());
  std::size_t workspace = 0;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    Contender& one = all[i];
    one.sampler.emplace(rule);
    try {
      one.launch = backend_.prepare(problem_, configs[i]);
      workspace = std::max(workspace, one.launch->workspace_bytes());
      one.active = true;
    } catch (const std::exception& error) {
      one.outcome = failed(error, 2, protocol_.cache);
    }
  }
  workspace_.resize(workspace);
  const auto sample = [&](Contender& one) {
    // The config before this one left its own traces in the caches: one call makes them ours.
    if (protocol_.cache == CacheState::warm && one.expected_us < kLongUs)
      one.expected_us = call_us(*one.launch);
    double spent_us = 0;
    one.expected_us = sample_us(*one.launch, one.expected_us, spent_us);
    one.sampler->add(one.expected_us, spent_us);
    if (std::string text = damage(); !text.empty()) {
      repair();
      one.outcome = {{.status = Status::wrong}, std::move(text)};
      one.active = false;
    }
  };
  for (bool any = true; any;) {
    any = false;
    double best_high = std::numeric_limits<double>::infinity();
    for (Contender& one : all) {
      if (!one.active) continue;
      try {
        sample(one);
      } catch (const std::exception& error) {
        one.outcome = failed(error, 2, protocol_.cache);
        one.active = false;
      }
      if (one.sampler->count() >= kTightLeast) best_high = std::min(best_high, one.sampler->summary().high);
    }
    for (Contender& one : all) {
      if (!one.active) continue;
      const Verdict verdict = one.sampler->verdict();
      // Surely slower than another one: how much slower need not be known tightly.
      const bool beaten = one.sampler->count() >= kTightLeast && one.sampler->summary().low > best_high;
      if (verdict == Verdict::go_on && !beaten) {
        any = true;
        continue;
      }
      record(one.sampler->summary(), verdict == Verdict::go_on ? Verdict::spent : verdict,
             one.outcome.measured);
      one.active = false;
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].outcome.measured.pass = 2;
    all[i].outcome.measured.cache = protocol_.cache;
    answer(i, all[i].outcome);
  }
}

}  // namespace kscout
