#include "sweep/problem_bench.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <kscout/error.h>

#include "measure/clock.h"

namespace kscout {

namespace {

constexpr double kBatchUs = 20;       // a batch is at least this long: clock and call cost stay below 0.3 %
constexpr double kMostCalls = 256;    // of one batch
constexpr double kLongUs = 500;       // calls this long need no warm-up call: they warm the caches themselves
constexpr double kBelievedUs = 5000;  // a first call this long is believed when it is hopeless,
constexpr double kFirstCall = 1.5;    // also if caches and a neighbour cost it this factor
constexpr std::int64_t kMostPatienceNs = 2'000'000'000;  // what calm moments may save up for waiting
constexpr std::size_t kCoarseLeast = 2, kCoarseMost = 5;
constexpr std::size_t kDisturbedLeast = 4;  // nobody is raced out on fewer samples of a disturbed machine
constexpr std::size_t kTightLeast = 6, kTightMost = 41;  // 6 = fewest samples with a 95 % interval

/// A contender that has `samples` and whose fastest is slower than `factor` times the fastest of all is out.
/// Rounds of one problem lie tenths of a second apart when its calls are long: a contender is not lost to one
/// bad moment.
struct Hurdle {
  std::size_t samples;
  double factor;
};
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

void ProblemBench::called(std::int64_t took_ns) noexcept {
  spent_.kernels += took_ns;
  patience_ns_ =
      std::min(patience_ns_ + static_cast<std::int64_t>(protocol_.patience * static_cast<double>(took_ns)),
               kMostPatienceNs);
}

double ProblemBench::call_us(Launch& launch) {
  const std::int64_t begin = now_ns();
  launch.run(operands_.buffers(), workspace_.data());
  const std::int64_t took = now_ns() - begin;
  called(took);
  return static_cast<double>(took) / 1e3;
}

ProblemBench::Batch ProblemBench::run_batch(Launch& launch, double expected_us) {
  if (protocol_.cache == CacheState::cold) {
    const StopWatch watch(spent_.flushes);
    operands_.evict_from_caches();
  }
  const double calls = protocol_.cache == CacheState::cold
                           ? 1
                           : std::clamp(std::ceil(kBatchUs / std::max(expected_us, 1e-3)), 1.0, kMostCalls);
  const GemmBuffers buffers = operands_.buffers();
  const std::int64_t begin = now_ns();
  for (int i = 0; i < static_cast<int>(calls); ++i) launch.run(buffers, workspace_.data());
  const double all_us = static_cast<double>(now_ns() - begin) / 1e3;
  return {all_us / calls, all_us};
}

bool ProblemBench::wait_until_steady(Launch& launch) {
  const std::int64_t begin = now_ns(), deadline = begin + patience_ns_;
  bool steady = steadiness_.steady(launch.probe_us());
  while (!steady && now_ns() < deadline) steady = steadiness_.steady(launch.probe_us());
  const std::int64_t took = now_ns() - begin;
  spent_.waits += took;
  patience_ns_ -= took;
  return steady;
}

ProblemBench::Batch ProblemBench::sample(Launch& launch, double expected_us, bool& disturbed) {
  Batch fastest{.call_us = std::numeric_limits<double>::infinity()};
  for (;;) {
    const bool steady_before = wait_until_steady(launch);
    const Batch batch = run_batch(launch, expected_us);
    const auto took = static_cast<std::int64_t>(batch.all_us * 1e3);
    if (batch.call_us < fastest.call_us) fastest = batch;
    const bool steady = steady_before && steadiness_.steady(launch.probe_us());
    if (steady || patience_ns_ <= 0) {
      called(took);
      if (steady) return batch;
      disturbed = true;
      return fastest;
    }
    spent_.waits += took;
    patience_ns_ -= took;
  }
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
    if (expected_us < kBatchUs) expected_us = run_batch(launch, expected_us).call_us;
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
    const Batch batch = sample(launch, expected_us, disturbed);
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
  explicit Contender(const StoppingRule& rule) : sampler(rule) {}

  std::unique_ptr<Launch> launch;
  Sampler sampler;
  double expected_us = 0;
  bool disturbed = false;
  Outcome outcome;
  bool active = false;

  void leave(Verdict verdict) {
    record(sampler.summary(), verdict, disturbed, outcome.measured);
    if (verdict == Verdict::raced) outcome.measured.status = Status::raced;
    active = false;
  }
};

std::vector<ProblemBench::Contender> ProblemBench::prepare_contenders(std::span<const KernelConfig> configs) {
  const StoppingRule rule{.least = kTightLeast,
                          .most = kTightMost,
                          .target = protocol_.tight_target,
                          .budget_us = std::numeric_limits<double>::infinity()};
  std::vector<Contender> all;
  std::size_t workspace = 0;
  for (const KernelConfig& config : configs) {
    Contender& one = all.emplace_back(rule);
    try {
      one.launch = backend_.prepare(problem_, config);
      workspace = std::max(workspace, one.launch->workspace_bytes());
      one.active = true;
    } catch (const std::exception& error) {
      one.outcome = failed(error, 2, protocol_.cache);
    }
  }
  workspace_.resize(workspace);
  return all;
}

double ProblemBench::sample_contender(Contender& one) {
  try {
    // The config before this one left its own traces in the caches: one call makes them ours.
    if (protocol_.cache == CacheState::warm && one.expected_us < kLongUs)
      one.expected_us = call_us(*one.launch);
    const Batch batch = sample(*one.launch, one.expected_us, one.disturbed);
    one.expected_us = batch.call_us;
    one.sampler.add(batch.call_us, batch.all_us);
    if (std::string text = damage(); !text.empty()) {
      repair();
      one.outcome = {{.status = Status::wrong}, std::move(text)};
      one.active = false;
    }
    return batch.all_us;
  } catch (const std::exception& error) {
    one.outcome = failed(error, 2, protocol_.cache);
    one.active = false;
    return 0;
  }
}

void ProblemBench::contenders(std::span<const KernelConfig> configs,
                              const std::function<void(std::size_t, const Outcome&)>& answer) {
  std::vector<Contender> all = prepare_contenders(configs);
  double spent_us = 0;
  for (std::size_t round = 1; std::ranges::any_of(all, &Contender::active); ++round) {
    double fastest_us = std::numeric_limits<double>::infinity(), best_high = fastest_us;
    for (Contender& one : all) {
      if (!one.active) continue;
      spent_us += sample_contender(one);
      fastest_us = std::min(fastest_us, one.sampler.fastest());
      if (round >= kTightLeast) best_high = std::min(best_high, one.sampler.summary().high);
    }
    const auto hurdle = std::ranges::find(kHurdles, round, &Hurdle::samples);
    const bool over = round >= kTightLeast && spent_us >= protocol_.tight_budget_us;
    for (Contender& one : all) {
      if (!one.active) continue;
      const Verdict verdict = one.sampler.verdict();
      // Surely slower than another one: how much slower need not be known tightly.
      const bool beaten = round >= kTightLeast && one.sampler.summary().low > best_high;
      if (hurdle != std::end(kHurdles) && one.sampler.fastest() > hurdle->factor * fastest_us) {
        one.leave(Verdict::raced);
      } else if (verdict != Verdict::go_on || beaten || over) {
        one.leave(verdict != Verdict::go_on ? verdict : Verdict::spent);
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].outcome.measured.pass = 2;
    all[i].outcome.measured.cache = protocol_.cache;
    answer(i, all[i].outcome);
  }
}

}  // namespace kscout
