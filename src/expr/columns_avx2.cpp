// Compiles the operations over columns for avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "expr/columns-inl.h"

namespace kscout::expr {
const ColumnOperations kAvx2Columns = vector_columns(std::make_index_sequence<kCodes>{});
}
