// One call of a SlicedForest, compiled for each instruction set: most of it are loops over bits.
#include <algorithm>
#include <bit>
#include <numeric>

#include "core/read_ahead.h"
#include "forest/sliced-inl.h"
#include "forest/sliced_best-inl.h"
#include "forest/sliced_exact-inl.h"
#include "forest/sliced_plan.h"
#include "forest/sliced_questions-inl.h"
#include "forest/sliced_trees-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

/// Which leaves rows still reach, and what parts them.
inline void resolve(const SlicedPlan& plan, SlicedWork& work,
                    std::span<const double* const> values) noexcept {
  work.counts = {};
  work.words = plan.words;
  Questions(plan, work, values).answer();
  work.counts.questions = work.vectors - plan.fixed_vectors;
  TreePlanner(plan, work).run();
}

KSCOUT_CODE_BOUNDS(KSCOUT_SLICED_SECTION);

KSCOUT_SLICED_CODE inline std::size_t top_rows(const SlicedPlan& plan, SlicedWork& work,
                                               std::span<const double* const> values,
                                               std::span<const std::uint64_t> allowed,
                                               std::span<const std::uint32_t> ties,
                                               std::span<ScoredRow> out) noexcept {
  read_ahead(KSCOUT_CODE_OF(KSCOUT_SLICED_SECTION));
  resolve(plan, work, values);
  if (out.empty()) return 0;
  const std::size_t kept = BestRows(plan, work, out.size()).find(allowed);
  const bool packed = work.words != plan.words;

  std::uint32_t places[kBatch];
  double sums[kBatch];
  std::size_t next = 0, batch = 0;
  const auto sum_batch = [&] {
    RowSums(plan, work).exact({places, batch}, sums);
    for (std::size_t i = 0; i < batch; ++i) {
      work.scored[next++] = {packed ? work.rows[places[i]] : places[i], sums[i]};
    }
    batch = 0;
  };
  for (std::uint32_t word = 0; word < work.words; ++word) {
    for (std::uint64_t rest = work.survivors[word]; rest != 0; rest &= rest - 1) {
      places[batch++] = 64 * word + static_cast<std::uint32_t>(std::countr_zero(rest));
      if (batch == kBatch) sum_batch();
    }
  }
  if (batch > 0) sum_batch();
  const bool highest = plan.best == Best::highest;
  const auto better = [&](const ScoredRow& a, const ScoredRow& b) {
    if (a.score != b.score) return highest ? a.score > b.score : a.score < b.score;
    return ties[a.row] < ties[b.row];
  };
  const auto begin = work.scored.begin();
  const std::size_t found = std::min(out.size(), kept);
  std::partial_sort(begin, begin + static_cast<std::ptrdiff_t>(found),
                    begin + static_cast<std::ptrdiff_t>(kept), better);
  std::copy_n(begin, found, out.begin());
  return found;
}

inline void score_rows(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values,
                       std::span<double> out) noexcept {
  resolve(plan, work, values);
  std::uint32_t rows[kBatch];
  for (std::size_t first = 0; first < out.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, out.size() - first);
    std::iota(rows, rows + count, static_cast<std::uint32_t>(first));
    RowSums(plan, work).exact({rows, count}, out.data() + first);
  }
}

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
