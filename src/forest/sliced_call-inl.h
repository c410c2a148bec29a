// One call of a SlicedForest, compiled for each instruction set: most of it are loops over bits. Included
// after isa-inl.h.
#include <algorithm>
#include <bit>
#include <cmath>

#include "forest/sliced-inl.h"
#include "forest/sliced_plan.h"
#include "forest/sliced_questions-inl.h"
#include "forest/sliced_trees-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

constexpr std::size_t kBatch = kSlicedBatch;  ///< rows summed in doubles at once

/// One call: from the values of the features to the best rows.
class Call {
 public:
  Call(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values) noexcept
      : plan_(plan), work_(work), values_(values) {}

  /// Which leaves rows still reach, and what parts them.
  void resolve() noexcept {
    work_.counts = {};
    Questions(plan_, work_, values_).answer();
    work_.counts.questions = work_.vectors - plan_.fixed_vectors;
    TreePlanner(plan_, work_).run();
  }

  /// Rounded sums of all rows: work.planes.
  void add_rounded() noexcept {
    SlicedJob job;
    job.bits = work_.bit_words();
    job.words = plan_.words;
    job.steps = work_.steps.data();
    job.codes = work_.codes.data();
    job.tasks = work_.sorted_tasks.data();
    job.task_count = work_.counts.sliced;
    job.planes = work_.planes.data()->words;
    job.plane_count = plan_.planes;
    job.waiting = work_.waiting.data()->words;
    job.slots = work_.slots.data()->words;
    add_trees(job);
  }

  /// Marks the rows of `allowed` that may be among the best `count`: work.survivors. Returns how many.
  std::size_t keep_best(std::span<const std::uint64_t> allowed, std::size_t count) noexcept {
    const std::uint64_t last = kth_largest(allowed, count);
    const double window = 2 * (rounding_error() + plan_.double_error) / plan_.unit;
    const std::uint64_t margin =
        window < static_cast<double>(last) ? static_cast<std::uint64_t>(window) + 1 : last;
    keep_at_least(allowed, last - std::min(margin, last));
    std::size_t kept = 0;
    for (const std::uint64_t word : work_.survivors) kept += static_cast<std::size_t>(std::popcount(word));
    return kept;
  }

  /// Scores of at most kBatch rows, as Forest::predict sums them.
  void sum_exactly(std::span<const std::uint32_t> rows, double* sums) noexcept {
    gather_batch(rows);
    for (std::size_t t = 0; t < work_.counts.sliced; ++t) find_leaves(work_.sorted_tasks[t], rows.size());
    add_leaves_in_order(rows.size(), sums);
    if (plan_.average && !plan_.trees.empty()) {
      const auto trees = static_cast<double>(plan_.trees.size());
      for (std::size_t row = 0; row < rows.size(); ++row) sums[row] /= trees;
    }
    work_.counts.exact += rows.size();
  }

 private:
  // ---- rounded sums

  const std::uint64_t* plane(std::size_t p) const noexcept {
    return work_.planes.data()->words + p * plan_.words;
  }

  /// Most by which the rounded sums of two rows may mislead, divided by two.
  double rounding_error() const noexcept {
    double error = 0;
    for (const SlicedTask& task : std::span(work_.sorted_tasks).first(work_.counts.sliced)) {
      error += plan_.trees[task.tree].error;
    }
    return error * (1 + 1e-9);  // this sum rounds, too
  }

  /// The count-th largest rounded sum, or the least where fewer rows are allowed: from the highest bit down.
  std::uint64_t kth_largest(std::span<const std::uint64_t> allowed, std::size_t count) noexcept {
    auto& candidates = work_.candidates;
    std::ranges::fill(candidates, 0);
    std::size_t rows = 0;
    for (std::size_t w = 0; w < allowed.size(); ++w) {
      candidates[w] = allowed[w];
      rows += static_cast<std::size_t>(std::popcount(allowed[w]));
    }
    count = std::min(count, rows);
    std::uint64_t value = 0;
    for (std::size_t p = plan_.planes; p-- > 0;) {
      const std::uint64_t* const ones = plane(p);
      std::size_t with = 0;
      for (std::size_t w = 0; w < allowed.size(); ++w) {
        with += static_cast<std::size_t>(std::popcount(candidates[w] & ones[w]));
      }
      const bool set = with >= count;
      if (!set) count -= with;
      value |= std::uint64_t{set} << p;
      for (std::size_t w = 0; w < allowed.size(); ++w) candidates[w] &= set ? ones[w] : ~ones[w];
    }
    return value;
  }

  void keep_at_least(std::span<const std::uint64_t> allowed, std::uint64_t least) noexcept {
    for (std::size_t w = 0; w < allowed.size(); ++w) {
      std::uint64_t equal = allowed[w], greater = 0;
      for (std::size_t p = plan_.planes; p-- > 0;) {
        const std::uint64_t ones = plane(p)[w];
        if ((least >> p) & 1) {
          equal &= ones;
        } else {
          greater |= equal & ones;
          equal &= ~ones;
        }
      }
      work_.survivors[w] = greater | equal;
    }
  }

  // ---- exact sums

  static constexpr hn::CappedTag<std::int32_t, kBatch> lanes{};
  static constexpr hn::Rebind<std::int8_t, decltype(lanes)> byte_lanes{};

