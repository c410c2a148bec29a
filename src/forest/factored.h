#pragma once
/// \file
/// The hot path of selection: one problem x all configs of a family.
///
///     const FactoredForest fast(forest, schema, family.device, family.configs, family.traits);
///     FactoredForest::Scratch scratch(fast);                        // one per thread
///     std::array<ScoredConfig, 3> best;
///     const auto found = fast.top(problem, allowed, best, scratch);  // best[0 .. *found), exact scores
///
/// Splits on the config alone are settled when it is made, splits on the problem alone once per call,
/// features of both once per distinct tuple of what they read (features/factored_schema.h); the rest is a
/// SlicedForest. Scores and order equal Schema::evaluate and Forest::predict of every config, bit for bit;
/// ties keep the order of the family. Cost: docs/bench/select.md.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>
#include <kscout/traits.h>

#include "features/factored_schema.h"
#include "forest/sliced.h"

namespace kscout {

struct ScoredConfig {
  std::uint32_t config = 0;  ///< position in the family
  double score = 0;          ///< as Forest::predict
};

class FactoredForest {
 public:
  /// Throws as Schema::evaluate and SlicedForest do. Keeps nothing of the arguments.
  FactoredForest(const Forest& forest, const Schema& schema, const Device& device, const ConfigTable& configs,
                 std::span<const Traits> traits, Best best = Best::highest);

  /// Memory of a call; for one FactoredForest and one thread at a time.
  class Scratch {
   public:
    explicit Scratch(const FactoredForest& forest);
    /// How the last call served the trees.
    const SlicedForest::Counts& counts() const noexcept { return rows_.counts(); }

   private:
    friend class FactoredForest;
    Schema::Factored::Scratch features_;
    SlicedForest::Scratch rows_;
    std::vector<const double*> values_;   ///< by feature
    std::vector<std::uint64_t> allowed_;  ///< by row
    std::vector<std::uint32_t> first_;    ///< by row: its first allowed config, as a position in configs_
    std::vector<ScoredRow> best_;
    std::vector<double> scores_;
  };

  std::size_t size() const noexcept { return row_of_.size(); }
  /// Configs that the forest can tell apart.
  std::size_t distinct() const noexcept { return sliced_.rows(); }

  /// The best configs of those with allowed[i] != 0, best first, ties in the order of the family; returns how
  /// many: out.size() or the number of allowed configs. Nothing when the schema cannot describe the problem.
  /// allowed.size() == size(). Allocates nothing; any number of threads, each with its own scratch.
  std::optional<std::size_t> top(ProblemRef problem, std::span<const std::uint8_t> allowed,
                                 std::span<ScoredConfig> out, Scratch& scratch) const noexcept;

  /// Exact scores of all configs, allowed or not; false when the schema cannot describe the problem.
  /// out.size() == size(). Several times the cost of top().
  bool scores(ProblemRef problem, std::span<double> out, Scratch& scratch) const noexcept;

 private:
  /// Configs whose features agree whatever the problem: one row of the sliced forest.
  struct Rows {
    std::vector<std::uint32_t> row_of;  ///< by config
    std::vector<std::uint32_t> first,
        configs;  ///< configs of row r: configs[first[r]] .. configs[first[r + 1])
    SlicedRows sliced;
  };
  static Rows make_rows(const Schema::Factored& features, std::size_t feature_count,
                        std::span<const std::uint8_t> wanted);
  FactoredForest(const Forest& forest, Schema::Factored features, std::span<const std::uint8_t> wanted,
                 Best best);
  FactoredForest(const Forest& forest, Schema::Factored&& features, Rows rows,
                 std::span<const std::uint8_t> wanted, Best best);
  static Schema::Factored without_rows(Schema::Factored&& features);

  bool evaluate(ProblemRef problem, Scratch& scratch) const noexcept;
  std::size_t list_configs(std::span<const std::uint8_t> allowed, std::span<const ScoredRow> rows,
                           std::span<ScoredConfig> out, Scratch& scratch) const noexcept;

  Schema::Factored features_;
  std::vector<std::uint8_t> wanted_;  ///< features that the forest asks
  std::vector<std::uint32_t> row_of_, first_, configs_;
  SlicedForest sliced_;
};

}  // namespace kscout
