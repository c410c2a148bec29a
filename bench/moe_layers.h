#pragma once
/// \file
/// What benchmarks of grouped GEMMs share: a sample of set `moe`, and results.
///
///     const auto layers = sample_of_moe(DType::bf16, 120, [](const GroupedGemmProblem& p) { return p.m_sum > 0; });
///     print_ratios("grouped", "vs_launches", ratios);
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "bench_program.h"
#include "core/numbers.h"
#include "op/grouped_gemm/grouped_gemm_sets.h"

namespace kscout::bench {

/// Every i-th problem of set `moe` with two groups that have rows and that `keep` accepts, in the order of
/// their operations.
template <class Keep>
std::vector<GroupedGemmProblem> sample_of_moe(DType dtype, std::size_t count, const Keep& keep) {
  auto all = make_grouped_gemm_set("moe", dtype, {});
  std::erase_if(all, [&](const GroupedGemmProblem& p) { return p.m_filled < 2 || !keep(p); });
  std::ranges::stable_sort(all, {}, [](const GroupedGemmProblem& p) { return flop_count(p); });
  count = std::min(count, all.size());
  std::vector<GroupedGemmProblem> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

/// Prints geometric mean, tenth percentile and minimum of the ratios that are known.
inline void print_ratios(std::string_view bench, std::string_view name, std::vector<double> ratios) {
  std::erase_if(ratios, [](double ratio) { return std::isnan(ratio); });
  if (ratios.empty()) return;
  fmt::print("{} problems\n", ratios.size());
  fmt::print("RESULT {}.geomean_{} {:.3f} x\n", bench, name, geomean(ratios));
  fmt::print("RESULT {}.p10_{} {:.3f} x\n", bench, name, quantile(ratios, 0.1));
  fmt::print("RESULT {}.min_{} {:.3f} x\n", bench, name, std::ranges::min(ratios));
}

/// The mean share of the best config's speed that the chosen ones reach.
inline void print_chosen(std::string_view bench, const std::vector<double>& shares) {
  double sum = 0;
  for (const double share : shares) sum += share;
  fmt::print("RESULT {}.chosen_vs_best {:.1f} %\n", bench, 100 * sum / static_cast<double>(shares.size()));
}

}  // namespace kscout::bench
