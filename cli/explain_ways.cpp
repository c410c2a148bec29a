#include "explain_ways.h"

#include <algorithm>
#include <cmath>

#include <kscout/error.h>

#include "dispatch/padding.h"
#include "family/legality.h"
#include "provider/hopper/hopper_time.h"

namespace kscout::cli {

std::vector<OtherWay> other_ways(const Selector& selector, ProblemRef problem) {
  std::vector<OtherWay> ways;
  const Device& device = selector.device();
  if (device.kind != DeviceKind::gpu || device.vendor != "NVIDIA") return ways;
  const auto forms = aligned_forms(problem);
  if (forms.empty()) return ways;
  if (problem.is<GemmProblem>()) {
    for (const auto& [hopper, us] : hopper_times(problem.as<GemmProblem>(), device)) {
      const KernelConfig config = hopper.kernel_config();
      if (!rule_refusal(problem, config, device).empty()) continue;
      ways.push_back({config_name(signature_of(problem), config), print(problem), 0, us});
      break;
    }
  }
  for (const auto& [form, chosen_for] : forms) {
    try {
      const Choice choice = selector.select(chosen_for);
      const double copies_us = predicted_copies_us(form, device);
      ways.push_back({config_name(signature_of(form.problem), choice.config), print(form.problem), copies_us,
                      choice.time_us + copies_us});
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  std::erase_if(ways, [](const OtherWay& way) { return !std::isfinite(way.time_us); });
  std::ranges::stable_sort(ways, {}, &OtherWay::time_us);
  return ways;
}

}  // namespace kscout::cli
