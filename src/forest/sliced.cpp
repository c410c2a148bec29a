#include "forest/sliced.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "forest/decide.h"
#include "forest/sliced_plan.h"

namespace kscout {

namespace {

constexpr std::size_t kBatch = 64;  ///< rows summed in doubles at once: the bits of a word

std::size_t lines_of(std::size_t words) { return (words + 7) / 8; }

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
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) {
      plan_.trees[tree].alive_words == 1 ? plan_steps(tree) : plan_steps_of_words(tree);
    }
  }

  /// Rounded sums of all rows: work.planes.
  void add_rounded() noexcept {
    sort_tasks();
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
    plan_.kernels->add_trees(job);
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
    std::fill_n(sums, rows.size(), 0.0);
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) add_exact_tree(tree, rows.size(), sums);
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

  /// How many of the column's thresholds are below the value: those questions it answers with "right".
  std::uint32_t rank(const SlicedColumn& column, double value) const noexcept {
    value = compared_value(value, column.decision);
    if (value != value) return column.questions;
    const double* base = plan_.threshold.data() + column.first_question;
    std::uint32_t length = column.questions;
    const double* const begin = base;
    while (length > 1) {  // without branches on the values, which nobody can predict
      const std::uint32_t half = length / 2;
      base = base[half - 1] < value ? base + half : base;
      length -= half;
    }
    return static_cast<std::uint32_t>(base - begin) + (*base < value);
  }

  void answer_once(const SlicedColumn& column) noexcept {
    const std::uint32_t middle = column.first_question + rank(column, values_[column.feature][0]);
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

  void mark(const SlicedPartition& partition, std::uint32_t row_class, std::uint64_t* to) noexcept {
    if (partition.first.empty()) {
      const std::uint64_t* const rows = partition.vectors.data()->words + row_class * plan_.words;
      for (std::size_t w = 0; w < plan_.words; ++w) to[w] |= rows[w];
      return;
    }
    for (std::uint32_t at = partition.first[row_class]; at < partition.first[row_class + 1]; ++at) {
      to[partition.rows[at] / 64] |= std::uint64_t{1} << (partition.rows[at] % 64);
    }
  }

  /// Classes in the order of their ranks among the thresholds: a question's left rows are those of the
  /// question before and of the classes whose rank is its number.
  void answer_by_row(const SlicedColumn& column) noexcept {
    const SlicedPartition& partition = plan_.partitions[column.partition];
    const double* const values = values_[column.feature];
    std::uint32_t lowest = column.questions, highest = 0;
    for (std::uint32_t c = 0; c < partition.classes; ++c) {
      const std::uint32_t r = rank(column, values[c]);
      work_.ranks[c] = r;
      lowest = std::min(lowest, r);
      highest = std::max(highest, r);
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
    std::fill_n(bucket, buckets, 0u);
    for (std::uint32_t c = 0; c < classes; ++c) ++bucket[work_.ranks[c] - lowest];
    std::uint32_t sum = 0;
    for (std::uint32_t b = 0; b < buckets; ++b) {
      next[b] = sum;
      sum += bucket[b];
    }
    for (std::uint32_t c = 0; c < classes; ++c) work_.by_rank[next[work_.ranks[c] - lowest]++] = c;
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

  void add_step(SlicedTask& task, std::uint32_t question, std::size_t leaf, std::size_t right) noexcept {
    work_.steps[task.first_step + task.leaves++] = {
        work_.vector_of[question], static_cast<std::uint16_t>(leaf), static_cast<std::uint16_t>(right)};
  }

  SlicedTask begin_task(const SlicedTree& tree) const noexcept {
    SlicedTask task;
    task.first_step = tree.first_node;
    task.first_code = tree.first_leaf;
    task.planes = tree.planes;
    return task;
  }

  void end_task(std::size_t tree, SlicedTask task) noexcept {
    ++task.leaves;  // one more than steps
    work_.tasks[tree] = task;
    ++(task.leaves > 1 ? work_.counts.sliced : work_.counts.constant);
  }

  void plan_steps(std::size_t index) noexcept {
    const SlicedTree& tree = plan_.trees[index];
    const std::uint64_t alive = work_.alive[tree.alive_word];
    SlicedTask task = begin_task(tree);
    const SlicedNode* node = plan_.nodes.data() + tree.first_node;
    const SlicedNode* const end = node + tree.nodes;
    for (; node != end; ++node) {
      const std::uint32_t left =
          node->begin + static_cast<std::uint32_t>(std::countr_zero(alive >> node->begin));
      const std::uint32_t right =
          node->middle + static_cast<std::uint32_t>(std::countr_zero(alive >> node->middle));
      if (left >= node->middle || right >= node->end) continue;
      const auto before = [&](std::uint32_t leaf) {
        return static_cast<std::size_t>(std::popcount(alive & ((std::uint64_t{1} << leaf) - 1)));
      };
      add_step(task, node->question, before(left), before(right));
    }
    std::size_t count = 0;
    for (std::uint64_t rest = alive; rest != 0; rest &= rest - 1) {
      add_code(task, count++, tree.first_leaf + static_cast<std::size_t>(std::countr_zero(rest)));
    }
    end_task(index, task);
  }

  void add_code(const SlicedTask& task, std::size_t count, std::size_t leaf) noexcept {
    std::uint64_t& code = work_.codes[task.first_code + count / 2];
    code = count % 2 == 0 ? plan_.leaf_code[leaf] : code | plan_.leaf_code[leaf] << 1;
  }

  /// The same for trees of more than 64 leaves.
  void plan_steps_of_words(std::size_t index) noexcept {
    const SlicedTree& tree = plan_.trees[index];
    const std::uint64_t* const alive = work_.alive.data() + tree.alive_word;
    const auto first_alive = [&](std::uint32_t from, std::uint32_t end) -> std::uint32_t {
      for (std::uint32_t word = from / 64; word <= (end - 1) / 64; ++word) {
        const std::uint64_t left =
            word == from / 64 ? alive[word] >> (from % 64) << (from % 64) : alive[word];
        if (left != 0) return 64 * word + static_cast<std::uint32_t>(std::countr_zero(left));
      }
      return end;
    };
    // How many alive leaves stand before each word, then before each leaf.
    std::uint32_t* const words_before = work_.bucket.data();
    std::uint32_t sum = 0;
    for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
      words_before[word] = sum;
      sum += static_cast<std::uint32_t>(std::popcount(alive[word]));
    }
    const auto before = [&](std::uint32_t leaf) -> std::size_t {
      const std::uint64_t lower = alive[leaf / 64] & ((std::uint64_t{1} << (leaf % 64)) - 1);
      return words_before[leaf / 64] + static_cast<std::size_t>(std::popcount(lower));
    };
    SlicedTask task = begin_task(tree);
    for (std::size_t n = tree.first_node; n < tree.first_node + tree.nodes; ++n) {
      const SlicedNode& node = plan_.nodes[n];
      const std::uint32_t left = first_alive(node.begin, node.middle);
      const std::uint32_t right = first_alive(node.middle, node.end);
      if (left >= node.middle || right >= node.end) continue;
      add_step(task, node.question, before(left), before(right));
    }
    std::size_t count = 0;
    for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
      for (std::uint64_t rest = alive[word]; rest != 0; rest &= rest - 1) {
        add_code(task, count++,
                 tree.first_leaf + 64 * word + static_cast<std::size_t>(std::countr_zero(rest)));
      }
    }
    end_task(index, task);
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

  /// Answers of the batch's rows: bit i of batch_bits[v] = row i in vector v.
  void gather_batch(std::span<const std::uint32_t> rows) noexcept {
    for (std::size_t v = 0; v < work_.vectors; ++v) {
      const std::uint64_t* const from = vector(v);
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) word |= ((from[rows[i] / 64] >> (rows[i] % 64)) & 1) << i;
      work_.batch_bits[v] = word;
    }
  }

  void add_exact_tree(std::size_t index, std::size_t rows, double* sums) noexcept {
    const SlicedTree& tree = plan_.trees[index];
    const SlicedTask& task = work_.tasks[index];
    std::uint64_t* const slots = work_.batch_slots.data();
    slots[0] = ~std::uint64_t{0} >> (kBatch - rows);
    for (std::size_t s = 0; s + 1 < task.leaves; ++s) {
      const SlicedStep& step = work_.steps[task.first_step + s];
      const std::uint64_t answers = work_.batch_bits[step.vector];
      slots[step.right] = slots[step.leaf] & ~answers;
      slots[step.leaf] &= answers;
    }
    const std::uint64_t* slot = slots;
    for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
      for (std::uint64_t rest = work_.alive[tree.alive_word + word]; rest != 0; rest &= rest - 1) {
        const double value =
            plan_.leaf_value[tree.first_leaf + 64 * word + static_cast<std::size_t>(std::countr_zero(rest))];
        for (std::uint64_t in = *slot++; in != 0; in &= in - 1) sums[std::countr_zero(in)] += value;
      }
    }
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
  std::span<const double* const> values_;
};

}  // namespace

