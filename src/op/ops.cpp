// Lists the operations.
#include "op/operation.h"

namespace kscout {

const Operation& gemm_operation();  // op/gemm
const Operation& conv_operation();  // op/conv

std::span<const Operation* const> operations() noexcept {
  static const std::array all = {&gemm_operation(), &conv_operation()};
  return all;
}

/// Made before any thread starts: a fork could otherwise leave a static unfinished that another thread makes.
[[maybe_unused]] static const std::span<const Operation* const> made_at_start = operations();

const Operation& operation(Op op) noexcept {
  for (const Operation* const one : operations()) {
    if (std::ranges::find(one->ops, op) != one->ops.end()) return *one;
  }
  return *operations().front();  // a number without a word, which only a cast can produce
}

}  // namespace kscout
