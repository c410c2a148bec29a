#pragma once
/// \file
/// Compiles a family's applicability rules for use by many threads.
///
///     const CompiledFamily compiled(family);
///     SelectScratch scratch;                                    // one per thread
///     const auto applicable = compiled.applicable(problem, {}, scratch);   // 1 = can take the problem
///     const auto able = compiled.able(problem, {}, scratch);    // positions of those configs
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <kscout/family.h>

#include "family/rules.h"
#include "features/schema.h"
#include "forest/family_forest.h"
#include "forest/shortlist.h"

namespace kscout {

/// One config of a family with its predictions by one source of the fallback chain.
struct Ranked {
  std::uint32_t config = 0;  ///< position in the family, and after its configs among the listed ones
  double score = 0;          ///< higher is better
  double tflops = std::numeric_limits<double>::quiet_NaN();
  double time_us = std::numeric_limits<double>::quiet_NaN();
  double setup_us = std::numeric_limits<double>::quiet_NaN();

  /// Time of one of `calls` calls with its share of the set-up; an unknown set-up counts as 0. calls = 0:
  /// set-up is not charged.
  double cost_us(double calls) const noexcept {
    return calls > 0 && setup_us > 0 ? time_us + setup_us / calls : time_us;
  }
};

/// Memory of one thread for selecting in families: grows on first use, then is reused for any family.
struct SelectScratch {
  ApplicabilityRules::Scratch rules;
  std::vector<std::uint8_t> applicable, kept, answers;
  ShortlistScratch shortlist;
  FamilyForest::Scratch forest;
  std::vector<std::uint32_t> able;
  std::vector<double> scores;
  std::vector<Ranked> ranked, charged;
  std::vector<KernelConfig> listed;  ///< that the kernels' library names for the problem
  /// Of the last Model::rank(): the position of the library's first suggestion and the prediction for it;
  /// nothing and NaN when it is not among the configs that can be chosen.
  std::optional<std::uint32_t> first_suggestion;
  double suggestion_tflops = std::numeric_limits<double>::quiet_NaN();
};

class CompiledFamily {
 public:
  /// The family must outlive this object. Throws invalid_argument when a rule does not compile.
  explicit CompiledFamily(const Family& family);

  const Family& family() const noexcept { return *family_; }
  std::size_t size() const noexcept { return rules_.configs(); }
  KernelConfig config(std::size_t i) const noexcept { return family_->configs[i]; }
  /// 1 for each config that is on every shortlist: the default config and a library's own suggestions.
  std::span<const std::uint8_t> always() const noexcept { return always_; }
  /// Position of the library's first suggestion; nothing when the family has none.
  std::optional<std::uint32_t> first_suggestion() const noexcept { return first_suggestion_; }

  /// 1 for each config that every applicability rule admits for the problem and that `allowed` (empty: all)
  /// does not exclude; in memory of `scratch`.
  std::span<const std::uint8_t> applicable(ProblemRef problem, std::span<const std::uint8_t> allowed,
                                           SelectScratch& scratch) const;
  /// Evaluates the rules for the configs `asked` only: scratch.applicable marks those that can take the
  /// problem, and no others. Returns their number.
  std::size_t applicable_among(ProblemRef problem, std::span<const std::uint32_t> asked,
                               SelectScratch& scratch) const;
  /// The positions of applicable(), ascending; in memory of `scratch`.
  std::span<const std::uint32_t> able(ProblemRef problem, std::span<const std::uint8_t> allowed,
                                      SelectScratch& scratch) const;

 private:
  const Family* family_;
  ApplicabilityRules rules_;
  std::vector<std::uint8_t> always_;
  std::optional<std::uint32_t> first_suggestion_;
};

/// The positions of marked elements, ascending; in memory of `positions`.
std::span<const std::uint32_t> marked(std::span<const std::uint8_t> marks,
                                      std::vector<std::uint32_t>& positions);

/// Fills `best` with the configs of highest score, best first; ties keep family order. scores[i] belongs to
/// configs[i]. Returns their number, which is smaller than best.size() when there are fewer configs.
std::size_t keep_best(std::span<const std::uint32_t> configs, std::span<const double> scores,
                      std::span<Ranked> best) noexcept;

}  // namespace kscout
