#pragma once
/// \file
/// Finds good configs of a problem among many while few of them are evaluated.
///
///     const SearchSpace space(legal_configs);
///     Searcher searcher(/*seed=*/42);
///     const SearchResult found = searcher.search(space, objective, {.budget = 64});
///     space.configs()[found.best.front().config];
///
/// The objective is asked for scores of whole batches: a model (model_objective), a measurement, a function
/// in a test. Every config that it is asked about counts; nothing else does. One searcher draws from one
/// stream of random numbers: a fresh one with the same seed repeats itself exactly, a second call continues.
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include <kscout/types.h>

#include "search/space.h"

namespace kscout {

/// guided: our own, the default. de, random: what the public CK Tile tools have, for comparison. all: every
/// config, whatever the budget.
enum class SearchStrategy : std::uint8_t { guided, de, random, all };
template <>
struct EnumWords<SearchStrategy> {
  static constexpr std::string_view what = "search strategy";
  static constexpr std::array<std::string_view, 4> words = {"guided", "de", "random", "all"};
};

/// Writes one score per config (by position in the space), higher is better; -infinity and NaN: cannot be
/// used.
using Objective = std::function<void(std::span<const std::uint32_t> configs, std::span<double> scores)>;

struct SearchRequest {
  SearchStrategy strategy = SearchStrategy::guided;
  std::size_t budget = 500;  ///< configs that may be evaluated
  std::size_t top = 10;      ///< configs in the result
  /// What is thought of each config without asking, higher is better (an analytic cost, negated); NaN where
  /// nothing is. Empty: nothing is known. Only `guided` reads it.
  std::span<const double> prior = {};
};

struct FoundConfig {
  std::uint32_t config;
  double score;
  std::size_t evaluation;  ///< it was the so-manieth that was asked for, from 1
  bool operator==(const FoundConfig&) const = default;
};

struct SearchResult {
  std::vector<FoundConfig> best;  ///< usable ones, best first, each once; of equals the first evaluated
  std::size_t evaluations = 0;    ///< configs that the objective was asked about, repetitions included
};

class Searcher {
 public:
  explicit Searcher(std::uint64_t seed = 42) : random_(seed) {}

  /// Throws what the objective throws, invalid_argument when `prior` is of another size.
  ///
  /// guided  Starts with what the prior holds best and with configs spread over the space. Then, in rounds:
  ///         random trees are fitted to the scores so far (score_trees.h); groups of them propose what to evaluate
  ///         next, out of all configs, or out of 4,096 where there are more: moves of good ones along an axis, legal
  ///         crossings of them, what the prior holds best, random ones. Never asks twice; uses exactly
  ///         min(budget, configs) evaluations.
  /// random  `budget` draws from the legal configs, repetitions included.
  /// de      Differential evolution over axes' values: 20 members, mutation 0.3, crossover 0.7, synchronous
  ///         generations; an illegal child is replaced by its parent. Fewer than 4 members: as random. The
  ///         result holds members of the last generation. Unlike the original it never exceeds the budget and
  ///         draws its first members from the legal configs instead of trying 50 times each.
  SearchResult search(const SearchSpace& space, const Objective& objective, const SearchRequest& request);

 private:
  std::uint32_t below(std::size_t count);  ///< uniform in [0, count)
  bool chance(double probability);
  SearchResult draw(const SearchSpace& space, const Objective& objective, const SearchRequest& request);
  SearchResult evolve(const SearchSpace& space, const Objective& objective, const SearchRequest& request);
  SearchResult guide(const SearchSpace& space, const Objective& objective, const SearchRequest& request);

  friend class GuidedSearch;
  std::mt19937_64 random_;
};

}  // namespace kscout
