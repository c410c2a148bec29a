#pragma once
/// \file
/// Guesses scores of configs from those that were evaluated: an ensemble of random trees over axes, as SMAC
/// uses (Hutter, Hoos, Leyton-Brown 2011), with the splits of extremely randomised trees (Geurts et al.
/// 2006).
///
///     ScoreTrees trees(space, prior);
///     trees.fit(evaluated, scores, random);
///     trees.of(tree, config);       // where trees disagree, nothing is known yet
///
/// Trees leave alone what makes no difference, which most axes do for a given problem, and see axes that work
/// together. Cost of a fit: trees x scores x depth x tried splits; of a guess: depth.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "search/space.h"

namespace kscout {

class ScoreTrees {
 public:
  static constexpr std::size_t trees = 24;
  /// Uniform in [0, count).
  using Random = std::function<std::uint32_t(std::size_t count)>;

  /// `prior`: empty, or one number per config, read as one more axis; both must outlive this.
  ScoreTrees(const SearchSpace& space, std::span<const double> prior) : space_(space), prior_(prior) {}

  /// Finite scores, as many as configs, at least one.
  void fit(std::span<const std::uint32_t> configs, std::span<const double> scores, const Random& random);
  double of(std::size_t tree, std::uint32_t config) const noexcept;

 private:
  /// A leaf when `left` is 0: `value` is its score. Else left when the axis' value is at most `value`, or, on
  /// axes of words, equals it; right is left + 1.
  struct Node {
    std::uint32_t axis = 0, left = 0;
    double value = 0;
  };
  struct Split {
    std::uint32_t axis = 0;
    double value = 0, spread = 0;
  };
  double at(std::uint32_t config, std::uint32_t axis) const noexcept;
  bool goes_left(const Node& node, std::uint32_t config) const noexcept;
  void grow(std::size_t node, std::span<std::uint32_t> rows, const Random& random);
  bool best_split(std::span<const std::uint32_t> rows, const Random& random, Split& best) const;

  const SearchSpace& space_;
  std::span<const double> prior_;
  std::span<const std::uint32_t> configs_;
  std::span<const double> scores_;
  std::vector<Node> nodes_;  ///< the first `trees` are roots
};

}  // namespace kscout
