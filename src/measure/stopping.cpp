#include "measure/stopping.h"

#include <algorithm>

namespace kscout {

void Sampler::add(double sample_us, double spent_us) {
  samples_.push_back(sample_us);
  spent_us_ += spent_us;
  fastest_us_ = std::min(fastest_us_, sample_us);
}

Verdict Sampler::verdict() const {
  if (samples_.empty()) return Verdict::go_on;
  const bool tight = summary().relative_half_width() <= rule_.target;
  if (rule_.fixed > 0) {
    if (samples_.size() < rule_.fixed) return Verdict::go_on;
    return tight ? Verdict::tight : Verdict::spent;
  }
  if (fastest_us_ > rule_.best_us * rule_.hopeless) return Verdict::raced;
  if (samples_.size() >= 2 && fastest_us_ > rule_.best_us * rule_.race) return Verdict::raced;
  if (samples_.size() >= rule_.least && tight) return Verdict::tight;
  if (samples_.size() >= rule_.most || spent_us_ >= rule_.budget_us) return Verdict::spent;
  return Verdict::go_on;
}

}  // namespace kscout
