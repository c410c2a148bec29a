#include "evaluate/criteria.h"

#include <algorithm>

#include <fmt/format.h>

namespace kscout {

bool all_met(std::span<const Criterion> criteria) noexcept {
  return std::ranges::all_of(criteria, &Criterion::met);
}

Criterion above(std::string what, double value, double limit) {
  return {std::move(what), value, fmt::format("> {} %", limit), value > limit};
}

std::vector<Criterion> target_criteria(Op op, const Summary& summary) {
  const double mean = 100 * summary.mean, p10 = 100 * summary.p10;
  switch (op) {
    case Op::conv_fwd:
      return {above("mean", mean, 90), above("p10", p10, 75),
              above("picks that are the oracle", 100 * summary.hit_rate[0], 70)};
    case Op::conv_bwd_data:
    case Op::conv_bwd_weight:
      return {above("mean", mean, 85)};
    case Op::gemm:
      break;
  }
  return {{"mean", mean, ">= 90 %", mean >= 90}, {"p10", p10, ">= 75 %", p10 >= 75}};
}

}  // namespace kscout
