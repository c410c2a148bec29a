#pragma once
/// \file
/// How much each feature moved a score away from the mean of the rows that it is compared with.
///
///     const Contributions of = contributions(forest, matrix, rows, {best, second});
///     // of.expected + sum of of.by_feature[0] is the score of row `best`
///
/// Method: the decomposition along the decision path (Saabas 2014; what tree interpreters print): the
/// expected value of a node is the mean of the rows that reach it, and a split's feature is credited with the
/// step from a node's expected value to its child's. The rows compared with are the caller's, not the
/// training set's: for one problem and its configs, features of the problem alone get nothing, since they
/// favour no config. Credit depends on the order of splits, as in every method along the path.
#include <cstddef>
#include <span>
#include <vector>

#include "forest/forest.h"

namespace kscout {

struct Contributions {
  double expected = 0;                          ///< mean score of the rows
  std::vector<std::vector<double>> by_feature;  ///< per explained row, per feature
};

/// `matrix` holds `rows` rows of forest.feature_count values, row-major; `explained` are some of them.
/// expected plus the contributions of a row is its score, but for the rounding of a sum. Cost: a walk of
/// every row.
Contributions contributions(const Forest& forest, std::span<const double> matrix, std::size_t rows,
                            std::span<const std::size_t> explained);

}  // namespace kscout
