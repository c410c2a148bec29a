#pragma once
/// \file
/// Ranks configs without a model, by the analytic time of the default schemas (roofline and tile
/// quantisation).
///
///     const Analytic analytic(families_by_rules({.provider = "native", .device = detect_cpu()}));
///     const Analytic::Entry& entry = analytic.entry(signature_of(problem));
///     if (entry.compiled) count = analytic.rank(entry, problem, best, scratch, source);
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/fork_mutex.h"
#include "core/thread_limit.h"
#include "expr/few_rows.h"
#include "select/compiled_family.h"

namespace kscout {

/// Returns the family of a signature; throws unsupported when there is none.
using FamilySource = std::function<Family(const Signature&)>;

/// Enumerates families by the rule set of a request.
FamilySource families_by_rules(SelectorRequest request);

class Analytic {
 public:
  /// The compiled family of one signature, or the reason why there is none.
  struct Entry {
    Signature signature;
    Family family;
    std::optional<CompiledFamily> compiled;
    std::optional<expr::FewRows> costs;  ///< one feature: the analytic time
    /// 0 = the environment or the thread limit excludes the config; empty: all are allowed.
    std::vector<std::uint8_t> allowed;
    std::optional<Error> error;  ///< the error of enumerate()
    const Entry* next = nullptr;
  };

  /// Configs of `disabled` and configs that `limit` does not admit are never chosen. `costs` = false skips
  /// the costs and uses the default config.
  explicit Analytic(FamilySource make, std::vector<NamedConfig> disabled = {}, ThreadLimit limit = {},
                    bool costs = true);
  ~Analytic();
  Analytic(const Analytic&) = delete;
  Analytic& operator=(const Analytic&) = delete;

  /// The entry of a signature, created at first use; later calls take no lock. Throws only when memory runs
  /// out.
  const Entry& entry(const Signature& signature) const;

  /// Fills `best` with the applicable, allowed configs of lowest cost; configs of unknown cost come last.
  /// When all costs are unknown, the default config comes first, then family order. `source` receives the
  /// source of the order: analytic costs or default config. Returns the number of configs. The entry must
  /// have a compiled family.
  std::size_t rank(const Entry& entry, ProblemRef problem, std::span<Ranked> best, SelectScratch& scratch,
                   ChoiceSource& source) const;

 private:
  const Entry* find(const Signature& signature) const noexcept;

  FamilySource make_;
  std::vector<NamedConfig> disabled_;
  ThreadLimit limit_;
  bool costs_;
  mutable ForkMutex adding_{ForkLevel::selector};
  mutable std::atomic<const Entry*> first_ = nullptr;  ///< a list that grows only at its front
};

}  // namespace kscout
