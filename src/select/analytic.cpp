#include "select/analytic.h"

#include <cmath>
#include <limits>

#include "features/schema.h"

namespace kscout {

Analytic::Analytic(const SelectorRequest& request)
    : Analytic(request.device, [request](const Signature& signature) {
        return enumerate({.provider = request.provider,
                          .signature = signature,
                          .device = request.device,
                          .rules = request.rules,
                          .filter = {}});
      }) {}

Analytic::Analytic(Device device, std::function<Family(const Signature&)> make)
    : device_(std::move(device)), make_(std::move(make)) {}

std::shared_ptr<const Family> Analytic::family(const Signature& signature) const {
  const std::lock_guard lock(mutex_);
  for (const auto& family : families_) {
    if (family->signature == signature) return family;
  }
  families_.push_back(std::make_shared<Family>(make_(signature)));
  return families_.back();
}

std::vector<double> Analytic::time_us(const Family& family, const GemmProblem& problem) const {
  std::vector<double> time_us(family.configs.size());
  analytic_times_us(problem, family.device, family.configs, family.traits, time_us);
  for (double& us : time_us) {
    if (!std::isfinite(us)) us = std::numeric_limits<double>::quiet_NaN();  // a fact of 0: a clock of 0 MHz
  }
  return time_us;
}

}  // namespace kscout
