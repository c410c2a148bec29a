#include "forest/sliced_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "core/fail.h"
#include "forest/forest.h"
#include "forest/sliced_numbers.h"

namespace kscout {

namespace {

/// AMD's cores before Zen 3 take tens to hundreds of cycles for one PEXT; without it a row costs more to drop
/// than to keep.
bool extracts_bits_fast() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam17h") == 0;
#else
  return true;
#endif
}

/// Builds a plan step by step; each function fills the members that it names.
class Planner {
 public:
  Planner(const Forest& forest, const SlicedRows& rows, SlicedQuestions questions, SlicedPlan& plan)
      : forest_(forest),
        rows_(rows),
        plan_(plan),
        questions_(std::move(questions.questions)),
        question_of_(std::move(questions.question_of)),
        answers_(std::move(questions.answers)) {}

  void run() {
    plan_columns();
    plan_thresholds();
    plan_lookups();
    plan_.most_vectors = plan_.fixed_vectors + most_call_vectors();
    plan_partitions();
    lay_out_trees();
    for (std::size_t tree = 0; tree < forest_.tree_count(); ++tree) plan_tree(tree);
    question_of_ = {};
    plan_cuts();
    round_leaves(plan_);
    give_back_spare_memory();
  }

 private:
  // plan.columns, call_columns; column_of_
  void plan_columns() {
    column_of_.assign(questions_.size(), kSlicedNone);
    for (std::uint32_t q = 0; q < questions_.size(); ++q) {
      if (cuts(q)) add_to_column(q, 0);
    }
    plan_.call_columns = plan_.columns.size();
    // Only nodes in bytes name columns whose answers are known.
    for (std::uint32_t q = 0; q < questions_.size() && plan_.columns.size() < kSlicedLookup; ++q) {
      if (answers_[q] == Answers::fixed) add_to_column(q, plan_.call_columns);
    }
  }

  std::span<SlicedColumn> call_columns() { return std::span(plan_.columns).first(plan_.call_columns); }

  // plan.extents, first_question
  void plan_lookups() {
    for (std::size_t c = 0; c < std::min(plan_.columns.size(), kSlicedLookup); ++c) {
      const SlicedColumn& column = plan_.columns[c];
      if (c >= plan_.call_columns) plan_.extents.of[c] = sliced_extent(0, column.questions);
      if (looked_up(column.first_question)) {
        plan_.first_question.of[c] = static_cast<std::uint16_t>(column.first_question);
      }
    }
  }

  /// One value fewer than classes can part a feature's thresholds: those without a value between them ask the
  /// same, unless they are of two columns.
  std::size_t most_call_vectors() {
    std::size_t most = 0;
    std::span<const SlicedColumn> columns = call_columns();
    while (!columns.empty()) {
      const SlicedColumn& first = columns.front();
      std::size_t count = 0, questions = 0;
      do {
        questions += columns[count++].questions;
      } while (count < columns.size() && continues(first, columns[count].feature, columns[count].decision));
      const std::size_t parts = rows_.classes(first.partition) - 1;
      if (parts > 0) most += std::min(questions, parts + count - 1);
      columns = columns.subspan(count);
    }
    return most;
  }

  /// Whether a numerical feature's questions go on.
  static bool continues(const SlicedColumn& column, std::uint32_t feature, std::uint8_t decision) {
    return column.feature == feature && column.decision == decision && !(decision & Decision::categorical);
  }

  /// To the last column, if it is one of those from `first` on and has room.
  void add_to_column(std::uint32_t q, std::size_t first) {
    const SlicedQuestion& question = questions_[q];
    const auto fits = [&](const SlicedColumn& column) {
      return continues(column, question.feature, question.decision) &&
             column.first_question + column.questions == q && column.questions < kSlicedColumnQuestions;
    };
    if (plan_.columns.size() == first || !fits(plan_.columns.back())) {
      SlicedColumn column;
      column.feature = question.feature;
      column.decision = question.decision;
      column.partition = rows_.features[question.feature].partition;
      column.first_question = q;
      plan_.columns.push_back(column);
    }
    ++plan_.columns.back().questions;
    column_of_[q] = static_cast<std::uint32_t>(plan_.columns.size() - 1);
  }

  /// Whether SlicedLookup says all about a question of a column.
  bool looked_up(std::uint32_t question) const {
    const std::uint32_t column = column_of_[question];
    return column < kSlicedLookup && plan_.columns[column].first_question <= UINT16_MAX;
  }

