#include "forest/sliced_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "core/distinct.h"
#include "core/fail.h"
#include "core/hash.h"
#include "forest/decide.h"

namespace kscout {

namespace {

constexpr std::uint32_t kNone = UINT32_MAX;
constexpr double kDoubleStep = 0x1p-52;

/// Whose answers to a question differ, and when they are known.
enum class Answers : std::uint8_t {
  all_left,
  all_right,  // known now
  fixed,      // known now, by row
  by_call,    // one answer for all rows
  by_row,     // of the call, by row
};

struct Question {
  std::uint32_t feature;
  std::uint8_t decision;
  double threshold;  // or the number of the category set
};

std::size_t lines_of(std::size_t words) { return (words + 7) / 8; }

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
  Planner(const Forest& forest, const SlicedRows& rows, SlicedPlan& plan)
      : forest_(forest), rows_(rows), plan_(plan) {}

  void run() {
    check_rows();
    number_questions();
    answer_fixed_questions();
    plan_columns();
    plan_partitions();
    reserve_trees();
    for (std::size_t tree = 0; tree < forest_.tree_count(); ++tree) plan_tree(tree);
    question_of_ = {};
    plan_cuts();
    round_leaves();
    give_back_spare_memory();
  }

 private:
  void check_rows() const {
    if (rows_.features.size() != forest_.feature_count) {
      fail(Errc::invalid_argument, "sliced forest: {} features for a forest of {}", rows_.features.size(),
           forest_.feature_count);
    }
    for (const auto& partition : rows_.partitions) {
      if (partition.size() != rows_.rows) {
        fail(Errc::invalid_argument, "sliced forest: classes of {} rows for {}", partition.size(),
             rows_.rows);
      }
    }
    for (const SlicedFeature& feature : rows_.features) {
      const bool one = feature.partition == SlicedFeature::one_value;
      if (!one && feature.partition >= rows_.partitions.size()) {
        fail(Errc::invalid_argument, "sliced forest: partition {} of {}", feature.partition,
             rows_.partitions.size());
      }
      if (!feature.fixed.empty() && feature.fixed.size() != classes_of(feature.partition)) {
        fail(Errc::invalid_argument, "sliced forest: {} fixed values for {} classes", feature.fixed.size(),
             classes_of(feature.partition));
      }
    }
  }

  static std::uint32_t classes(const std::vector<std::uint32_t>& class_of) {
    return class_of.empty() ? 0 : *std::ranges::max_element(class_of) + 1;
  }
  std::uint32_t classes_of(std::uint32_t partition) const {
    return partition == SlicedFeature::one_value ? 1 : classes(rows_.partitions[partition]);
  }

  /// A node's question. What does not change the answer is left out, so that questions meet.
  Question question_at(std::size_t node) const {
    const std::uint8_t decision = forest_.decision[node];
    const std::uint8_t kept = decision & Decision::categorical ? Decision::categorical
                              : Decision::missing(decision) == Missing::none
                                  ? static_cast<std::uint8_t>(decision & ~Decision::default_left)
                                  : decision;
    return {forest_.feature[node], kept, forest_.threshold[node]};
  }

