#include "measure/problem_bench.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include <kscout/error.h>

#include "measure/samples.h"
#include "measure/timing.h"
#include "op/operation.h"

namespace kscout {

namespace {

constexpr double kLongUs = 500;  // calls of this length need no warm-up call: they warm the caches themselves

/// How many samples pass 2 takes.
struct Thoroughness {
  /// Before the rounds, every config whose fastest sample is within this factor of the best gets another
  /// screening sample. The first screening sample is for all configs, because a lost time slice may have
  /// spoilt the sample of pass 1.
  std::vector<double> screening_factors;
  double contender_factor;     ///< configs within this factor of the best may become contenders
  bool second_look;            ///< those beyond it get another screening sample
  std::size_t min_contenders;  ///< minimum number of contenders, whatever their time
  std::int32_t min_rounds;     ///< fewer rounds are meaningless on a machine with other load
};
constexpr double kPatience = 2;       // rounds end at this multiple of their budget
constexpr std::size_t kPackings = 3;  // of one filter, to time them

const Thoroughness& thoroughness(double best_us) {
  static const Thoroughness usual{{6, 4}, 2.5, false, 12, 8}, of_dear_calls{{}, 1.15, true, 4, 3};
  return best_us < kDearUs ? usual : of_dear_calls;
}

/// Converts an exception of a backend to an outcome.
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

void ProblemBench::open(const Problem& problem) {
  problem_ = problem;
  const std::uint64_t seed = mix_hash(seed_, std::hash<Problem>()(problem));
  {
    const StopWatch watch(spent_.operands);
    operands_.make(problem, seed);
  }
  const StopWatch watch(spent_.verify);
  reference_ = make_reference(problem, operands_);
  seed_of_orders_ = static_cast<std::uint32_t>(seed);
  forget_fastest();
}

void ProblemBench::open(const Problem& problem, std::unique_ptr<Reference> reference) {
  problem_ = problem;
  reference_ = std::move(reference);
  seed_of_orders_ = static_cast<std::uint32_t>(mix_hash(seed_, std::hash<Problem>()(problem)));
  forget_fastest();
}

std::optional<double> ProblemBench::pack(Launch& launch) {
  if (launch.packed_bytes() == 0 || packed_for_ == &launch) return std::nullopt;
  const double us = device_.pack_us(launch, operands_.packable(), packed_.data());
  spent_.kernels += static_cast<std::int64_t>(us * 1e3);
  packed_for_ = &launch;
  return us;
}

double ProblemBench::setup_us(Launch& launch) {
  std::vector<double> samples;
  double sum_us = 0;
  while (samples.size() < kPackings && sum_us < kLongUs) {
    packed_for_ = nullptr;
    const auto us = pack(launch);
    if (!us) return launch.setup_us() > 0 ? launch.setup_us() : Measurement::unknown;
    samples.push_back(*us);
    sum_us += *us;
  }
  return summarise(samples).median;
}

double ProblemBench::timed_us(Launch& launch, int calls) {
  Buffers buffers = operands_.buffers();
  if (launch.packed_bytes() > 0) buffers.packed = packed_.data();
  const double us = device_.time_us(launch, buffers, workspace_.data(), calls);
  spent_.kernels += static_cast<std::int64_t>(us * calls * 1e3);
  slowed_ = slowed_ || device_.slowed();
  return us;
}

double ProblemBench::sample_us(Launch& launch, double expected_us) {
  if (protocol_.cache == CacheState::warm)
    return timed_us(launch, static_cast<int>(calls_of_batch(device_.batch_us(), expected_us)));
  {
    const StopWatch watch(spent_.flushes);
    operands_.evict_from_caches({packed_.data(), packed_.size()});
  }
  return timed_us(launch, 1);
}

void ProblemBench::record(const SampleSummary& summary, Measurement& m) const {
  m.time_us = summary.median;
  m.spread = summary.spread;
  m.repeats = static_cast<std::int32_t>(summary.count);
  m.noisy = slowed_ || !(summary.relative_half_width() <= protocol_.noisy_above);
}

void ProblemBench::repair() {
  operands_.repair();
  workspace_.resize(workspace_.size());
  packed_.resize(packed_.size());
  packed_for_ = nullptr;
}

bool ProblemBench::verify(const Candidate& candidate, Launch& launch, Outcome& outcome, double& first_us) {
  {
    const StopWatch watch(spent_.verify);
    workspace_.resize_workspace(launch.workspace_bytes());
    workspace_.poison();
    packed_.resize(launch.packed_bytes());
    packed_.poison();
    operands_.reset_c();
  }
  outcome.measured.setup_us = setup_us(launch);
  first_us = timed_us(launch, 1);
  const StopWatch watch(spent_.verify);
  const Verification verification = reference_->check(operands_.result());
  outcome.measured.error = verification.error;
  outcome.reason = damage();
  if (!outcome.reason.empty()) {
    repair();
  } else if (!(verification.error <= 1)) {
    outcome.reason = verification.where;
  } else if (probe_ && candidate.backend->is_library()) {
    outcome.reason = probe_->fault(*candidate.backend, candidate.config, problem_, seed_);
  }
  if (outcome.reason.empty()) return true;
  outcome.measured.status = Status::wrong;
  return false;
}

std::unique_ptr<Launch> ProblemBench::prepare_part(const Candidate& candidate, const Problem& part) {
  if (candidate.backend->is_library() || !candidate.backend->refusal(part, candidate.config).empty())
    return nullptr;
  auto launch = candidate.backend->prepare(part, candidate.config);
  if (launch->packed_bytes() > 0) return nullptr;
  workspace_.resize_workspace(std::max(workspace_.size(), launch->workspace_bytes()));
  return launch;
}

bool ProblemBench::is_hopeless_on_part(const Candidate& candidate, double best_us, Outcome& outcome) {
  // A part's time as a share of the whole differs among configs (docs/bench/few_configs.md).
  constexpr double kTooSlow = 1.6;
  if (protocol_.repeat > 0 || !fastest_ || !(best_us >= kDearUs)) return false;
  const Problem part = operation(problem_.op()).part_of(problem_);
  const double parts = flop_count(problem_) / flop_count(part);
  if (!(parts > 1)) return false;
  const auto launch = prepare_part(candidate, part);
  if (!launch) return false;
  double us = timed_us(*launch, 1);
  if (parts * us > kTooSlow * best_us) {
    // Other work may have slowed this call, or it paid for fresh memory: the fastest config's part beside it
    // shows that.
    const auto fastest = prepare_part(*fastest_, part);
    if (!fastest) return false;
    double beside_us = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 2; ++i) {
      beside_us = std::min(beside_us, timed_us(*fastest, 1));
      us = std::min(us, timed_us(*launch, 1));
    }
    best_us = std::max(best_us, parts * beside_us);
  }
  us *= parts;
  if (!damage().empty()) {
    repair();  // the whole problem shows what is wrong
    return false;
  }
  if (us <= kTooSlow * best_us) return false;
  record(summarise(std::span(&us, 1)), outcome.measured);
  outcome.measured.status = Status::pruned_early;
  return true;
}

void ProblemBench::time_coarsely(Launch& launch, double first_us, double best_us, Outcome& outcome) {
  const bool fixed = protocol_.repeat > 0;
  std::vector<double> samples;
  double expected_us = first_us;
  const bool may_have_loaded = !fixed && first_us >= kLongUs;
  const int warmup = may_have_loaded ? std::max(protocol_.warmup, 1) : protocol_.warmup;
  if (fixed || first_us < kLongUs + device_.loading_us()) {
    for (int i = 0; i < warmup; ++i) expected_us = std::min(expected_us, timed_us(launch, 1));
  }
  if (!fixed && expected_us >= kLongUs) {
    samples.push_back(expected_us);
  } else {
    // The first calls of a short kernel are not representative (sleeping threads, untrained branch
    // predictors).
    if (expected_us < device_.batch_us()) expected_us = sample_us(launch, expected_us);
    for (int i = 0; i < (fixed ? protocol_.repeat : 1); ++i)
      samples.push_back(expected_us = sample_us(launch, expected_us));
    // A sample of one call is longer by any pause of the thread that starts it: only the median of three
    // rules a kernel out.
    const bool one_call = !fixed && protocol_.cache == CacheState::cold;
    while (one_call && samples.size() < 3 && samples.front() > prune_limit_us(protocol_, best_us))
      samples.push_back(sample_us(launch, expected_us));
  }
  record(summarise(samples), outcome.measured);
  if (!fixed && outcome.measured.time_us > prune_limit_us(protocol_, best_us))
    outcome.measured.status = Status::pruned_early;
  if (std::string text = damage(); !text.empty()) {
    // The kernel was verified, but later wrote out of bounds: none of its times counts.
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
    slowed_ = false;
    if (is_hopeless_on_part(candidate, best_us, outcome)) return outcome;
    const auto launch = candidate.backend->prepare(problem_, candidate.config);
    packed_for_ = nullptr;
    double first_us = 0;
    if (verify(candidate, *launch, outcome, first_us)) time_coarsely(*launch, first_us, best_us, outcome);
    if (outcome.measured.status == Status::ok && outcome.measured.time_us < fastest_us_) {
      fastest_us_ = outcome.measured.time_us;
      fastest_ = candidate;
    }
    return outcome;
  } catch (const std::exception& error) {
    return failed(error, 1, protocol_.cache);
  }
}

struct ProblemBench::Contender {
  std::unique_ptr<Launch> launch;
  double fastest_us = std::numeric_limits<double>::infinity();
  std::vector<double> screening_us;  ///< samples before the rounds
  std::vector<double> setup_us;      ///< a packing before each sample; empty: the launch packs nothing
  SampleSummary in_rounds;
  Outcome outcome;
  bool active = false;

