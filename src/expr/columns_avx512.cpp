// Compiles the operations over columns for avx512.
#define KSCOUT_HWY_TARGET HWY_AVX3
#include "expr/columns-inl.h"

namespace kscout::expr {
const ColumnOperations kAvx512Columns = vector_columns(std::make_index_sequence<kCodes>{});
}
