#pragma once
/// \file
/// Costs of configs without a model: the analytic time of our schemas `gemm` and `conv` (roofline and tile
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
#include "select/compiled_family.h"

namespace kscout {

/// The family of a signature; throws unsupported when there is none.
using FamilySource = std::function<Family(const Signature&)>;

/// Families enumerated by the rule set of a request.
FamilySource families_by_rules(SelectorRequest request);

class Analytic {
 public:
  /// What is known of one signature: its compiled family, or why there is none.
  struct Entry {
    Signature signature;
    Family family;
    std::optional<CompiledFamily> compiled;
    std::optional<Schema::Rows> costs;
    std::vector<std::uint8_t> allowed;  ///< 0 = the environment or the limit of threads
                                        ///< excludes the config; empty: none
    std::optional<Error> error;         ///< what enumerate() threw
    const Entry* next = nullptr;
  };

  /// `disabled`, and what `limit` does not admit: configs that are never chosen. `costs`: false gives the
  /// default config its turn at once.
  explicit Analytic(FamilySource make, std::vector<NamedConfig> disabled = {}, ThreadLimit limit = {},
                    bool costs = true);
  ~Analytic();
  Analytic(const Analytic&) = delete;
  Analytic& operator=(const Analytic&) = delete;

  /// Made on first use, then kept; later calls take no lock. Throws only when memory runs out.
  const Entry& entry(const Signature& signature) const;

  /// Fills `best` with the applicable, allowed configs of least cost, those of unknown cost last; when
  /// all are unknown, the default config and then family order. `source` says which of the two it was. How
  /// many. The entry has a compiled family.
  std::size_t rank(const Entry& entry, ProblemRef problem, std::span<Ranked> best, SelectScratch& scratch,
                   ChoiceSource& source) const;

 private:
  const Entry* find(const Signature& signature) const noexcept;

  FamilySource make_;
  std::vector<NamedConfig> disabled_;
  ThreadLimit limit_;
  bool costs_;
  mutable ForkMutex adding_{ForkLevel::selector};
  mutable std::atomic<const Entry*> first_ = nullptr;  ///< a list that only grows in front
};

}  // namespace kscout
