#pragma once
/// \file
/// Computes where the elements of matrices are in memory.
///
///     const MatrixView view{DType::fp32, /*rows=*/3, /*columns=*/4, /*leading=*/4, /*batch_stride=*/12, true};
///     std::int64_t index = view.at(item, row, column);
#include <cstdint>

#include <kscout/types.h>

namespace kscout {

/// Maps (batch item, row, column) to the index of an element.
struct MatrixView {
  DType dtype;
  std::int64_t rows, columns, leading, batch_stride;
  bool row_major;

  std::int64_t lines() const noexcept { return row_major ? rows : columns; }
  std::int64_t length() const noexcept { return row_major ? columns : rows; }
  std::int64_t at(std::int64_t item, std::int64_t row, std::int64_t column) const noexcept {
    return item * batch_stride + (row_major ? row * leading + column : column * leading + row);
  }
};

}  // namespace kscout
