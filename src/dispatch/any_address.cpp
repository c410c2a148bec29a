#include "dispatch/any_address.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "provider/joint.h"
#include "select/decision_db.h"

namespace kscout {

namespace {

/// By analytic cost; made at first use. References stay valid.
const Selector& selector_of(std::string_view provider, const Device& device) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, Selector> made;
  const std::scoped_lock lock(mutex);
  const std::pair key(std::string(provider), device_identity(device));
  if (const auto known = made.find(key); known != made.end()) return known->second;
  return made.emplace(key, Selector::analytic({.provider = key.first, .device = device})).first->second;
}

bool is_asked(std::string_view name, Op op, const Device& device) {
  const Provider& of = provider(name);
  const auto ops = of.ops();
  return of.built_in() && !joint_provider(name) && name != default_provider(op, device) &&
         of.runs_on(device) && std::ranges::find(ops, op) != ops.end();
}

}  // namespace

std::vector<Choice> any_address_choices(ProblemRef problem, const Device& device) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  std::vector<Choice> found;
  for (const std::string_view name : provider_names()) {
    if (!is_asked(name, problem.op(), device)) continue;
    const auto takes_any = [&](const Choice& choice) {
      // Stored decisions may be of other providers.
      return choice.config.space->provider == name && !std::isnan(choice.time_us) &&
             provider(name).traits(signature_of(problem), choice.config, device).alignment == 1;
    };
    try {
      for (const Choice& choice : selector_of(name, device).rank(problem, kAll)) {
        if (takes_any(choice)) found.push_back(choice);
      }
    } catch (const Error& error) {  // it has no kernels of the signature, or none that applies
      if (error.code() != Errc::unsupported) throw;
    }
  }
  std::ranges::stable_sort(found, {}, &Choice::time_us);
  return found;
}

}  // namespace kscout
