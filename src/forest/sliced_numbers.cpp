// Each question once: numbered, and answered where no call changes the answer.
#include "forest/sliced_numbers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

#include "core/fail.h"
#include "core/hash.h"
#include "core/indexing.h"
#include "forest/forest.h"

namespace kscout {

namespace {

/// Step by step; each function fills the members that it names.
class Numbering {
 public:
  Numbering(const Forest& forest, const SlicedRows& rows, SlicedPlan& plan)
      : forest_(forest), rows_(rows), plan_(plan) {}

  SlicedQuestions run() {
    check_rows();
    number_questions();
    answer_fixed_questions();
    return {std::move(questions_), std::move(question_of_), std::move(answers_)};
  }

 private:
  void check_rows() const {
    if (rows_.rows == 0) fail(Errc::invalid_argument, "sliced forest: no rows to choose from");
    if (rows_.features.size() != forest_.feature_count) {
      fail(Errc::invalid_argument, "sliced forest: {} features for a forest of {}", rows_.features.size(),
           forest_.feature_count);
    }
    for (const SlicedClasses& partition : rows_.partitions) {
      if (partition.class_of.size() != rows_.rows) {
        fail(Errc::invalid_argument, "sliced forest: classes of {} rows for {}", partition.class_of.size(),
             rows_.rows);
      }
    }
    for (const SlicedFeature& feature : rows_.features) {
      const bool one = feature.partition == SlicedFeature::one_value;
      if (!one && feature.partition >= rows_.partitions.size()) {
        fail(Errc::invalid_argument, "sliced forest: partition {} of {}", feature.partition,
             rows_.partitions.size());
      }
      if (!feature.fixed.empty() && feature.fixed.size() != rows_.classes(feature.partition)) {
        fail(Errc::invalid_argument, "sliced forest: {} fixed values for {} classes", feature.fixed.size(),
             rows_.classes(feature.partition));
      }
    }
  }

  /// A node's question. What does not change the answer is left out, so that questions meet.
  SlicedQuestion question_at(std::size_t node) const {
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
      const SlicedQuestion question = question_at(node);
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
    const SlicedQuestion& question = questions_[q];
    if (question.decision & Decision::categorical) {
      return categorical_left(value, plan_.category_set(questions_[q].threshold));
    }
    return numerical_left(value, question.threshold, question.decision);
  }

  // answers_, plan.fixed_vector, fixed_bits
  void answer_fixed_questions() {
    plan_.fixed_vector.assign(questions_.size(), kSlicedNone);
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
      const bool same = q > 0 && plan_.fixed_vector[q - 1] != kSlicedNone && left == before &&
                        questions_[q - 1].feature == questions_[q].feature;
      plan_.fixed_vector[q] = same ? plan_.fixed_vector[q - 1]
                                   : add_fixed_vector(left, rows_.partitions[feature.partition].class_of);
      std::swap(left, before);
    }
  }

  /// The rows of the classes that go left.
  std::uint32_t add_fixed_vector(const std::vector<std::uint8_t>& left,
                                 const std::vector<std::uint32_t>& class_of) {
    plan_.fixed_bits.resize(sliced_lines((plan_.fixed_vectors + 1) * plan_.words));
    std::uint64_t* const to = std::data(plan_.fixed_bits.data()->words) + plan_.fixed_vectors * plan_.words;
    for (std::size_t row = 0; row < class_of.size(); ++row) {
      to[row / 64] |= std::uint64_t{left[class_of[row]]} << (row % 64);
    }
    return static_cast<std::uint32_t>(plan_.fixed_vectors++);
  }

  const Forest& forest_;
  const SlicedRows& rows_;
  SlicedPlan& plan_;
  std::vector<SlicedQuestion> questions_;
  std::vector<std::uint32_t> question_of_;
  std::vector<Answers> answers_;
};

}  // namespace

SlicedQuestions number_sliced_questions(const Forest& forest, const SlicedRows& rows, SlicedPlan& plan) {
  return Numbering(forest, rows, plan).run();
}

}  // namespace kscout
