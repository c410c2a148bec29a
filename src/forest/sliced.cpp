#include "forest/sliced.h"

#include <algorithm>
#include <utility>

#include "forest/sliced_plan.h"

namespace kscout {

SlicedClasses::SlicedClasses(std::vector<std::uint32_t> of_rows)
    : class_of(std::move(of_rows)), count(class_of.empty() ? 0 : *std::ranges::max_element(class_of) + 1) {}

SlicedWork::SlicedWork(const SlicedPlan& plan) {
  std::size_t alive_words = 0, questions = 0;
  for (const SlicedTree& tree : plan.trees)
    alive_words = std::max<std::size_t>(alive_words, tree.alive_words);
  for (const SlicedColumn& column : plan.columns)
    questions = std::max<std::size_t>(questions, column.questions);
  bits = std::make_unique_for_overwrite<SlicedLine[]>(sliced_lines((plan.most_vectors + 1) * plan.words));
  copy_fixed_bits(plan);
  vector_of = plan.fixed_vector;
  extents = plan.extents;
  alive.resize(plan.alive.size() + 1);  // one more: counting up to the end of the last tree reads it
  by_rank.resize(plan.most_classes);
  bucket.resize(2 * (questions + 1));
  thresholds_before.resize((std::size_t{1} << kSlicedCellBits) + 2 + kSlicedCellRoom);
  class_bytes.resize(plan.most_classes + 128);  // read in vectors
  row_bytes.resize(64 * plan.words, INT8_MAX);
  leaves_before.resize(alive_words + 1);
  steps.resize(plan.steps + kSlicedRoom);
  pairs.resize(plan.pairs + kSlicedRoom);
  tasks.resize(plan.trees.size());
  sorted_tasks.resize(plan.trees.size());
  planes.resize(sliced_lines(plan.planes * plan.words + 1));
  waiting.resize(sliced_lines(plan.planes * kSlicedBlockWords + 1));
  slots.resize(sliced_lines(sliced_slot_words(plan.most_leaves + 1)));
  allowed.resize(plan.words);
  survivors.resize(plan.words);
  candidates.resize(plan.words);
  batch_bits.resize((plan.most_vectors + 1) * kSlicedBatch);
  batch_leaves.resize(plan.trees.size() * kSlicedBatch);
  scored.resize(plan.rows);
  if (plan.drops_rows) rows.resize(plan.rows);
}

SlicedForest::SlicedForest(const Forest& forest, const SlicedRows& rows, Best best)
    : SlicedForest(forest, rows, best, best_sliced_kernels()) {}
SlicedForest::SlicedForest(const Forest& forest, const SlicedRows& rows, Best best,
                           const SlicedKernels& kernels)
    : plan_(std::make_unique<const SlicedPlan>(make_sliced_plan(forest, rows, best, kernels))) {}
SlicedForest::~SlicedForest() = default;
SlicedForest::SlicedForest(SlicedForest&&) noexcept = default;
SlicedForest& SlicedForest::operator=(SlicedForest&&) noexcept = default;

SlicedForest::Scratch::Scratch(const SlicedForest& forest)
    : work_(std::make_unique<SlicedWork>(*forest.plan_)) {}
SlicedForest::Scratch::~Scratch() = default;
SlicedForest::Scratch::Scratch(Scratch&&) noexcept = default;
SlicedForest::Scratch& SlicedForest::Scratch::operator=(Scratch&&) noexcept = default;
const SlicedForest::Counts& SlicedForest::Scratch::counts() const noexcept { return work_->counts; }

std::size_t SlicedForest::rows() const noexcept { return plan_->rows; }
std::size_t SlicedForest::row_words() const noexcept { return (plan_->rows + 63) / 64; }

std::size_t SlicedForest::top(std::span<const double* const> values, std::span<const std::uint64_t> allowed,
                              std::span<const std::uint32_t> ties, std::span<ScoredRow> out,
                              Scratch& scratch) const noexcept {
  return plan_->kernels->top(*plan_, *scratch.work_, values, allowed, ties, out);
}

void SlicedForest::scores(std::span<const double* const> values, std::span<double> out,
                          Scratch& scratch) const noexcept {
  plan_->kernels->scores(*plan_, *scratch.work_, values, out);
}

}  // namespace kscout