  /// Cost of a sample: a batch, and before it the call that warms the caches.
  double sample_cost_us(double batch_us) const {
    const double packing_us = setup_us.empty() ? 0 : summarise(setup_us).median;
    if (fastest_us >= kLongUs) return packing_us + fastest_us;
    return packing_us + fastest_us + std::max(fastest_us, batch_us);
  }
};

std::vector<ProblemBench::Contender> ProblemBench::prepare_contenders(std::span<const Candidate> candidates) {
  std::vector<Contender> all(candidates.size());
  std::size_t workspace = 0, packed = 0;
  packed_for_ = nullptr;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Contender& one = all[i];
    try {
      one.launch = candidates[i].backend->prepare(problem_, candidates[i].config);
      workspace = std::max(workspace, one.launch->workspace_bytes());
      packed = std::max(packed, one.launch->packed_bytes());
      one.active = true;
    } catch (const std::exception& error) {
      one.outcome = failed(error, 2, protocol_.cache);
    }
  }
  workspace_.resize(workspace);
  packed_.resize(packed);
  return all;
}

std::optional<double> ProblemBench::take_sample(Contender& one) {
  try {
    if (const auto us = pack(*one.launch)) one.setup_us.push_back(*us);
    // The previous config left its own data in the caches: one untimed call replaces it.
    const bool known_long = std::isfinite(one.fastest_us) && one.fastest_us >= kLongUs;
    if (protocol_.cache == CacheState::warm && !known_long)
      one.fastest_us = std::min(one.fastest_us, timed_us(*one.launch, 1));
    const double took_us = sample_us(*one.launch, one.fastest_us);
    one.fastest_us = std::min(one.fastest_us, took_us);
    return took_us;
  } catch (const std::exception& error) {
    one.outcome = failed(error, 2, protocol_.cache);
  }
  one.active = false;
  return std::nullopt;
}

