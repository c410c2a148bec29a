#pragma once
/// \file
/// Finds the configs of a problem that a cheap objective scores best. For configs that must be timed, use
/// search/measured_search.h.
///
///     const SearchSpace space(legal_configs);
///     const SearchResult found = Searcher().search(space, objective, {.strategy = SearchStrategy::all});
///     space.configs()[found.best.front().config];
///
/// The objective scores whole batches: it is a model (model_objective), or a function in a test. Every scored
/// config counts as one evaluation. A searcher draws from one stream of random numbers: a new searcher with
/// the same seed repeats the results exactly; a second call on the same searcher continues the stream.
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include <kscout/types.h>

#include "search/space.h"
#include "select/model.h"

namespace kscout {

/// all: every config, whatever the number of evaluations. de, random: the strategies of CK Tile's public
/// tools, for comparison.
enum class SearchStrategy : std::uint8_t { all, random, de };
template <>
struct EnumWords<SearchStrategy> {
  static constexpr std::string_view what = "search strategy";
  static constexpr std::array<std::string_view, 3> words = {"all", "random", "de"};
};

/// Writes one score per config (by position in the space), higher is better; -infinity and NaN: cannot be
/// used.
using Objective = std::function<void(std::span<const std::uint32_t> configs, std::span<double> scores)>;

struct SearchRequest {
  SearchStrategy strategy = SearchStrategy::all;
  std::size_t evaluations = 500;  ///< configs that may be scored; `all` ignores it
  std::size_t top = 10;           ///< configs in the result
};

struct FoundConfig {
  std::uint32_t config;
  double score;
  std::size_t evaluation;  ///< position in the order of scoring, from 1
  bool operator==(const FoundConfig&) const = default;
};

struct SearchResult {
  /// Usable configs, best first, each once; of equal scores the first evaluated.
  std::vector<FoundConfig> best;
  std::size_t evaluations = 0;  ///< configs that the objective scored, repetitions included
};

class Searcher {
 public:
  explicit Searcher(std::uint64_t seed = 42) : random_(seed) {}

  /// Throws what the objective throws.
  ///
  /// all     Every config once, in the order of the space.
  /// random  `evaluations` draws from the legal configs, repetitions included.
  /// de      Differential evolution over the values of axes: 20 members, mutation 0.3, crossover 0.7,
  ///         synchronous generations. An illegal child is replaced by its parent. Fewer than 4 members: as
  ///         random. The result holds members of the last generation. Unlike the original, it never exceeds
  ///         `evaluations` and draws its first members from the legal configs instead of trying 50 times for
  ///         each.
  SearchResult search(const SearchSpace& space, const Objective& objective, const SearchRequest& request);

 private:
  std::uint32_t below(std::size_t count);  ///< uniform in [0, count)
  bool chance(double probability);
  SearchResult draw(const SearchSpace& space, const Objective& objective, const SearchRequest& request);
  SearchResult evolve(const SearchSpace& space, const Objective& objective, const SearchRequest& request);
  std::mt19937_64 random_;
};

// ---- A model as the objective of a search.
//
//     const SearchSpace space(applicable_table(family, problem));
//     searcher.search(space, model_objective(model, problem, space), {.top = 5});

/// The configs of a family that apply to the problem. Throws unsupported when there is none.
ConfigTable applicable_table(const Family& family, ProblemRef problem);

/// Scores of the model's default target. Model, problem and space must outlive the objective.
Objective model_objective(const Model& model, ProblemRef problem, const SearchSpace& space);

// ---- Calls an objective and counts its evaluations. Only the sources of this folder use this part.

/// The usable configs, best first, each once; of equal scores the first evaluated. At most `top`.
std::vector<FoundConfig> best_of(std::vector<FoundConfig> found, std::size_t top);

class Tally {
 public:
  explicit Tally(const Objective& objective) : objective_(objective) {}

  /// Scores in the order of `configs`; NaN is replaced by -infinity.
  std::vector<FoundConfig> score(std::span<const std::uint32_t> configs);
  std::size_t evaluations() const noexcept { return found_.size(); }
  /// Every config scored so far, in order.
  std::span<const FoundConfig> found() const noexcept { return found_; }
  SearchResult result(std::size_t top) const { return {best_of(found_, top), evaluations()}; }

 private:
  const Objective& objective_;
  std::vector<FoundConfig> found_;
  std::vector<double> scores_;
};

}  // namespace kscout
