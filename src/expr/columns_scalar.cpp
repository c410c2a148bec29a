// Evaluates operations over columns value by value, and chooses the instruction set.
#include <utility>

#include "core/device_facts.h"
#include "expr/column_kernels.h"
#include "expr/operations.h"

namespace kscout::expr {
namespace {

template <Code code, std::size_t shape>
void column(const double* a, const double* b, const double* c, double* out, std::size_t rows) noexcept {
  for (std::size_t i = 0; i < rows; ++i) {
    out[i] = apply<code>(a[shape & 4 ? i : 0], b[shape & 2 ? i : 0], c[shape & 1 ? i : 0]);
  }
}

template <Code code>
constexpr std::array<ColumnOperation, 8> shapes() {
  return {column<code, 0>, column<code, 1>, column<code, 2>, column<code, 3>,
          column<code, 4>, column<code, 5>, column<code, 6>, column<code, 7>};
}

template <std::size_t... codes>
constexpr ColumnOperations scalar_columns(std::index_sequence<codes...>) {
  return {shapes<static_cast<Code>(codes)>()...};
}

/// Fills missing operations of a table with the scalar ones.
[[maybe_unused]] ColumnOperations completed(ColumnOperations operations) noexcept {
  for (std::size_t code = 0; code < kCodes; ++code) {
    if (!operations[code][0]) operations[code] = kScalarColumns[code];
  }
  return operations;
}

}  // namespace

const ColumnOperations kScalarColumns = scalar_columns(std::make_index_sequence<kCodes>{});

const ColumnOperations& best_column_operations() noexcept {
#if defined(__x86_64__)
  const InstructionSet best = best_instruction_set();
  if (best >= InstructionSet::avx512) {
    static const ColumnOperations avx512 = completed(kAvx512Columns);
    return avx512;
  }
  if (best == InstructionSet::avx2) {
    static const ColumnOperations avx2 = completed(kAvx2Columns);
    return avx2;
  }
#endif
  return kScalarColumns;
}

}  // namespace kscout::expr
