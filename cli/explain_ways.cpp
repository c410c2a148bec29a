#include "explain_ways.h"

#include <algorithm>
#include <cmath>

#include <kscout/error.h>

#include "dispatch/any_address.h"
#include "dispatch/padding.h"

namespace kscout::cli {

std::vector<OtherWay> other_ways(const Selector& selector, ProblemRef problem) {
  std::vector<OtherWay> ways;
  const Device& device = selector.device();
  if (device.kind != DeviceKind::gpu || device.vendor != "NVIDIA") return ways;
  const auto forms = aligned_forms(problem);
  if (forms.empty()) return ways;
  if (const auto direct = any_address_choices(problem, device); !direct.empty())
    ways.push_back({Selector::name(problem, direct.front()), print(problem), 0, direct.front().time_us});
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