  // plan.padded_threshold, and where a column's thresholds stand there
  void plan_thresholds() {
    for (SlicedColumn& column : call_columns()) {
      column.first_threshold = static_cast<std::uint32_t>(plan_.padded_threshold.size());
      for (std::uint32_t q = column.first_question; q < column.first_question + column.questions; ++q) {
        plan_.padded_threshold.push_back(questions_[q].threshold);
      }
      if (column.decision & Decision::categorical) continue;  // nothing compares sets in vectors
      plan_.padded_threshold.insert(plan_.padded_threshold.end(), kSlicedThresholdRoom,
                                    std::numeric_limits<double>::quiet_NaN());
    }
  }

  // plan.partitions, most_classes: those that columns use
  void plan_partitions() {
    plan_.partitions.resize(rows_.partitions.size());
    for (const SlicedColumn& column : call_columns()) {
      if (column.partition == SlicedFeature::one_value) continue;
      SlicedPartition& to = plan_.partitions[column.partition];
      if (to.classes == 0) plan_partition(column.partition, to);
      plan_.most_classes = std::max<std::size_t>(plan_.most_classes, to.classes);
    }
  }

  void plan_partition(std::uint32_t partition, SlicedPartition& to) {
    const std::vector<std::uint32_t>& class_of = rows_.partitions[partition].class_of;
    to.classes = rows_.classes(partition);
    if (to.classes <= kFewClasses && to.classes * plan_.words <= 4 * plan_.rows) {
      to.vectors.resize(sliced_lines(to.classes * plan_.words));
      std::uint64_t* const words = to.vectors.empty() ? nullptr : std::data(to.vectors.data()->words);
      for (std::size_t row = 0; row < class_of.size(); ++row) {
        words[class_of[row] * plan_.words + row / 64] |= std::uint64_t{1} << (row % 64);
      }
    } else if (std::ranges::adjacent_find(class_of, std::greater_equal{}) != class_of.end()) {
      to.class_of = Spread(class_of);
    }
  }

  bool keeps(std::uint32_t question) const {
    return answers_[question] == Answers::fixed || answers_[question] == Answers::by_row;
  }
  bool cuts(std::uint32_t question) const {
    return answers_[question] == Answers::by_call || answers_[question] == Answers::by_row;
  }

  std::span<const std::uint32_t> questions_of(std::size_t tree) const {
    const std::size_t first = forest_.tree_nodes[tree];
    return std::span(question_of_).subspan(first, forest_.tree_nodes[tree + 1] - first);
  }

  bool fits_bytes(std::span<const std::uint32_t> questions) const {
    return plan_.kernels->reads_bytes && questions.size() < kWordLeaves &&
           std::ranges::all_of(questions, [this](auto q) { return !(keeps(q) || cuts(q)) || looked_up(q); });
  }

  static std::size_t groups(std::size_t count, std::size_t size) { return (count + size - 1) / size; }
  /// Narrow nodes stand in whole vectors, which have two of them in each word of 64 bits.
  std::size_t narrow_lanes() const { return 2 * plan_.kernels->lanes; }

  /// Where the leaves and nodes of each tree will stand, and room for those of all: a vector that grows holds
  /// its elements twice for a while, and copies them.
  // plan.trees, most_leaves, pairs; the sizes of leaf_value and alive
  void lay_out_trees() {
    std::size_t leaves = 0, words = 0, in_bytes = 0, narrow = 0, wide = 0, cut = 0;
    const auto take = [](std::size_t& next, std::size_t count) {
      return static_cast<std::uint32_t>(std::exchange(next, next + count));
    };
    plan_.trees.reserve(forest_.tree_count());
    for (std::size_t index = 0; index < forest_.tree_count(); ++index) {
      const auto questions = questions_of(index);
      const auto count = [&](auto which) {
        return static_cast<std::size_t>(std::ranges::count_if(questions, which));
      };
      const std::size_t kept = count([this](auto q) { return keeps(q); });
      SlicedTree tree;
      tree.leaves = leaf_count(index);
      tree.first_leaf = take(leaves, tree.leaves);
      tree.alive_words = static_cast<std::uint16_t>(groups(tree.leaves, kWordLeaves));
      tree.alive_word = take(words, tree.alive_words);
      tree.in_bytes = fits_bytes(questions);
      plan_.all_in_bytes = plan_.all_in_bytes && tree.in_bytes;
      if (tree.in_bytes) {
        const std::size_t asked = count([this](auto q) { return keeps(q) || cuts(q); });
        tree.first_node = take(in_bytes, groups(asked, SlicedNodes::count));
      } else {
        tree.first_node = tree.leaves > kWordLeaves
                              ? take(wide, kept)
                              : take(narrow, groups(kept, narrow_lanes()) * narrow_lanes());
        cut += count([this](auto q) { return cuts(q); });
      }
      plan_.most_leaves = std::max<std::size_t>(plan_.most_leaves, tree.leaves);
      plan_.pairs += sliced_pairs(tree.leaves);
      plan_.trees.push_back(tree);
    }
    plan_.leaf_value.resize(leaves);
    plan_.alive.resize(words);
    plan_.byte_nodes.reserve(in_bytes);
    plan_.wide_nodes.reserve(wide);
    plan_.left_leaves.reserve(narrow);
    plan_.right_leaves.reserve(narrow);
    plan_.node_question.reserve(narrow);
    cuts_.reserve(cut);
  }