bool ProblemBench::guards_intact(Contender& one) {
  std::string text = damage();
  if (text.empty()) return true;
  repair();
  one.outcome = {{.status = Status::wrong}, std::move(text)};
  one.active = false;
  return false;
}

double ProblemBench::fastest_us(std::span<const Contender> all, std::span<const std::size_t> of) {
  double best_us = std::numeric_limits<double>::infinity();
  for (const std::size_t i : of) best_us = std::min(best_us, all[i].fastest_us);
  return best_us;
}

std::vector<std::size_t> ProblemBench::screen(std::span<Contender> all) {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].active) left.push_back(i);
  }
  std::mt19937 random(seed_of_orders_);
  const auto sample_beyond = [&](double limit_us) {
    std::ranges::shuffle(left, random);
    for (const std::size_t i : left) {
      if (all[i].fastest_us <= limit_us) continue;
      const auto us = take_sample(all[i]);
      if (us && guards_intact(all[i])) all[i].screening_us.push_back(*us);
    }
    std::erase_if(left, [&](std::size_t i) { return !all[i].active; });
  };
  const auto keep_within = [&](double factor) {
    const double best_us = fastest_us(all, left);
    std::erase_if(left, [&](std::size_t i) { return all[i].fastest_us > factor * best_us; });
  };
  sample_beyond(0);
  const Thoroughness& how = thoroughness(fastest_us(all, left));
  for (const double factor : how.screening_factors) {
    keep_within(factor);
    sample_beyond(0);
  }
  if (how.second_look) sample_beyond(how.contender_factor * fastest_us(all, left));
  keep_within(how.contender_factor);
  std::ranges::sort(left, {}, [&](std::size_t i) { return all[i].fastest_us; });
  return left;
}

