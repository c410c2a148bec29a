#pragma once
/// \file
/// The environment variables that steer the selectors of a running application.
///
///     const Switches switches = Switches::from_environment();
///     if (switches.off(ChoiceSource::model)) ...
///
/// KSCOUT_FORCE    configs by name, separated by commas: each answers every problem of its types and layout
///                 that it can take
/// KSCOUT_DISABLE  sources (cache, db, model, analytic) and configs by name, separated by commas, that are
/// not
///                 asked or chosen
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/thread_limit.h"

namespace kscout {

/// Which configs the switches may name. Those of another provider are left to other selectors.
struct NameSpace {
  std::string provider;  ///< empty: whatever a kernel library holds
  Device device;
  std::span<const Family> families;  ///< whose configs may be named whatever the rules say today
  std::string rules;                 ///< of the names that messages suggest, when there are no families
};

struct Switches {
  std::vector<NamedConfig> forced;
  std::vector<NamedConfig> disabled;
  std::uint32_t disabled_sources = 0;  ///< a bit per ChoiceSource

  bool off(ChoiceSource source) const noexcept { return (disabled_sources >> static_cast<int>(source)) & 1U; }

  /// Throws invalid_argument that names the variable, what is wrong, and the nearest valid name.
  static Switches from_environment(const NameSpace& names);
};

/// 1 per config of a family, 0 for those that the switches or the limit exclude; empty when they exclude
/// none.
std::vector<std::uint8_t> allowed_configs(const Family& family, std::span<const NamedConfig> disabled,
                                          const ThreadLimit& limit = {});

/// Equal but for reading C: a config of one serves the other.
bool same_but_accumulate(Signature a, const Signature& b) noexcept;

}  // namespace kscout
