// One call of a SlicedForest, compiled for each instruction set: most of it are loops over bits. Included
// after sliced-inl.h.
#include <algorithm>
#include <bit>
#include <cmath>

#include "forest/decide.h"
#include "forest/sliced_plan.h"

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
    std::ranges::copy(plan_.alive, work_.alive.begin());
    work_.vectors = plan_.fixed_vectors;
    work_.counts = {};
    for (const SlicedColumn& column : plan_.columns) {
      const bool categorical = column.decision & Decision::categorical;
      if (column.partition == SlicedFeature::one_value) {
        categorical ? answer_sets_once(column) : answer_once(column);
      } else {
        categorical ? answer_sets_by_row(column) : answer_by_row(column);
      }
    }
    work_.counts.questions = work_.vectors - plan_.fixed_vectors;
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) plan_tree(tree);
    sort_tasks();
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
  // ---- questions with one answer for all rows

  void cut(std::uint32_t first, std::uint32_t end, const std::vector<std::uint64_t>& keep) noexcept {
    std::uint64_t* const alive = work_.alive.data();
    const std::uint32_t* const word = plan_.cut_word.data();
    for (std::uint32_t at = first; at < end; ++at) alive[word[at]] &= keep[at];
  }
  /// All rows answer questions [first, end) alike.
  void all_left(std::uint32_t first, std::uint32_t end) noexcept {
    cut(plan_.cut_first[first], plan_.cut_first[end], plan_.keep_left);
  }
  void all_right(std::uint32_t first, std::uint32_t end) noexcept {
    cut(plan_.cut_first[first], plan_.cut_first[end], plan_.keep_right);
  }

  /// How many of the column's thresholds are below each value: those questions it answers with "right". The
  /// table tells how many stand in earlier buckets; the few of the same bucket are compared.
  template <std::uint8_t decision>
  void rank_as(const SlicedColumn& column, const double* HWY_RESTRICT values, std::uint32_t count,
               std::uint32_t* HWY_RESTRICT ranks) const noexcept {
    const double* const thresholds = plan_.padded_threshold.data() + column.first_threshold;
    const std::uint32_t* const before = plan_.bucket_rank.data() + column.first_rank;
    const std::int64_t first_bucket = column.first_bucket;
    const std::int64_t last_bucket = first_bucket + static_cast<std::int64_t>(column.buckets) - 1;
    const int shift = column.bucket_shift;
    const std::uint32_t compared = column.bucket_thresholds, questions = column.questions;
    for (std::uint32_t c = 0; c < count; ++c) {
      const double value = compared_value(values[c], decision);
      // Clamped before the difference is taken: far from the thresholds that one may overflow.
      const std::int64_t bucket = std::clamp(ordered_bits(value) >> shift, first_bucket, last_bucket);
      std::uint32_t rank = before[bucket - first_bucket];
      for (std::uint32_t i = 0; i < compared; ++i) rank += thresholds[rank] < value;
      ranks[c] = value == value ? rank : questions;
    }
  }

  void rank(const SlicedColumn& column, std::uint32_t count, std::uint32_t* ranks) const noexcept {
    const double* const values = values_[column.feature];
    switch (column.decision) {  // the six ways of treating missing values; set apart, the loop has no branch
      case 0:
        return rank_as<0>(column, values, count, ranks);
      case 4:
        return rank_as<4>(column, values, count, ranks);
      case 6:
        return rank_as<6>(column, values, count, ranks);
      case 8:
        return rank_as<8>(column, values, count, ranks);
      default:
        return rank_as<10>(column, values, count, ranks);
    }
  }

  void answer_once(const SlicedColumn& column) noexcept {
    std::uint32_t below = 0;
    rank(column, 1, &below);
    const std::uint32_t middle = column.first_question + below;
    all_right(column.first_question, middle);
    all_left(middle, column.first_question + column.questions);
  }

  bool in_set(std::uint32_t question, double value) const noexcept {
    return categorical_left(value,
                            {plan_.set_bits.data() + plan_.set_first[question], plan_.set_words[question]});
  }

  void answer_sets_once(const SlicedColumn& column) noexcept {
    const double value = values_[column.feature][0];
    for (std::uint32_t q = column.first_question; q < column.first_question + column.questions; ++q) {
      in_set(q, value) ? all_left(q, q + 1) : all_right(q, q + 1);
    }
  }

  // ---- questions that rows answer differently

  std::uint64_t* vector(std::size_t index) noexcept { return work_.bit_words() + index * plan_.words; }

  void mark(const SlicedPartition& partition, std::uint32_t row_class,
            std::uint64_t* HWY_RESTRICT to) noexcept {
    if (partition.first.empty()) {
      const std::size_t words = plan_.words;
      const std::uint64_t* HWY_RESTRICT rows = partition.vectors.data()->words + row_class * words;
      for (std::size_t w = 0; w < words; w += kLanes) {
        hn::Store(hn::Or(hn::Load(bits, to + w), hn::Load(bits, rows + w)), bits, to + w);
      }
      return;
    }
    const std::uint32_t* row = partition.rows.data() + partition.first[row_class];
    const std::uint32_t* const end = partition.rows.data() + partition.first[row_class + 1];
    for (; row != end; ++row) to[*row / 64] |= std::uint64_t{1} << (*row % 64);
  }

  /// Classes in the order of their ranks among the thresholds: a question's left rows are those of the
  /// question before and of the classes whose rank is its number.
  void answer_by_row(const SlicedColumn& column) noexcept {
    const SlicedPartition& partition = plan_.partitions[column.partition];
    const std::uint32_t* const ranks = work_.ranks.data();
    rank(column, partition.classes, work_.ranks.data());
    std::uint32_t lowest = column.questions, highest = 0;
    for (std::uint32_t c = 0; c < partition.classes; ++c) {
      lowest = std::min(lowest, ranks[c]);
      highest = std::max(highest, ranks[c]);
    }
    all_right(column.first_question, column.first_question + lowest);
    all_left(column.first_question + highest, column.first_question + column.questions);
    if (lowest == highest) return;
    sort_by_rank(partition.classes, lowest, highest);

    const std::uint32_t* row_class = work_.by_rank.data();
    const std::uint64_t* before = nullptr;
    for (std::uint32_t r = lowest; r < highest; ++r) {
      const std::uint32_t count = work_.bucket[r - lowest];
      if (count != 0) {
        std::uint64_t* const now = vector(work_.vectors++);
        before ? std::copy_n(before, plan_.words, now) : std::fill_n(now, plan_.words, 0);
        for (std::uint32_t i = 0; i < count; ++i) mark(partition, *row_class++, now);
        before = now;
      }
      work_.vector_of[column.first_question + r] = static_cast<std::uint32_t>(work_.vectors - 1);
    }
  }

  /// work.by_rank: the classes, lowest rank first; work.bucket: how many of each.
  void sort_by_rank(std::uint32_t classes, std::uint32_t lowest, std::uint32_t highest) noexcept {
    std::uint32_t* const bucket = work_.bucket.data();
    const std::uint32_t buckets = highest - lowest + 1;
    std::uint32_t* const next = bucket + buckets;
    const std::uint32_t* const ranks = work_.ranks.data();
    std::uint32_t* const by_rank = work_.by_rank.data();
    std::fill_n(bucket, buckets, 0u);
    for (std::uint32_t c = 0; c < classes; ++c) ++bucket[ranks[c] - lowest];
    std::uint32_t sum = 0;
    for (std::uint32_t b = 0; b < buckets; ++b) {
      next[b] = sum;
      sum += bucket[b];
    }
    for (std::uint32_t c = 0; c < classes; ++c) by_rank[next[ranks[c] - lowest]++] = c;
  }

  void answer_sets_by_row(const SlicedColumn& column) noexcept {
    const SlicedPartition& partition = plan_.partitions[column.partition];
    for (std::uint32_t q = column.first_question; q < column.first_question + column.questions; ++q) {
      std::uint64_t* const to = vector(work_.vectors);
      std::fill_n(to, plan_.words, 0);
      std::uint32_t left = 0;
      for (std::uint32_t c = 0; c < partition.classes; ++c) {
        if (!in_set(q, values_[column.feature][c])) continue;
        mark(partition, c, to);
        ++left;
      }
      if (left == partition.classes) {
        all_left(q, q + 1);
      } else if (left == 0) {
        all_right(q, q + 1);
      } else {
        work_.vector_of[q] = static_cast<std::uint32_t>(work_.vectors++);
      }
    }
  }

  // ---- what is left of each tree

  /// How many alive leaves of a tree stand before a leaf: their numbers in steps and codes.
  struct OneWord {
    std::uint64_t alive;
    std::uint32_t before_begin(std::uint32_t leaf) const noexcept {  // leaf < 64
      return static_cast<std::uint32_t>(std::popcount(alive & ~(~std::uint64_t{0} << leaf)));
    }
    std::uint32_t before(std::uint32_t leaf) const noexcept {  // 0 < leaf <= 64
      return static_cast<std::uint32_t>(std::popcount(alive << (64 - leaf)));
    }
  };
  struct ManyWords {
    const std::uint64_t* alive;
    const std::uint32_t* words_before;
    std::uint32_t before_begin(std::uint32_t leaf) const noexcept { return before(leaf); }
    std::uint32_t before(std::uint32_t leaf) const noexcept {
      const std::uint64_t lower = alive[leaf / 64] & ((std::uint64_t{1} << (leaf % 64)) - 1);
      return words_before[leaf / 64] + static_cast<std::uint32_t>(std::popcount(lower));
    }
  };

  void plan_tree(std::size_t index) noexcept {
    const SlicedTree& tree = plan_.trees[index];
    const std::uint64_t* const alive = work_.alive.data() + tree.alive_word;
    SlicedTask task;
    task.tree = static_cast<std::uint32_t>(index);
    task.first_step = tree.first_node;
    task.first_leaf = tree.first_leaf + task.tree;  // each tree has room for one more: the last partner
    task.planes = tree.planes;
    if (tree.alive_words == 1) {
      task.leaves = 1 + plan_steps(tree, OneWord{*alive});
    } else {
      std::uint32_t* const words_before = work_.bucket.data();
      std::uint32_t sum = 0;
      for (std::uint32_t word = 0; word <= tree.alive_words; ++word) {
        words_before[word] = sum;
        if (word < tree.alive_words) sum += static_cast<std::uint32_t>(std::popcount(alive[word]));
      }
      task.leaves = 1 + plan_steps(tree, ManyWords{alive, words_before});
    }
    std::size_t count = task.first_leaf;
    for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
      for (std::uint64_t rest = alive[word]; rest != 0; rest &= rest - 1) {
        const std::size_t leaf =
            tree.first_leaf + 64 * word + static_cast<std::size_t>(std::countr_zero(rest));
        work_.values[count] = plan_.leaf_value[leaf];
        work_.codes[count++] = plan_.leaf_code[leaf];
      }
    }
    work_.codes[count] = 0;  // the partner of the last of an odd number of leaves
    work_.tasks[index] = task;
    ++(task.leaves > 1 ? work_.counts.sliced : work_.counts.constant);
  }

  /// Steps are written whether they part the leaves or not, and kept when they do: no branch to predict.
  template <class Alive>
  std::uint32_t plan_steps(const SlicedTree& tree, Alive alive) noexcept {
    SlicedStep* const steps = work_.steps.data() + tree.first_node;
    const std::uint32_t* const vector_of = work_.vector_of.data();
    const SlicedNode* node = plan_.nodes.data() + tree.first_node;
    std::uint32_t count = 0;
    for (const SlicedNode* const end = node + tree.nodes; node != end; ++node) {
      const std::uint32_t left = alive.before_begin(node->begin), right = alive.before(node->middle);
      const std::uint32_t after = alive.before(node->end);
      steps[count] = {vector_of[node->question], static_cast<std::uint16_t>(left),
                      static_cast<std::uint16_t>(right)};
      count += static_cast<std::uint32_t>(left < right) & static_cast<std::uint32_t>(right < after);
    }
    return count;
  }

  /// work.sorted_tasks: trees that part the rows, fewest leaves first, so that the kernel's loops repeat.
  void sort_tasks() noexcept {
    std::uint32_t* const next = work_.tasks_by_leaves.data();
    std::fill(work_.tasks_by_leaves.begin(), work_.tasks_by_leaves.end(), 0u);
    for (const std::uint32_t tree : plan_.order) ++next[work_.tasks[tree].leaves];
    std::uint32_t sum = 0;
    next[1] = 0;  // constant trees are left out: they add the same to every row
    for (std::size_t leaves = 2; leaves <= plan_.most_leaves; ++leaves) {
      const std::uint32_t count = next[leaves];
      next[leaves] = sum;
      sum += count;
    }
    for (const std::uint32_t tree : plan_.order) {
      const SlicedTask& task = work_.tasks[tree];
      if (task.leaves > 1) work_.sorted_tasks[next[task.leaves]++] = task;
    }
  }

  // ---- rounded sums

  const std::uint64_t* plane(std::size_t p) const noexcept {
    return work_.planes.data()->words + p * plan_.words;
  }

  /// Most by which the rounded sums of two rows may mislead, divided by two.
  double rounding_error() const noexcept {
    double error = 0;
    for (const std::uint32_t tree : plan_.order) {
      if (work_.tasks[tree].leaves > 1) error += plan_.trees[tree].error;
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

  static constexpr hn::CappedTag<std::uint32_t, kBatch> lanes{};

  /// Answers of the batch's rows: lane i of batch_bits[v] is 0 or all ones.
  void gather_batch(std::span<const std::uint32_t> rows) noexcept {
    for (std::size_t v = 0; v < work_.vectors; ++v) {
      const std::uint64_t* const from = vector(v);
      std::uint32_t* const to = work_.batch_bits.data() + v * kBatch;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        to[i] = -static_cast<std::uint32_t>((from[rows[i] / 64] >> (rows[i] % 64)) & 1);
      }
    }
  }

  /// The leaf of each row of the batch: it moves from the first leaf of a node to the first on its right.
  void find_leaves(const SlicedTask& task, std::size_t rows) noexcept {
    const SlicedStep* const steps = work_.steps.data() + task.first_step;
    double* const to = work_.batch_values.data() + task.tree * kBatch;
    for (std::size_t first = 0; first < rows; first += hn::Lanes(lanes)) {
      auto leaf = hn::Zero(lanes);
      for (std::size_t s = 0; s + 1 < task.leaves; ++s) {
        const auto answer = hn::LoadU(lanes, work_.batch_bits.data() + steps[s].vector * kBatch + first);
        const auto here = hn::VecFromMask(lanes, hn::Eq(leaf, hn::Set(lanes, std::uint32_t{steps[s].leaf})));
        const auto moves = hn::MaskFromVec(hn::AndNot(answer, here));
        leaf = hn::IfThenElse(moves, hn::Set(lanes, std::uint32_t{steps[s].right}), leaf);
      }
      std::uint32_t found[kBatch];
      hn::StoreU(leaf, lanes, found);
      for (std::size_t i = 0; i < hn::Lanes(lanes) && first + i < rows; ++i) {
        to[first + i] = work_.values[task.first_leaf + found[i]];
      }
    }
  }

  /// Adds what find_leaves found in the order of the trees.
  void add_leaves_in_order(std::size_t rows, double* sums) noexcept {
    std::fill_n(sums, rows, 0.0);
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) {
      const SlicedTask& task = work_.tasks[tree];
      const bool constant = task.leaves == 1;
      const double* const from =
          constant ? work_.values.data() + task.first_leaf : work_.batch_values.data() + tree * kBatch;
      for (std::size_t i = 0; i < rows; ++i) sums[i] += from[constant ? 0 : i];
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
