#pragma once
/// \file
/// Operations over whole columns, compiled for each instruction set. All give the bits of expr::apply.
#include <array>
#include <cstddef>

#include "expr/expr.h"

namespace kscout::expr {

/// Columns begin at multiples of 64 bytes and have room for a whole number of these: no loop has a rest.
inline constexpr std::size_t kColumnLanes = 8;
inline constexpr std::size_t kCodes = static_cast<std::size_t>(Code::choose) + 1;

/// `rows` is rounded up to a multiple of kColumnLanes. An operand is a column or one value.
using ColumnOperation = void (*)(const double* a, const double* b, const double* c, double* out,
                                 std::size_t rows) noexcept;
/// By which operands are columns: 4 for a, 2 for b, 1 for c.
using ColumnOperations = std::array<std::array<ColumnOperation, 8>, kCodes>;

/// The fastest that this CPU runs.
const ColumnOperations& best_column_operations() noexcept;

extern const ColumnOperations kScalarColumns;
#if defined(__x86_64__)
extern const ColumnOperations kAvx2Columns, kAvx512Columns;
#endif

}  // namespace kscout::expr
