// Answers to the questions of a call, compiled for each instruction set. Included after sliced-inl.h.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "forest/decide.h"
#include "forest/sliced_plan.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

constexpr std::uint32_t kMostByte = 255;

/// From the values of the features to leaves that nobody reaches and to vectors of answers.
class Questions {
 public:
  Questions(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values) noexcept
      : plan_(plan), work_(work), values_(values) {}

  /// Answers what all rows answer alike: work.alive. What they answer differently: work.vector_of and bits.
  void answer() noexcept {
    std::ranges::copy(plan_.alive, work_.alive.begin());
    work_.vectors = plan_.fixed_vectors;
    for (const SlicedColumn& column : plan_.columns) {
      const bool categorical = column.decision & Decision::categorical;
      if (column.partition == SlicedFeature::one_value) {
        categorical ? answer_sets_once(column) : answer_once(column);
      } else {
        categorical ? answer_sets_by_row(column) : answer_by_row(column);
      }
    }
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

  /// How many of the column's thresholds are below a compared value: the questions it answers with "right".
  std::uint32_t thresholds_below(const SlicedColumn& column, double value) const noexcept {
    if (value != value) return column.questions;
    const double* const thresholds = plan_.padded_threshold.data() + column.first_threshold;
    return static_cast<std::uint32_t>(std::lower_bound(thresholds, thresholds + column.questions, value) -
                                      thresholds);
  }

  void answer_once(const SlicedColumn& column) noexcept {
    const double value = compared_value(values_[column.feature][0], column.decision);
    const std::uint32_t middle = column.first_question + thresholds_below(column, value);
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

  // ---- ranks of a column's values among its thresholds

  using Doubles = hn::ScalableTag<double>;
  static constexpr Doubles doubles{};
  using DoubleVector = hn::Vec<Doubles>;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// Of the values of a column.
  struct Extent {
    double least = kInfinity, most = -kInfinity;  ///< NaN aside
    double least_positive = kInfinity;            ///< of those that do not count as zero
    bool absent = false;                          ///< NaN occurs
  };

  static Extent extent_of(const double* values, std::size_t count) noexcept {
    const DoubleVector zero = hn::Set(doubles, kForestZero);
    DoubleVector least = hn::Set(doubles, kInfinity), most = hn::Set(doubles, -kInfinity), positive = least;
    auto numbers = hn::Eq(least, least);
    std::size_t c = 0;
    for (; c + hn::Lanes(doubles) <= count; c += hn::Lanes(doubles)) {
      const DoubleVector v = hn::LoadU(doubles, values + c);
      numbers = hn::And(numbers, hn::Eq(v, v));
      least = hn::IfThenElse(hn::Lt(v, least), v, least);
      most = hn::IfThenElse(hn::Gt(v, most), v, most);
      positive = hn::IfThenElse(hn::And(hn::Gt(v, zero), hn::Lt(v, positive)), v, positive);
    }
    Extent extent;
    extent.absent = !hn::AllTrue(doubles, numbers);
    const auto reach = [&extent](double v) {
      extent.absent |= v != v;
      if (v < extent.least) extent.least = v;
      if (v > extent.most) extent.most = v;
      if (v > kForestZero && v < extent.least_positive) extent.least_positive = v;
    };
    double lanes[3 * hn::MaxLanes(doubles)];
    hn::StoreU(least, doubles, lanes);
    hn::StoreU(most, doubles, lanes + hn::Lanes(doubles));
    hn::StoreU(positive, doubles, lanes + 2 * hn::Lanes(doubles));
    if (c > 0) std::for_each(lanes, lanes + 3 * hn::Lanes(doubles), reach);
    std::for_each(values + c, values + count, reach);
    return extent;
  }

  /// work.ranks: how many of the column's thresholds are below each value, that is, the questions that it
  /// answers with "right".
  void rank(const SlicedColumn& column, const double* values, std::size_t count) noexcept {
    const Extent extent = extent_of(values, count);
    const bool zeros_are_zero = Decision::missing(column.decision) != Missing::zero;
    if (extent.absent || !zeros_are_zero || extent.least < 0 || !(extent.least_positive < kInfinity)) {
      for (std::size_t c = 0; c < count; ++c) {
        work_.ranks[c] = thresholds_below(column, compared_value(values[c], column.decision));
      }
    } else {
      rank_positive(column, values, count, extent);
    }
  }

  /// Positive doubles have the order of their bits. Their range is parted into cells; a table tells how many
  /// thresholds stand in earlier cells, the few of the same cell are compared. Zeros have a cell of their
  /// own.
  void rank_positive(const SlicedColumn& column, const double* HWY_RESTRICT values, std::size_t count,
                     const Extent& extent) noexcept {
    const double* HWY_RESTRICT thresholds = plan_.padded_threshold.data() + column.first_threshold;
    const auto origin = std::bit_cast<std::int64_t>(extent.least_positive);
    const auto range = static_cast<std::uint64_t>(std::bit_cast<std::int64_t>(extent.most) - origin);
    const int shift = std::max(0, static_cast<int>(std::bit_width(range)) - kSlicedCellBits);
    const auto cell_of = [&](double v) {
      return static_cast<std::size_t>(
          std::max<std::int64_t>((std::bit_cast<std::int64_t>(v) - origin) >> shift, -1) + 1);
    };
    std::uint32_t* HWY_RESTRICT before = work_.thresholds_before.data();
    before[0] = thresholds_below(column, 0);
    std::uint32_t at = thresholds_below(column, extent.least_positive), most = 1;
    const std::uint32_t end = thresholds_below(column, extent.most);
    std::size_t cell = 1;
    for (std::uint32_t in_cell = 0; at < end; ++at) {
      const std::size_t of = cell_of(thresholds[at]);
      in_cell = of < cell ? in_cell + 1 : 1;
      most = std::max(most, in_cell);
      for (; cell <= of; ++cell) before[cell] = at;
    }
    for (const std::size_t last = cell_of(extent.most); cell <= last; ++cell) before[cell] = end;

    // Written out for the usual numbers, so that the loop over the values has no other in it.
    const auto look_up = [&](auto known) {
      std::uint32_t* HWY_RESTRICT ranks = work_.ranks.data();
      for (std::size_t c = 0; c < count; ++c) {
        const double v = values[c] > kForestZero ? values[c] : 0;
        std::uint32_t rank = before[cell_of(v)];
        for (std::uint32_t i = 0; i < (known() > 0 ? known() : most); ++i) rank += thresholds[rank] < v;
        ranks[c] = rank;
      }
    };
    if (most == 1) return look_up(std::integral_constant<std::uint32_t, 1>());
    if (most == 2) return look_up(std::integral_constant<std::uint32_t, 2>());
    look_up(std::integral_constant<std::uint32_t, 0>());
  }

  // ---- questions that rows answer differently

  std::uint64_t* vector(std::size_t index) noexcept { return work_.bit_words() + index * plan_.words; }

  void answer_by_row(const SlicedColumn& column) noexcept {
    const SlicedPartition& partition = plan_.partitions[column.partition];
    rank(column, values_[column.feature], partition.classes);
    std::uint32_t lowest = column.questions, highest = 0;
    for (std::uint32_t c = 0; c < partition.classes; ++c) {
      lowest = std::min(lowest, work_.ranks[c]);
      highest = std::max(highest, work_.ranks[c]);
    }
    all_right(column.first_question, column.first_question + lowest);
    all_left(column.first_question + highest, column.first_question + column.questions);
    if (lowest == highest) return;
    if (!partition.vectors.empty()) return add_classes(column, partition, lowest, highest);
    for (std::uint32_t first = lowest; first < highest; first += kMostByte) {
      compare_rows(column, partition, first, std::min(first + kMostByte, highest));
    }
  }

  /// Many classes: the ranks of the rows, in bytes, are compared with each question in [first, end).
  void compare_rows(const SlicedColumn& column, const SlicedPartition& partition, std::uint32_t first,
                    std::uint32_t end) noexcept {
    std::uint8_t occurs[kMostByte + 1] = {};
    // Bytes may alias anything: what the loops read stands in variables of their own.
    const std::uint32_t* HWY_RESTRICT ranks = work_.ranks.data();
    std::uint8_t* const row_ranks = work_.row_ranks.data();
    const bool class_is_row = partition.class_of.empty();
    std::uint8_t* const class_ranks = class_is_row ? row_ranks : work_.class_ranks.data();
    for (std::size_t c = 0, classes = partition.classes; c < classes; ++c) {
      const auto byte = static_cast<std::uint8_t>(std::min(std::max(ranks[c], first) - first, kMostByte));
      class_ranks[c] = byte;
      occurs[byte] |= static_cast<std::uint8_t>(ranks[c] >= first);  // lower ones belong to the piece before
    }
    if (!class_is_row) {
      const std::uint32_t* HWY_RESTRICT class_of = partition.class_of.data();
      for (std::size_t row = 0, rows = plan_.rows; row < rows; ++row)
        row_ranks[row] = class_ranks[class_of[row]];
    }
    for (std::uint32_t q = first; q < end; ++q) {
      if (occurs[q - first] != 0) compare_bytes(row_ranks, q - first, vector(work_.vectors++));
      // The first question of a later piece may find no rank of its own; the piece before made its vector.
      work_.vector_of[column.first_question + q] = static_cast<std::uint32_t>(work_.vectors - 1);
    }
  }

  /// Bit r: ranks[r] <= most.
  void compare_bytes(const std::uint8_t* HWY_RESTRICT ranks, std::uint32_t most,
                     std::uint64_t* HWY_RESTRICT to) noexcept {
    constexpr hn::ScalableTag<std::uint8_t> bytes;
    const auto limit = hn::Set(bytes, static_cast<std::uint8_t>(most));
    for (std::size_t word = 0; word < plan_.words; ++word, ranks += 64) {
      std::uint64_t left = 0;
      for (std::size_t i = 0; i < 64; i += hn::Lanes(bytes)) {
        const auto rank = hn::LoadU(bytes, ranks + i);
        left |= mask_bits(bytes, hn::Eq(hn::Min(rank, limit), rank)) << i;
      }
      to[word] = left;
    }
  }

  /// Few classes: in the order of their ranks, the left rows of a question are those of the question before
  /// and of the classes whose rank is its number.
  void add_classes(const SlicedColumn& column, const SlicedPartition& partition, std::uint32_t lowest,
                   std::uint32_t highest) noexcept {
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

  /// Adds the rows of a class.
  void mark(const SlicedPartition& partition, std::size_t row_class,
            std::uint64_t* HWY_RESTRICT to) noexcept {
    const std::uint64_t* HWY_RESTRICT rows = partition.vectors.data()->words + row_class * plan_.words;
    for (std::size_t w = 0; w < plan_.words; w += kLanes) {
      hn::Store(hn::Or(hn::Load(bits, to + w), hn::Load(bits, rows + w)), bits, to + w);
    }
  }

  void answer_sets_by_row(const SlicedColumn& column) noexcept {
    const SlicedPartition& partition = plan_.partitions[column.partition];
    for (std::uint32_t q = column.first_question; q < column.first_question + column.questions; ++q) {
      std::uint64_t* const to = vector(work_.vectors);
      std::fill_n(to, plan_.words, 0);
      if (partition.vectors.empty()) {
        for (std::size_t row = 0; row < plan_.rows; ++row) {
          const double value =
              values_[column.feature][partition.class_of.empty() ? row : partition.class_of[row]];
          to[row / 64] |= std::uint64_t{in_set(q, value)} << (row % 64);
        }
      } else {
        for (std::uint32_t c = 0; c < partition.classes; ++c) {
          if (in_set(q, values_[column.feature][c])) mark(partition, c, to);
        }
      }
      keep_if_parting(q, to);
    }
  }

  /// The next vector holds the answers to question q: in use from now on when rows differ.
  void keep_if_parting(std::uint32_t q, const std::uint64_t* answers) noexcept {
    std::size_t left = 0;
    for (std::size_t word = 0; word < plan_.words; ++word) {
      left += static_cast<std::size_t>(std::popcount(answers[word]));
    }
    if (left == plan_.rows) {
      all_left(q, q + 1);
    } else if (left == 0) {
      all_right(q, q + 1);
    } else {
      work_.vector_of[q] = static_cast<std::uint32_t>(work_.vectors++);
    }
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
  std::span<const double* const> values_;
};

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