  std::uint16_t leaf_count(std::size_t tree) const {
    const std::size_t leaves = questions_of(tree).size() + 1;
    if (leaves > kMostLeaves) {
      fail(Errc::unsupported, "sliced forest: tree {} has {} leaves; at most {}", tree, leaves, kMostLeaves);
    }
    return static_cast<std::uint16_t>(leaves);
  }

  // the tree's nodes, alive, leaf_value; steps; cuts_
  void plan_tree(std::size_t index) {
    SlicedTree& tree = plan_.trees[index];
    for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
      plan_.alive[tree.alive_word + word] = range_in_word(0, tree.leaves, word);
    }
    const std::vector<SlicedNode> nodes = number_leaves(index);
    place_leaves(index, nodes);
    for (const SlicedNode& node : nodes) plan_node(tree, node);
    while (plan_.node_question.size() % narrow_lanes() != 0) add_narrow_node(0, 0, 0);
  }

  /// All nodes of the tree, with the leaves below them.
  std::vector<SlicedNode> number_leaves(std::size_t tree) const {
    const std::size_t first = forest_.tree_nodes[tree], count = forest_.tree_nodes[tree + 1] - first;
    std::vector<SlicedNode> nodes(count);
    // How many leaves are below each node, children before parents; then where they begin, parents before
    // children.
    std::vector<std::uint16_t> below(count);
    const auto below_child = [&](std::int32_t child) {
      return child < 0 ? std::uint16_t{1} : below[static_cast<std::size_t>(child)];
    };
    for (std::size_t n = count; n-- > 0;) {
      below[n] = static_cast<std::uint16_t>(below_child(forest_.left[first + n]) +
                                            below_child(forest_.right[first + n]));
    }
    for (std::size_t n = 0; n < count; ++n) {
      const std::int32_t left = forest_.left[first + n], right = forest_.right[first + n];
      SlicedNode& node = nodes[n];
      node.question = question_of_[first + n];
      node.middle = static_cast<std::uint16_t>(node.begin + below_child(left));
      node.end = static_cast<std::uint16_t>(node.begin + below[n]);
      if (left >= 0) nodes[static_cast<std::size_t>(left)].begin = node.begin;
      if (right >= 0) nodes[static_cast<std::size_t>(right)].begin = node.middle;
    }
    return nodes;
  }

