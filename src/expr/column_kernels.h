#pragma once
/// \file
/// Evaluates operations over whole columns, compiled for each instruction set. Results have the same bits as
/// expr::apply.
#include <array>
#include <cstddef>

#include "expr/expr.h"

namespace kscout::expr {

/// Columns begin at multiples of 64 bytes and have room for a multiple of this many values, so no loop has a
/// remainder.
inline constexpr std::size_t kColumnLanes = 8;
inline constexpr std::size_t kCodes = static_cast<std::size_t>(Code::choose) + 1;

/// `rows` is a multiple of kColumnLanes. An operand is a column or one value.
using ColumnOperation = void (*)(const double* a, const double* b, const double* c, double* out,
                                 std::size_t rows) noexcept;
/// Indexed by which operands are columns: 4 for a, 2 for b, 1 for c.
using ColumnOperations = std::array<std::array<ColumnOperation, 8>, kCodes>;

/// The fastest operations that this CPU can run.
const ColumnOperations& best_column_operations() noexcept;

extern const ColumnOperations kScalarColumns;
#if defined(__x86_64__)
extern const ColumnOperations kAvx2Columns, kAvx512Columns;
#endif

}  // namespace kscout::expr
