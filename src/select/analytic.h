#pragma once
/// \file
/// Costs of configs without a model: the analytic time of our `gemm` schema (roofline and tile quantisation).
///
///     Analytic analytic({.provider = "native", .device = detect_cpu(), .rules = "default"});
///     const auto family = analytic.family(signature_of(problem));
///     std::vector<double> us = analytic.time_us(*family, problem);
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <kscout/family.h>
#include <kscout/selector.h>

namespace kscout {

class Analytic {
 public:
  /// Families enumerated by rules.
  explicit Analytic(const SelectorRequest& request);
  /// Families that `make` tells, called once per signature.
  Analytic(Device device, std::function<Family(const Signature&)> make);

  /// The configs for a signature: made on first use, then kept. Throws what making them throws. Thread-safe.
  std::shared_ptr<const Family> family(const Signature& signature) const;

  /// Microseconds per config of the family, NaN where the facts of device or config do not suffice. Serve
  /// rules are not asked.
  std::vector<double> time_us(const Family& family, const GemmProblem& problem) const;

  const Device& device() const noexcept { return device_; }

 private:
  Device device_;
  std::function<Family(const Signature&)> make_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Family>> families_;
};

}  // namespace kscout
