#include "select/analytic.h"

#include <algorithm>
#include <limits>

#include "features/schema.h"

namespace kscout {

Analytic::Analytic(SelectorRequest request) : request_(std::move(request)) {}

std::shared_ptr<const Family> Analytic::family(const Signature& signature) const {
  const std::lock_guard lock(mutex_);
  for (const auto& family : families_) {
    if (family->signature == signature) return family;
  }
  families_.push_back(std::make_shared<Family>(enumerate({.provider = request_.provider,
                                                          .signature = signature,
                                                          .device = request_.device,
                                                          .rules = request_.rules,
                                                          .filter = {}})));
  return families_.back();
}

std::vector<double> Analytic::time_us(const Family& family, const GemmProblem& problem) const {
  std::vector<double> time_us(family.configs.size());
  analytic_times_us(problem, family.device, family.configs, family.traits, time_us);
  std::vector<std::uint8_t> serves;
  serving_configs(family, problem, serves);
  for (std::size_t i = 0; i < time_us.size(); ++i) {
    if (serves[i] == 0) time_us[i] = std::numeric_limits<double>::infinity();
  }
  return time_us;
}

}  // namespace kscout
