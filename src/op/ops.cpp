// Lists the operations.
#include "op/operation.h"

namespace kscout {

const Operation& gemm_operation();          // op/gemm
const Operation& conv_operation();          // op/conv
const Operation& grouped_gemm_operation();  // op/grouped_gemm

[[gnu::weak]] std::span<const Operation* const> further_operations() noexcept { return {}; }
[[gnu::weak]] std::span<const std::string_view> further_op_words() noexcept { return {}; }

std::span<const std::string_view> op_words() noexcept {
  static const auto all = [] {
    std::vector<std::string_view> words{"gemm", "conv_fwd", "conv_bwd_data", "conv_bwd_weight",
                                        "grouped_gemm"};
    words.insert(words.end(), further_op_words().begin(), further_op_words().end());
    return words;
  }();
  return all;
}

std::span<const Operation* const> operations() noexcept {
  static const auto all = [] {
    std::vector<const Operation*> list{&gemm_operation(), &conv_operation(), &grouped_gemm_operation()};
    list.insert(list.end(), further_operations().begin(), further_operations().end());
    return list;
  }();
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