  /// Answers of the batch's rows: byte i of batch_bits[v] is 0 or all ones.
  void gather_batch(std::span<const std::uint32_t> rows) noexcept {
    for (std::size_t v = 0; v < work_.vectors; ++v) {
      const std::uint64_t* const from = work_.bit_words() + v * plan_.words;
      std::int8_t* const to = work_.batch_bits.data() + v * kBatch;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        to[i] = static_cast<std::int8_t>(-static_cast<int>((from[rows[i] / 64] >> (rows[i] % 64)) & 1));
      }
    }
  }

  /// The leaf of each row of the batch: it moves from the first leaf of a node to the first on its right.
  void find_leaves(const SlicedTask& task, std::size_t rows) noexcept {
    const SlicedStep* const steps = work_.steps.data() + task.first_step;
    std::uint32_t* const to = work_.batch_leaves.data() + task.tree * kBatch;
    for (std::size_t first = 0; first < rows; first += hn::Lanes(lanes)) {
      auto leaf = hn::Zero(lanes);
      for (std::size_t s = 0; s + 1 < task.leaves; ++s) {
        const std::int8_t* const answers = work_.batch_bits.data() + steps[s].vector * kBatch + first;
        const auto answer = hn::PromoteTo(lanes, hn::LoadU(byte_lanes, answers));
        const auto here = hn::VecFromMask(lanes, hn::Eq(leaf, hn::Set(lanes, std::int32_t{steps[s].leaf})));
        const auto moves = hn::MaskFromVec(hn::AndNot(answer, here));
        leaf = hn::IfThenElse(moves, hn::Set(lanes, std::int32_t{steps[s].right}), leaf);
      }
      std::int32_t found[kBatch];
      hn::StoreU(leaf, lanes, found);
      for (std::size_t i = 0; i < hn::Lanes(lanes) && first + i < rows; ++i) {
        const std::uint32_t at = position(task, static_cast<std::uint32_t>(found[i]));
        hwy::Prefetch(plan_.leaf_value.data() + at);  // most are not in a cache near enough
        to[first + i] = at;
      }
    }
  }

  /// Where the value of a tree's alive leaf stands.
  std::uint32_t position(const SlicedTask& task, std::uint32_t leaf) const noexcept {
    const LeafWord* word = work_.alive.data() + plan_.trees[task.tree].alive_word;
    std::uint32_t before = task.first_leaf;
    for (std::uint32_t here; leaf >= (here = ones(*word)); ++word) {
      leaf -= here;
      before += kWordLeaves;
    }
    return before + nth_one(*word, leaf);
  }

  static std::uint32_t ones(LeafWord word) noexcept {
    return static_cast<std::uint32_t>(std::popcount(word));
  }

  /// The position of the one that `before` others precede: the byte, then within it; nothing to predict.
  static std::uint32_t nth_one(LeafWord word, std::uint32_t before) noexcept {
    std::uint32_t shift = 0;
    for (const LeafWord bytes : {LeafWord{0xff}, LeafWord{0xffff}, LeafWord{0xffffff}}) {
      shift += 8 * static_cast<std::uint32_t>(before >= ones(word & bytes));
    }
    before -= ones(word & ((LeafWord{1} << shift) - 1));
    return shift + kOnesOfByte[(word >> shift) & 0xff][before];
  }

  /// Adds what find_leaves found in the order of the trees.
  void add_leaves_in_order(std::size_t rows, double* sums) noexcept {
    const double* const values = plan_.leaf_value.data();
    std::fill_n(sums, rows, 0.0);
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) {
      const SlicedTask& task = work_.tasks[tree];
      const std::uint32_t* const from = work_.batch_leaves.data() + tree * kBatch;
      if (task.leaves == 1) {
        const double same = values[position(task, 0)];
        for (std::size_t i = 0; i < rows; ++i) sums[i] += same;
      } else {
        for (std::size_t i = 0; i < rows; ++i) sums[i] += values[from[i]];
      }
    }
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
  std::span<const double* const> values_;
};

std::size_t top_rows(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values,
                     std::span<const std::uint64_t> allowed, std::span<const std::uint32_t> ties,
                     std::span<ScoredRow> out) noexcept {
  Call call(plan, work, values);
  call.resolve();
  if (out.empty()) return 0;
  call.add_rounded();
  const std::size_t kept = call.keep_best(allowed, out.size());

  std::size_t next = 0;
  for (std::uint32_t word = 0; word < allowed.size(); ++word) {
    for (std::uint64_t rest = work.survivors[word]; rest != 0; rest &= rest - 1) {
      work.scored[next++].row = 64 * word + static_cast<std::uint32_t>(std::countr_zero(rest));
    }
  }
  for (std::size_t first = 0; first < kept; first += kBatch) {
    const std::size_t count = std::min(kBatch, kept - first);
    std::uint32_t rows[kBatch];
    double sums[kBatch];
    for (std::size_t i = 0; i < count; ++i) rows[i] = work.scored[first + i].row;
    call.sum_exactly({rows, count}, sums);
    for (std::size_t i = 0; i < count; ++i) work.scored[first + i].score = sums[i];
  }
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

void score_rows(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values,
                std::span<double> out) noexcept {
  Call call(plan, work, values);
  call.resolve();
  std::uint32_t rows[kBatch];
  for (std::size_t first = 0; first < out.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, out.size() - first);
    for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<std::uint32_t>(first + i);
    call.sum_exactly({rows, count}, out.data() + first);
  }
}

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
