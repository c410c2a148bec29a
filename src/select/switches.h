#pragma once
/// \file
/// Reads the environment variables that control the selectors of a running application.
///
///     const Switches switches = Switches::from_environment();
///     if (switches.off(ChoiceSource::model)) ...
///
/// KSCOUT_FORCE    comma-separated config names: each config is used for every problem that it can take and
///                 that has its types and layout
/// KSCOUT_DISABLE  comma-separated sources (cache, db, model, analytic), config names that are not used, and
///                 `guard`: the model's first config answers also far from the trained problems
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/thread_limit.h"
#include "select/model.h"

namespace kscout {

/// The configs that the variables may name. Configs of another provider are left to other selectors.
struct NameSpace {
  std::string provider;  ///< empty: any provider of a kernel library
  Device device;
  /// Its families' configs may be named even if today's rules exclude them. Null: none.
  const Model* model;
  std::string rules;  ///< rule set whose config names a suggestion may give, when there is no model
};

struct Switches {
  std::vector<NamedConfig> forced;
  std::vector<NamedConfig> disabled;
  std::uint32_t disabled_sources = 0;  ///< one bit per ChoiceSource
  bool guard_off = false;              ///< of the model (select/region.h)

  bool off(ChoiceSource source) const noexcept { return (disabled_sources >> static_cast<int>(source)) & 1U; }

  /// Throws invalid_argument that names the variable, the error and the nearest valid name.
  static Switches from_environment(const NameSpace& names);
};

/// 1 per config of a family, 0 for those that the variables or the thread limit exclude; empty when they
/// exclude none. A config that is disabled for a signature is disabled in the family of `model` (null: of no
/// model) that answers for the signature.
std::vector<std::uint8_t> allowed_configs(const Family& family, std::span<const NamedConfig> disabled,
                                          const ThreadLimit& limit = {}, const Model* model = nullptr);

/// Whether two signatures are equal except for `accumulate`: a config of one can run the other.
bool same_but_accumulate(Signature a, const Signature& b) noexcept;

}  // namespace kscout
