#include "measure/rounds.h"

#include <algorithm>

namespace kscout {

namespace {

struct Runner {
  explicit Runner(const StoppingRule& rule) : sampler(rule) {}

  Sampler sampler;
  TimedInRounds result;
  bool active = true;

  void leave(Verdict verdict) {
    result = {sampler.summary(), verdict};
    active = false;
  }
};

/// One sample of each that is still in; microseconds of all.
double run_round(std::vector<Runner>& all,
                 const std::function<std::optional<TimedCalls>(std::size_t)>& sample) {
  double spent_us = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].active) continue;
    if (const auto batch = sample(i)) {
      all[i].sampler.add(batch->call_us, batch->all_us);
      spent_us += batch->all_us;
    } else {
      all[i].active = false;
    }
  }
  return spent_us;
}

/// Takes out who cannot win any more.
void race(std::vector<Runner>& all, const RoundsRule& rule, std::size_t round) {
  double fastest_us = std::numeric_limits<double>::infinity(), best_high = fastest_us;
  for (const Runner& one : all) {
    if (!one.active) continue;
    fastest_us = std::min(fastest_us, one.sampler.fastest());
    best_high = std::min(best_high, one.sampler.summary().high);
  }
  const auto hurdle = std::ranges::find(rule.hurdles, round, &Hurdle::samples);
  for (Runner& one : all) {
    if (!one.active) continue;
    if (hurdle != rule.hurdles.end() && one.sampler.fastest() > hurdle->factor * fastest_us) {
      one.leave(Verdict::raced);
    } else if (round >= rule.least && one.sampler.summary().low > best_high) {
      // Surely slower than another one: how much slower need not be known tightly.
      const Verdict verdict = one.sampler.verdict();
      one.leave(verdict == Verdict::go_on ? Verdict::spent : verdict);
    }
  }
}

}  // namespace

std::vector<TimedInRounds> time_in_rounds(
    std::size_t count, const RoundsRule& rule,
    const std::function<std::optional<TimedCalls>(std::size_t)>& sample) {
  const StoppingRule each{.least = rule.least,
                          .most = rule.most,
                          .target = rule.target,
                          .budget_us = std::numeric_limits<double>::infinity()};
  std::vector<Runner> all(count, Runner(each));
  double spent_us = 0;
  for (std::size_t round = 1; std::ranges::any_of(all, &Runner::active); ++round) {
    const double round_us = run_round(all, sample);
    spent_us += round_us;
    if (rule.rivals) race(all, rule, round);
    const bool over = rule.strict ? spent_us + round_us > rule.budget_us
                                  : round >= rule.least && spent_us >= rule.budget_us;
    for (Runner& one : all) {
      if (!one.active) continue;
      if (const Verdict verdict = one.sampler.verdict(); verdict != Verdict::go_on) {
        one.leave(verdict);
      } else if (over) {
        one.leave(Verdict::spent);
      }
    }
  }
  std::vector<TimedInRounds> results;
  results.reserve(count);
  for (const Runner& one : all) results.push_back(one.result);
  return results;
}

}  // namespace kscout
