#pragma once
/// \file
/// Freivalds' check of a convolution: weighted sums over the rows of its result, computed without the result.
///
///     const ConvRows rows(problem);
///     const auto expected = row_sums(problem, operands, rows);
///
/// A convolution is linear in its filter. The sum over the channels of a pixel, each times a weight, is thus
/// what one channel gives whose filter is the weighted sum of all filters: a pass over the read image times
/// the filter's places. The gradient of the filter is linear in the input image in the same way.
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/conv_problem.h>

#include "measure/conv_geometry.h"
#include "measure/operands.h"

namespace kscout {

/// C as a matrix: of an image a row per pixel with its channels, of a filter a row per output channel and
/// place with its input channels.
struct ConvRows {
  explicit ConvRows(const ConvProblem& problem);

  std::int64_t count() const { return items * view.rows; }
  /// Index into C.
  std::int64_t element(std::int64_t row, std::int64_t column) const {
    return view.at(row / view.rows, row % view.rows, column);
  }

  MatrixView view;
  std::int64_t items;
  std::vector<double> weights;  ///< one per column, 0.5 <= |w| <= 1.5
};

struct RowSum {
  std::int64_t row;
  double value, tolerance;
};

/// Products that the sums of one problem may take.
inline constexpr double kMostRowProducts = 1 << 28;

/// Those of every row, or of as many as so many products pay, drawn at random: at least one row or, of a
/// filter, one output channel. Cost: a pass over A and B, and those products.
std::vector<RowSum> row_sums(const ConvProblem& problem, const GemmOperands& operands, const ConvRows& rows,
                             double most_products = kMostRowProducts);

}  // namespace kscout