RoundsRule ProblemBench::fit_to_budget(std::span<const Contender> all, std::vector<std::size_t>& left) const {
  const Thoroughness& how = thoroughness(fastest_us(all, left));
  double round_us = 0;
  std::size_t kept = 0;
  for (; kept < left.size() && kept < static_cast<std::size_t>(protocol_.contenders); ++kept) {
    const double more_us = round_us + all[left[kept]].sample_cost_us(device_.batch_us());
    if (kept >= how.min_contenders && more_us * protocol_.rounds > protocol_.rounds_budget_us) break;
    round_us = more_us;
  }
  left.resize(kept);
  const double rounds = protocol_.rounds_budget_us / std::max(round_us, 1e-3);
  const std::int32_t least = std::min(how.min_rounds, protocol_.rounds);
  return {.rounds = static_cast<std::size_t>(std::clamp<double>(rounds, least, protocol_.rounds)),
          .least = static_cast<std::size_t>(least),
          .budget_us = kPatience * protocol_.rounds_budget_us,
          .seed = seed_of_orders_};
}

void ProblemBench::contenders(std::span<const Candidate> candidates,
                              const std::function<void(std::size_t, const Outcome&)>& answer) {
  slowed_ = false;
  std::vector<Contender> all = prepare_contenders(candidates);
  std::vector<std::size_t> left = screen(all);
  const RoundsRule rule = fit_to_budget(all, left);
  const auto timed =
      time_in_rounds(left.size(), rule, [&](std::size_t i) { return take_sample(all[left[i]]); });
  for (std::size_t i = 0; i < left.size(); ++i) all[left[i]].in_rounds = timed[i];
  // Guards are checked once after the rounds, because on a GPU the check takes longer than a short kernel.
  // One more call of each contender then finds the culprit.
  if (!damage().empty()) {
    repair();
    bool found = false;
    for (const std::size_t i : left) {
      if (all[i].active && take_sample(all[i])) found |= !guards_intact(all[i]);
    }
    for (const std::size_t i : left) {
      if (found || !all[i].active) continue;
      all[i].outcome = {{.status = Status::wrong}, "it or another config in its rounds wrote out of bounds"};
      all[i].active = false;
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    Outcome& outcome = all[i].outcome;
    outcome.measured.pass = 2;
    outcome.measured.cache = protocol_.cache;
    if (all[i].active) {
      if (!all[i].setup_us.empty()) {
        outcome.measured.setup_us = summarise(all[i].setup_us).median;
      } else if (all[i].launch->setup_us() > 0) {
        outcome.measured.setup_us = all[i].launch->setup_us();
      }
      const bool contended = all[i].in_rounds.count > 0;
      record(contended ? all[i].in_rounds : summarise(all[i].screening_us), outcome.measured);
      if (!contended) outcome.measured.status = Status::pruned_early;
    }
    answer(i, outcome);
  }
}

}  // namespace kscout