  // plan.leaf_value of the tree
  void place_leaves(std::size_t tree, std::span<const SlicedNode> nodes) {
    const std::size_t first = forest_.tree_nodes[tree];
    const double* const from = forest_.leaf_value.data() + forest_.tree_leaves[tree];
    double* const to = plan_.leaf_value.data() + plan_.trees[tree].first_leaf;
    if (nodes.empty()) to[0] = from[0];
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const std::int32_t left = forest_.left[first + n], right = forest_.right[first + n];
      if (left < 0) to[nodes[n].begin] = from[~left];
      if (right < 0) to[nodes[n].middle] = from[~right];
    }
  }

  void plan_node(SlicedTree& tree, const SlicedNode& node) {
    const Answers answers = answers_[node.question];
    if (answers == Answers::all_left) {
      for_each_cut({tree.alive_word, node},
                   [this](auto word, auto keep_left, auto) { plan_.alive[word] &= keep_left; });
    } else if (answers == Answers::all_right) {
      for_each_cut({tree.alive_word, node},
                   [this](auto word, auto, auto keep_right) { plan_.alive[word] &= keep_right; });
    } else if (tree.in_bytes) {
      add_byte_node(tree, node);
    } else {
      if (keeps(node.question)) keep_node(tree, node);
      if (cuts(node.question)) cuts_.push_back({tree.alive_word, node});
    }
    plan_.steps += keeps(node.question);
  }

  /// A node that a call's values may rule out, of a tree that is not in bytes.
  struct Cut {
    std::uint32_t alive_word;  // of its tree
    SlicedNode node;
  };
  /// Calls cut(word of plan.alive, leaves that stay on "left", leaves that stay on "right").
  template <class OfWord>
  static void for_each_cut(const Cut& cut, const OfWord& of_word) {
    const auto [question, begin, middle, end] = cut.node;
    for (std::uint32_t word = begin / kWordLeaves; word <= (end - 1u) / kWordLeaves; ++word) {
      of_word(cut.alive_word + word, ~range_in_word(middle, end, word), ~range_in_word(begin, middle, word));
    }
  }

  void keep_node(SlicedTree& tree, const SlicedNode& node) {
    ++tree.nodes;
    if (tree.leaves > kWordLeaves) {
      plan_.wide_nodes.push_back(node);
    } else {
      add_narrow_node(range_in_word(node.begin, node.middle, 0), range_in_word(node.middle, node.end, 0),
                      node.question);
    }
  }

  void add_narrow_node(LeafWord left, LeafWord right, std::uint32_t question) {
    plan_.left_leaves.push_back(left);
    plan_.right_leaves.push_back(right);
    plan_.node_question.push_back(question);
  }

  void add_byte_node(SlicedTree& tree, const SlicedNode& node) {
    const std::size_t place = tree.nodes++ % SlicedNodes::count;
    if (place == 0) plan_.byte_nodes.emplace_back();
    const std::uint32_t column = column_of_[node.question];
    SlicedNodes& to = plan_.byte_nodes.back();
    to.column[place] = static_cast<std::uint8_t>(column);
    to.rank[place] = static_cast<std::uint8_t>(node.question - plan_.columns[column].first_question);
    to.begin[place] = static_cast<std::uint8_t>(node.begin);
    to.middle[place] = static_cast<std::uint8_t>(node.middle);
    to.end[place] = static_cast<std::uint8_t>(node.end);
  }

  static LeafWord range_in_word(std::uint32_t begin, std::uint32_t end, std::uint32_t word) {
    const std::uint32_t first = kWordLeaves * word;
    const std::uint32_t from = std::max(begin, first), to = std::min(end, first + kWordLeaves);
    if (from >= to) return 0;
    return (~LeafWord{0} >> (kWordLeaves - (to - from))) << (from - first);
  }

  // plan.cut_first, cut_word, keep_left, keep_right
  void plan_cuts() {
    plan_.cut_first.assign(questions_.size() + 1, 0);
    for (const Cut& cut : cuts_) {
      const std::uint32_t words = (cut.node.end - 1u) / kWordLeaves - cut.node.begin / kWordLeaves + 1;
      plan_.cut_first[cut.node.question + 1] += words;
    }
    std::partial_sum(plan_.cut_first.begin(), plan_.cut_first.end(), plan_.cut_first.begin());
    plan_.cut_word.resize(plan_.cut_first.back());
    plan_.keep_left.resize(plan_.cut_first.back());
    plan_.keep_right.resize(plan_.cut_first.back());
    auto next = plan_.cut_first;
    for (const Cut& cut : cuts_) {
      std::uint32_t& at = next[cut.node.question];
      for_each_cut(cut, [&](auto word, auto keep_left, auto keep_right) {
        plan_.cut_word[at] = word;
        plan_.keep_left[at] = keep_left;
        plan_.keep_right[at] = keep_right;
        ++at;
      });
    }
    cuts_ = {};
  }

  /// A vector that grew holds up to twice what it needs.
  void give_back_spare_memory() {
    const auto shrink = [](auto&... of) { (of.shrink_to_fit(), ...); };
    shrink(plan_.columns, plan_.padded_threshold, plan_.fixed_bits);
  }

  const Forest& forest_;
  const SlicedRows& rows_;
  SlicedPlan& plan_;
  std::vector<SlicedQuestion> questions_;
  std::vector<std::uint32_t> question_of_;  ///< by node of the forest
  std::vector<Answers> answers_;            ///< by question
  std::vector<std::uint32_t> column_of_;    ///< by question: its number in plan.columns
  std::vector<Cut> cuts_;
};

}  // namespace

SlicedPlan make_sliced_plan(const Forest& forest, const SlicedRows& rows, Best best,
                            const SlicedKernels& kernels) {
  SlicedPlan plan;
  plan.rows = rows.rows;
  plan.best = best;
  plan.average = forest.average;
  plan.kernels = &kernels;
  plan.words = ((rows.rows + 63) / 64 + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  plan.drops_rows = plan.words > kSlicedDropWords && extracts_bits_fast();
  Planner(forest, rows, number_sliced_questions(forest, rows, plan), plan).run();
  return plan;
}

}  // namespace kscout