SlicedWork::SlicedWork(const SlicedPlan& plan) {
  std::size_t alive_words = 1, questions = 0;
  for (const SlicedTree& tree : plan.trees)
    alive_words = std::max<std::size_t>(alive_words, tree.alive_words);
  for (const SlicedColumn& column : plan.columns)
    questions = std::max<std::size_t>(questions, column.questions);
  bits.resize(lines_of((plan.most_vectors + 1) * plan.words));
  std::ranges::copy(plan.fixed_bits, bits.begin());
  vector_of = plan.fixed_vector;
  alive.resize(plan.alive.size());
  ranks.resize(plan.most_classes);
  by_rank.resize(plan.most_classes);
  bucket.resize(std::max(2 * (questions + 1), alive_words));
  steps.resize(plan.nodes.size() + 1);
  codes.resize(plan.leaf_value.size() + 1);
  tasks.resize(plan.trees.size());
  sorted_tasks.resize(plan.trees.size());
  tasks_by_leaves.resize(plan.most_leaves + 2);
  planes.resize(lines_of(plan.planes * plan.words + 1));
  slots.resize(lines_of(sliced_slot_words(plan.most_leaves + 1)));
  survivors.resize(plan.words);
  candidates.resize(plan.words);
  batch_bits.resize(plan.most_vectors + 1);
  batch_slots.resize(plan.most_leaves + 1);
  scored.resize(plan.rows);
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
  SlicedWork& work = *scratch.work_;
  Call call(*plan_, work, values);
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
  const bool highest = plan_->best == Best::highest;
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

void SlicedForest::scores(std::span<const double* const> values, std::span<double> out,
                          Scratch& scratch) const noexcept {
  Call call(*plan_, *scratch.work_, values);
  call.resolve();
  std::uint32_t rows[kBatch];
  for (std::size_t first = 0; first < out.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, out.size() - first);
    for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<std::uint32_t>(first + i);
    call.sum_exactly({rows, count}, out.data() + first);
  }
}

}  // namespace kscout
