#pragma once
/// \file
/// A family made ready to be asked by many threads: serve rules compiled.
///
///     const ReadyFamily ready(family);
///     AskScratch scratch;                                    // one per thread
///     const auto serves = ready.serving(problem, scratch);   // 1 = can take the problem
///     const std::size_t best = keep_best(scores, serves, ranked);
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <kscout/family.h>

#include "family/rules.h"
#include "features/schema.h"
#include "forest/factored.h"
#include "forest/shortlist.h"

namespace kscout {

/// One config of a family and what a link of the chain says about it.
struct Ranked {
  std::uint32_t config = 0;  ///< position in the family
  double score = 0;          ///< higher is better
  double tflops = std::numeric_limits<double>::quiet_NaN();
  double time_us = std::numeric_limits<double>::quiet_NaN();
};

/// A forest ready for all configs of a family, told apart from every other of the process: memory of one must
/// not be used for another that took its address.
struct FastForest {
  template <class... Args>
  explicit FastForest(Args&&... args) : forest(std::forward<Args>(args)...), id(next_id()) {}
  static std::uint64_t next_id() noexcept;

  FactoredForest forest;
  std::uint64_t id;
};

/// Memory of one thread that asks families: grows on first use, then is reused for any of them.
struct AskScratch {
  ServeRules::Scratch rules;
  Schema::Rows::Scratch rows;
  std::vector<std::uint8_t> serves, kept;
  ShortlistScratch shortlist;
  std::vector<double> scores, problem_row;
  std::vector<ScoredConfig> scored;
  std::vector<Ranked> ranked;

  /// Memory for a forest: made on first use, kept for the forests used last.
  FactoredForest::Scratch& of(const FastForest& forest);

 private:
  static constexpr std::size_t kForests = 16;
  struct OfForest {
    std::uint64_t id;
    FactoredForest::Scratch scratch;
  };
  std::vector<OfForest> forests_;
  std::size_t oldest_ = 0;
};

class ReadyFamily {
 public:
  /// The family must outlive it. Throws invalid_argument when a rule does not compile.
  explicit ReadyFamily(const Family& family);

  const Family& family() const noexcept { return *family_; }
  std::size_t size() const noexcept { return rules_.configs(); }
  KernelConfig config(std::size_t i) const noexcept { return family_->configs[i]; }
  /// 1 per config that is on every shortlist: the default config, and a library's own suggestions.
  std::span<const std::uint8_t> always() const noexcept { return always_; }

  /// 1 per config that every serve rule admits for the problem, and that `allowed` (empty: all) does not
  /// exclude; in memory of `scratch`.
  std::span<const std::uint8_t> serving(ProblemRef problem, std::span<const std::uint8_t> allowed,
                                        AskScratch& scratch) const;

 private:
  const Family* family_;
  ServeRules rules_;
  std::vector<std::uint8_t> always_;
};

/// Fills `best` with the highest scores among the configs that serve, best first; ties keep family order.
/// How many: fewer than asked when fewer serve.
std::size_t keep_best(std::span<const double> scores, std::span<const std::uint8_t> serves,
                      std::span<Ranked> best) noexcept;

}  // namespace kscout