  // questions_, question_of_; plan.set_words, set_bits
  void number_questions() {
    // Sorted by feature, decision and threshold: the first two by counting. Trees ask most thresholds again
    // and again: each is sorted once.
    constexpr std::size_t kDecisions = Decision::most + 1;
    const std::size_t count = forest_.threshold.size();
    const auto group = [&](std::size_t node) {
      const Question question = question_at(node);
      return question.feature * kDecisions + question.decision;
    };
    std::vector<std::uint32_t> first(forest_.feature_count * kDecisions + 1, 0);
    for (std::size_t node = 0; node < count; ++node) ++first[group(node) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<std::uint32_t> nodes(count);
    auto next = first;
    for (std::uint32_t node = 0; node < count; ++node) nodes[next[group(node)]++] = node;
    question_of_.resize(count);
    for (std::size_t g = 0; g + 1 < first.size(); ++g) {
      if (first[g] != first[g + 1]) number_group(std::span(nodes).subspan(first[g], first[g + 1] - first[g]));
    }
    questions_.shrink_to_fit();
    plan_.set_words = forest_.set_words;
    plan_.set_bits = forest_.set_bits;
  }

  /// Nodes of one feature and decision.
  void number_group(std::span<const std::uint32_t> nodes) {
    struct Threshold {
      double value;
      std::uint32_t number, node;  // one of those that ask it
    };
    std::vector<Threshold> thresholds;
    DistinctNumbers numbers(nodes.size());
    for (const std::uint32_t node : nodes) {
      const double value = forest_.threshold[node] + 0.0;  // -0 is 0
      const std::uint32_t number =
          numbers.of(words_hash(std::array{std::bit_cast<std::uint64_t>(value)}),
                     [&](std::uint32_t known) { return thresholds[known].value == value; });
      if (number == thresholds.size()) thresholds.push_back({value, number, node});
      question_of_[node] = number;
    }
    std::ranges::sort(thresholds, {}, &Threshold::value);
    std::vector<std::uint32_t> question(thresholds.size());
    for (const Threshold& threshold : thresholds) {
      question[threshold.number] = static_cast<std::uint32_t>(questions_.size());
      questions_.push_back(question_at(threshold.node));
    }
    for (const std::uint32_t node : nodes) question_of_[node] = question[question_of_[node]];
  }

  bool goes_left(std::size_t q, double value) const {
    const Question& question = questions_[q];
    if (question.decision & Decision::categorical) {
      return categorical_left(value, plan_.category_set(questions_[q].threshold));
    }
    return numerical_left(value, question.threshold, question.decision);
  }

  // answers_, plan.fixed_vector, fixed_bits
  void answer_fixed_questions() {
    plan_.fixed_vector.assign(questions_.size(), kNone);
    std::vector<std::uint8_t> left, before;  // by class; those of the last fixed vector
    for (std::size_t q = 0; q < questions_.size(); ++q) {
      const SlicedFeature& feature = rows_.features[questions_[q].feature];
      if (feature.fixed.empty()) {
        answers_.push_back(feature.partition == SlicedFeature::one_value ? Answers::by_call
                                                                         : Answers::by_row);
        continue;
      }
      left.clear();
      for (const double value : feature.fixed) left.push_back(goes_left(q, value) ? 1 : 0);
      const bool any_right = std::ranges::find(left, 0) != left.end();
      const bool any_left = std::ranges::find(left, 1) != left.end();
      answers_.push_back(!any_right ? Answers::all_left : !any_left ? Answers::all_right : Answers::fixed);
      if (answers_.back() != Answers::fixed) continue;
      // Thresholds between which no value lies ask the same.
      const bool same = q > 0 && plan_.fixed_vector[q - 1] != kNone && left == before &&
                        questions_[q - 1].feature == questions_[q].feature;
      plan_.fixed_vector[q] =
          same ? plan_.fixed_vector[q - 1] : add_fixed_vector(left, rows_.partitions[feature.partition]);
      std::swap(left, before);
    }
  }

  /// The rows of the classes that go left.
  std::uint32_t add_fixed_vector(const std::vector<std::uint8_t>& left,
                                 const std::vector<std::uint32_t>& class_of) {
    plan_.fixed_bits.resize(lines_of((plan_.fixed_vectors + 1) * plan_.words));
    std::uint64_t* const to = plan_.fixed_bits.data()->words + plan_.fixed_vectors * plan_.words;
    for (std::size_t row = 0; row < class_of.size(); ++row) {
      to[row / 64] |= std::uint64_t{left[class_of[row]]} << (row % 64);
    }
    return static_cast<std::uint32_t>(plan_.fixed_vectors++);
  }

  // plan.columns, padded_threshold, most_vectors
  void plan_columns() {
    plan_.most_vectors = plan_.fixed_vectors;
    for (std::uint32_t q = 0; q < questions_.size(); ++q) {
      if (!cuts(q)) continue;
      const Question& question = questions_[q];
      if (plan_.columns.empty() || plan_.columns.back().feature != question.feature ||
          plan_.columns.back().decision != question.decision) {
        SlicedColumn column;
        column.feature = question.feature;
        column.decision = question.decision;
        column.partition = rows_.features[question.feature].partition;
        column.first_question = q;
        plan_.columns.push_back(column);
      }
      ++plan_.columns.back().questions;
    }
    for (SlicedColumn& column : plan_.columns) {
      plan_thresholds(column);
      // One value fewer than classes can part them: thresholds without a value between them ask the same.
      const bool categorical = column.decision & Decision::categorical;
      const std::uint32_t parts = classes_of(column.partition) - 1;
      plan_.most_vectors += categorical ? column.questions * (parts > 0) : std::min(column.questions, parts);
    }
  }

  // plan.padded_threshold
  void plan_thresholds(SlicedColumn& column) {
    column.first_threshold = static_cast<std::uint32_t>(plan_.padded_threshold.size());
    for (std::uint32_t q = column.first_question; q < column.first_question + column.questions; ++q) {
      plan_.padded_threshold.push_back(questions_[q].threshold);
    }
    plan_.padded_threshold.insert(plan_.padded_threshold.end(), kSlicedThresholdRoom,
                                  std::numeric_limits<double>::quiet_NaN());
  }

  // plan.partitions, most_classes: those that columns use
  void plan_partitions() {
    plan_.partitions.resize(rows_.partitions.size());
    for (const SlicedColumn& column : plan_.columns) {
      if (column.partition == SlicedFeature::one_value) continue;
      SlicedPartition& to = plan_.partitions[column.partition];
      if (to.classes == 0) plan_partition(rows_.partitions[column.partition], to);
      plan_.most_classes = std::max<std::size_t>(plan_.most_classes, to.classes);
    }
  }

  void plan_partition(const std::vector<std::uint32_t>& class_of, SlicedPartition& to) {
    to.classes = classes(class_of);
    if (to.classes <= kFewClasses && to.classes * plan_.words <= 4 * plan_.rows) {
      to.vectors.resize(lines_of(to.classes * plan_.words));
      std::uint64_t* const words = to.vectors.empty() ? nullptr : to.vectors.data()->words;
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

  /// A vector that grows holds its elements twice for a while, and copies them.
  void reserve_trees() {
    const std::size_t nodes = forest_.threshold.size(), trees = forest_.tree_count();
    const std::size_t together = 2 * plan_.kernels->lanes;
    std::size_t narrow = 0, wide = 0, words = 0;
    for (std::size_t tree = 0; tree < trees; ++tree) {
      const auto questions =
          std::span(question_of_)
              .subspan(forest_.tree_nodes[tree], forest_.tree_nodes[tree + 1] - forest_.tree_nodes[tree]);
      const auto kept =
          static_cast<std::size_t>(std::ranges::count_if(questions, [this](auto q) { return keeps(q); }));
      const std::size_t leaves = questions.size() + 1;
      if (leaves > kWordLeaves) {
        wide += kept;
      } else {
        narrow += (kept + together - 1) / together * together;
      }
      words += (leaves + kWordLeaves - 1) / kWordLeaves;
    }
    plan_.trees.reserve(trees);
    plan_.leaf_value.reserve(nodes + trees);
    plan_.alive.reserve(words);
    plan_.wide_nodes.reserve(wide);
    plan_.left_leaves.reserve(narrow);
    plan_.right_leaves.reserve(narrow);
    plan_.node_question.reserve(narrow);
    cuts_.reserve(
        static_cast<std::size_t>(std::ranges::count_if(question_of_, [this](auto q) { return cuts(q); })));
  }

  // plan.trees and their nodes, steps, leaf_value, alive; cuts_
  void plan_tree(std::size_t index) {
    const std::size_t first = forest_.tree_nodes[index], nodes = forest_.tree_nodes[index + 1] - first;
    const std::size_t leaves = nodes + 1;
    if (leaves > kMostLeaves) {
      fail(Errc::unsupported, "sliced forest: tree {} has {} leaves; at most {}", index, leaves, kMostLeaves);
    }
    SlicedTree tree;
    const bool narrow = leaves <= kWordLeaves;
    tree.first_node =
        static_cast<std::uint32_t>(narrow ? plan_.node_question.size() : plan_.wide_nodes.size());
    tree.first_leaf = static_cast<std::uint32_t>(plan_.leaf_value.size());
    tree.leaves = static_cast<std::uint32_t>(leaves);
    tree.alive_word = static_cast<std::uint32_t>(plan_.alive.size());
    tree.alive_words = static_cast<std::uint32_t>((leaves + kWordLeaves - 1) / kWordLeaves);
    for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
      plan_.alive.push_back(range_in_word(0, tree.leaves, word));
    }
    plan_.most_leaves = std::max(plan_.most_leaves, leaves);
    plan_.leaf_value.resize(plan_.leaf_value.size() + leaves);

    // Leaves below each node, children before parents; then where they begin, parents before children.
    std::vector<std::size_t> below(nodes), begin(nodes, 0);
    const auto below_child = [&](std::int32_t child) {
      return child < 0 ? std::size_t{1} : below[static_cast<std::size_t>(child)];
    };
    for (std::size_t n = nodes; n-- > 0;) {
      below[n] = below_child(forest_.left[first + n]) + below_child(forest_.right[first + n]);
    }
    const double* const values = forest_.leaf_value.data() + forest_.tree_leaves[index];
    const auto place_child = [&](std::int32_t child, std::size_t at) {
      if (child >= 0) {
        begin[static_cast<std::size_t>(child)] = at;
      } else {
        plan_.leaf_value[tree.first_leaf + at] = values[~child];
      }
    };
    if (nodes == 0) plan_.leaf_value[tree.first_leaf] = values[0];
    for (std::size_t n = 0; n < nodes; ++n) {
      const std::int32_t left = forest_.left[first + n], right = forest_.right[first + n];
      const std::size_t middle = begin[n] + below_child(left), end = begin[n] + below[n];
      place_child(left, begin[n]);
      place_child(right, middle);
      plan_node(tree, {question_of_[first + n], static_cast<std::uint16_t>(begin[n]),
                       static_cast<std::uint16_t>(middle), static_cast<std::uint16_t>(end)});
    }
    tree.nodes = static_cast<std::uint32_t>(narrow ? plan_.node_question.size() : plan_.wide_nodes.size()) -
                 tree.first_node;
    plan_.steps += tree.nodes;
    plan_.pairs += sliced_pairs(tree.leaves);
    // A vector of bits has `lanes` words of 64 bits.
    while (plan_.node_question.size() % (2 * plan_.kernels->lanes) != 0) add_narrow_node(0, 0, 0);
    plan_.trees.push_back(tree);
  }

  void plan_node(const SlicedTree& tree, const SlicedNode& node) {
    const Answers answers = answers_[node.question];
    if (keeps(node.question)) keep_node(tree, node);
    if (answers == Answers::all_left) {
      for_each_cut({tree.alive_word, node},
                   [this](auto word, auto keep_left, auto) { plan_.alive[word] &= keep_left; });
    } else if (answers == Answers::all_right) {
      for_each_cut({tree.alive_word, node},
                   [this](auto word, auto, auto keep_right) { plan_.alive[word] &= keep_right; });
    } else if (cuts(node.question)) {
      cuts_.push_back({tree.alive_word, node});
    }
  }

  /// A node that a call's values may rule out.
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

  void keep_node(const SlicedTree& tree, const SlicedNode& node) {
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

  // plan.unit, double_error, planes, leaf_code; trees' error
  void round_leaves() {
    double range_sum = 0, range_most = 0, magnitude = 0;
    std::size_t ranges = 0;
    for (const SlicedTree& tree : plan_.trees) {
      const auto [lowest, highest] = leaf_range(tree);
      range_sum += highest - lowest;
      range_most = std::max(range_most, highest - lowest);
      ranges += highest > lowest;
      magnitude += std::max(std::abs(lowest), std::abs(highest));
    }
    // Nine bits for the average tree: more planes cost every row, fewer leave more rows for exact sums. Codes
    // hold kSlicedCodeBits of a leaf, and a sum should fit 40.
    const double average = ranges > 0 ? range_sum / static_cast<double>(ranges) : 0;
    plan_.unit =
        std::max({average * 0x1p-9, std::ldexp(range_most, 1 - kSlicedCodeBits), range_sum * 0x1p-39});
    // Leaves near the largest double: no unit fits, so rounding tells nothing and every row gets its exact
    // sum.
    if (!(plan_.unit > 0) || !std::isfinite(range_sum)) plan_.unit = 1;
    roundable_ = std::isfinite(range_sum);
    // A sum of n doubles errs by at most (n - 1) 2^-53 of the sum of magnitudes (Higham, 2002, section 4.2);
    // the mean rounds once more. Twice that, and room for rounding in this bound itself.
    const auto trees = static_cast<double>(plan_.trees.size());
    plan_.double_error = (trees + 8) * kDoubleStep * magnitude;

    plan_.leaf_code.resize(plan_.leaf_value.size() + kSlicedRoom);  // vectors are read whole
    std::uint64_t most_sum = 0;
    for (SlicedTree& tree : plan_.trees) most_sum += round_tree(tree);
    plan_.planes = static_cast<std::size_t>(std::bit_width(most_sum));
  }

  double leaf(std::size_t at) const {
    return plan_.best == Best::highest ? plan_.leaf_value[at] : -plan_.leaf_value[at];
  }

  std::pair<double, double> leaf_range(const SlicedTree& tree) const {
    double lowest = leaf(tree.first_leaf), highest = lowest;
    for (std::size_t at = tree.first_leaf; at < tree.first_leaf + tree.leaves; ++at) {
      lowest = std::min(lowest, leaf(at));
      highest = std::max(highest, leaf(at));
    }
    return {lowest, highest};
  }

  /// Returns the largest rounded leaf.
  std::uint64_t round_tree(SlicedTree& tree) {
    const auto [lowest, highest] = leaf_range(tree);
    std::uint64_t most = 0;
    for (std::size_t at = tree.first_leaf; at < tree.first_leaf + tree.leaves; ++at) {
      const double above = leaf(at) - lowest;
      const auto rounded = static_cast<std::uint64_t>(roundable_ ? above / plan_.unit + 0.5 : 0);
      most = std::max(most, rounded);
      tree.error = std::max(tree.error, std::abs(above - static_cast<double>(rounded) * plan_.unit));
      plan_.leaf_code[at] = spread_code(static_cast<std::uint32_t>(rounded));
    }
    // The subtractions and products above round, too.
    tree.error += 8 * kDoubleStep * std::max(std::abs(lowest), std::abs(highest));
    return most;
  }

  /// A vector that grew holds up to twice what it needs.
  void give_back_spare_memory() {
    const auto shrink = [](auto&... of) { (of.shrink_to_fit(), ...); };
    shrink(plan_.columns, plan_.padded_threshold, plan_.fixed_bits);
  }

  const Forest& forest_;
  const SlicedRows& rows_;
  SlicedPlan& plan_;
  std::vector<Question> questions_;
  std::vector<std::uint32_t> question_of_;  ///< by node of the forest
  std::vector<Answers> answers_;            ///< by question
  std::vector<Cut> cuts_;
  bool roundable_ = true;
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
  Planner(forest, rows, plan).run();
  return plan;
}

}  // namespace kscout
