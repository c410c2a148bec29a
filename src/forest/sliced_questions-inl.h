// Answers to the questions of a call, compiled for each instruction set. Included after sliced-inl.h.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/read_ahead.h"
#include "forest/forest.h"
#include "forest/sliced_plan.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

/// From the values of the features to leaves that nobody reaches and to vectors of answers.
class Questions {
 public:
  Questions(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values) noexcept
      : plan_(plan), work_(work), values_(values) {}

  /// What all rows answer alike: work.extents, and work.alive of trees that are not in bytes. What they
  /// answer differently: work.vector_of and bits.
  void answer() noexcept {
    read_plan_ahead();
    std::ranges::copy(plan_.alive, work_.alive.begin());
    if (plan_.drops_rows) work_.copy_fixed_bits(plan_);  // the call before may have dropped rows of them
    work_.vectors = plan_.fixed_vectors;
    for (std::size_t c = 0; c < plan_.call_columns; ++c) {
      const SlicedColumn& column = plan_.columns[c];
      const bool categorical = column.decision & Decision::categorical;
      if (column.partition == SlicedFeature::one_value) {
        const std::uint32_t rank = rank_of(column, values_[column.feature][0]);
        answer_alike(c, rank, rank);
      } else {
        categorical ? answer_set_by_row(c) : answer_by_row(c);
      }
    }
  }

 private:
  /// Columns want these in small pieces.
  void read_plan_ahead() const noexcept {
    read_ahead(std::span(plan_.padded_threshold));
    for (const SlicedPartition& partition : plan_.partitions) {
      read_ahead(std::span(partition.vectors));
      read_ahead(partition.class_of.narrow());
    }
  }

  // ---- questions with one answer for all rows

  void cut(std::uint32_t first, std::uint32_t end, const std::vector<LeafWord>& keep) noexcept {
    LeafWord* const alive = work_.alive.data();
    const std::uint32_t* const word = plan_.cut_word.data();
    for (std::uint32_t at = first; at < end; ++at) alive[word[at]] &= keep[at];
  }
  /// All rows answer the column's questions below `least` with "right" and those from `most` on with "left".
  void answer_alike(std::size_t index, std::uint32_t least, std::uint32_t most) noexcept {
    if (index < kSlicedLookup) work_.extents.of[index] = sliced_extent(least, most);
    if (plan_.cut_word.empty()) return;
    const SlicedColumn& column = plan_.columns[index];
    const std::uint32_t* const first = plan_.cut_first.data() + column.first_question;
    cut(first[0], first[least], plan_.keep_right);
    cut(first[most], first[column.questions], plan_.keep_left);
  }

  /// How many of the column's thresholds are below a compared value: the questions it answers with "right".
  std::uint32_t thresholds_below(const SlicedColumn& column, double value) const noexcept {
    if (value != value) return column.questions;
    const double* const thresholds = plan_.padded_threshold.data() + column.first_threshold;
#if HWY_TARGET == HWY_SCALAR
    return static_cast<std::uint32_t>(std::lower_bound(thresholds, thresholds + column.questions, value) -
                                      thresholds);
#else  // all of them: a search by halves has nothing but branches that cannot be predicted
    const DoubleVector than = hn::Set(doubles, value);
    std::size_t below = 0;
    for (std::size_t at = 0; at < column.questions; at += hn::Lanes(doubles)) {  // NaNs stand behind the last
      below += hn::CountTrue(doubles, hn::Lt(hn::LoadU(doubles, thresholds + at), than));
    }
    return static_cast<std::uint32_t>(below);
#endif
  }

  bool in_set(const SlicedColumn& column, double value) const noexcept {
    return categorical_left(value, plan_.category_set(plan_.padded_threshold[column.first_threshold]));
  }

  /// The questions of the column that a feature's value answers with "right".
  std::uint32_t rank_of(const SlicedColumn& column, double value) const noexcept {
    if (column.decision & Decision::categorical) return in_set(column, value) ? 0 : 1;
    return thresholds_below(column, compared_value(value, column.decision));
  }

  // ---- ranks of a column's values among its thresholds

  using Doubles = hn::ScalableTag<double>;
  static constexpr Doubles doubles{};
  /// Thresholds are read where they stand: whole cache lines would nearly always be parts of two.
  static constexpr hn::CappedTag<double, 4> few_doubles{};
  using DoubleVector = hn::Vec<Doubles>;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// Where the values of a column lie.
  struct ValueRange {
    double least = kInfinity, most = -kInfinity;  ///< NaN aside
    double least_positive = kInfinity;            ///< of those that do not count as zero
    bool absent = false;                          ///< NaN occurs
  };

  static ValueRange value_range(const double* values, std::size_t count) noexcept {
    const DoubleVector zero = hn::Set(doubles, kForestZero);
    const DoubleVector infinity = hn::Set(doubles, kInfinity);
    DoubleVector least = infinity, most = hn::Neg(infinity), positive = infinity;
    auto numbers = hn::Eq(least, least);
    std::size_t c = 0;
    for (; c + hn::Lanes(doubles) <= count; c += hn::Lanes(doubles)) {
      const DoubleVector v = hn::LoadU(doubles, values + c);
      numbers = hn::And(numbers, hn::Eq(v, v));
      least = hn::Min(v, least);  // of a NaN and a number: the number, which must be the second for x86
      most = hn::Max(v, most);
      positive = hn::Min(hn::IfThenElse(hn::Gt(v, zero), v, infinity), positive);
    }
    ValueRange range;
    range.absent = !hn::AllTrue(doubles, numbers);
    const auto reach = [&range](double v) {
      range.absent |= v != v;
      if (v < range.least) range.least = v;
      if (v > range.most) range.most = v;
      if (v > kForestZero && v < range.least_positive) range.least_positive = v;
    };
    double lanes[3 * hn::MaxLanes(doubles)];
    hn::StoreU(least, doubles, lanes);
    hn::StoreU(most, doubles, lanes + hn::Lanes(doubles));
    hn::StoreU(positive, doubles, lanes + 2 * hn::Lanes(doubles));
    if (c > 0) std::for_each(lanes, lanes + 3 * hn::Lanes(doubles), reach);
    std::for_each(values + c, values + count, reach);
    return range;
  }

  /// Of the ranks of a column's values, which stand in bytes: see rank_byte().
  struct Ranks {
    std::uint32_t least = 0, most = 0;
  };

  /// A rank as a byte whose order is that of a signed number: what instruction sets compare.
  static std::uint8_t rank_byte(std::uint32_t above_least) noexcept {
    return static_cast<std::uint8_t>(above_least ^ 0x80);
  }

  std::uint8_t occurring(std::uint8_t byte) noexcept {
    occurs_[byte] = 1;
    return byte;
  }

  /// How many of the column's thresholds are below each value, that is, the questions that it answers with
  /// "right": the rank byte of what it is above the least.
  Ranks rank(const SlicedColumn& column, const double* values, std::size_t count,
             std::uint8_t* class_bytes) noexcept {
    occurs_.fill(0);
    if (count <= kFewClasses) return count_ranks(column, values, count, class_bytes);
    const ValueRange range = value_range(values, count);
    const bool zeros_are_zero = Decision::missing(column.decision) != Missing::zero;
    if (range.absent || !zeros_are_zero || range.least < 0 || !(range.least_positive < kInfinity)) {
      return count_ranks(column, values, count, class_bytes);
    }
    return rank_positive(column, values, count, range, class_bytes);
  }

  Ranks count_ranks(const SlicedColumn& column, const double* values, std::size_t count,
                    std::uint8_t* class_bytes) noexcept {
    Ranks found = {column.questions, 0};
    for (std::size_t c = 0; c < count; ++c) {
      const std::uint32_t rank = rank_of(column, values[c]);
      found.least = std::min(found.least, rank);
      found.most = std::max(found.most, rank);
      class_bytes[c] = static_cast<std::uint8_t>(rank);
    }
    for (std::size_t c = 0; c < count; ++c)
      class_bytes[c] = occurring(rank_byte(class_bytes[c] - found.least));
    return found;
  }

  /// Writes four whole vectors and seldom more, so that there is little to predict: cells behind `end` are
  /// filled later.
  static void fill_cells(std::uint32_t* HWY_RESTRICT cells, std::size_t first, std::size_t end,
                         std::uint32_t with) noexcept {
    constexpr hn::ScalableTag<std::uint32_t> lanes;
    static_assert(4 * hn::MaxLanes(lanes) <= kSlicedCellRoom);
    const auto value = hn::Set(lanes, with);
    std::size_t c = first;
    do {
      for (std::size_t v = 0; v < 4; ++v, c += hn::Lanes(lanes)) hn::StoreU(value, lanes, cells + c);
    } while (c < end);
  }

  /// Positive doubles have the order of their bits. Their range is parted into cells; a table tells how many
  /// thresholds stand in earlier cells, the few of the same cell are compared. Zeros have a cell of their
  /// own.
  KSCOUT_SLICED_CODE Ranks rank_positive(const SlicedColumn& column, const double* HWY_RESTRICT values,
                                         std::size_t count, const ValueRange& range,
                                         std::uint8_t* HWY_RESTRICT class_bytes) noexcept {
    const double* HWY_RESTRICT thresholds = plan_.padded_threshold.data() + column.first_threshold;
    const auto origin = std::bit_cast<std::int64_t>(range.least_positive);
    const auto width = static_cast<std::uint64_t>(std::bit_cast<std::int64_t>(range.most) - origin);
    // Few values: few cells, since each cell costs as much as a value does.
    const int cell_bits = std::clamp(static_cast<int>(std::bit_width(count)) + 1, 5, kSlicedCellBits);
    const int shift = std::max(0, static_cast<int>(std::bit_width(width)) - cell_bits);
    std::uint32_t* const before_zeros = work_.thresholds_before.data();
    std::uint32_t* HWY_RESTRICT before = before_zeros + 1;
    const auto cell_of = [&](double v) { return (std::bit_cast<std::int64_t>(v) - origin) >> shift; };
    *before_zeros = thresholds_below(column, 0);
    const std::uint32_t first = thresholds_below(column, range.least_positive);
    const bool zeros = !(range.least > kForestZero);
    const Ranks found = {zeros ? *before_zeros : first, thresholds_below(column, range.most)};
    const auto cells = static_cast<std::size_t>(cell_of(range.most)) + 1;
    if (found.least == found.most) return found;
    std::size_t cell = 0;
    for (std::uint32_t at = first; at < found.most; ++at) {
      const auto end = static_cast<std::size_t>(cell_of(thresholds[at])) + 1;
      fill_cells(before, cell, end, at);
      cell = std::max(cell, end);
    }
    fill_cells(before, cell, cells, found.most);

    // Written out for the usual cases, so that the loop over the values has nothing else in it.
    const auto look_up = [&](auto with_zeros) {
      for (std::size_t c = 0; c < count; ++c) {
        const double v = !with_zeros() || values[c] > kForestZero ? values[c] : 0;
        const std::int64_t of = cell_of(v);  // a zero's is below 0
        std::uint32_t rank = before[with_zeros() ? std::max<std::int64_t>(of, -1) : of];
        const auto value = hn::Set(few_doubles, v);
        std::size_t below;
        do {  // NaNs stand behind the last threshold
          below = hn::CountTrue(few_doubles, hn::Lt(hn::LoadU(few_doubles, thresholds + rank), value));
          rank += static_cast<std::uint32_t>(below);
        } while (below == hn::Lanes(few_doubles));
        class_bytes[c] = occurring(rank_byte(rank - found.least));
      }
    };
    zeros ? look_up(std::true_type()) : look_up(std::false_type());
    return found;
  }

  // ---- questions that rows answer differently

  std::uint64_t* vector(std::size_t index) noexcept { return work_.bit_words() + index * plan_.words; }

  KSCOUT_SLICED_CODE void answer_by_row(std::size_t index) noexcept {
    const SlicedColumn& column = plan_.columns[index];
    const SlicedPartition& partition = plan_.partitions[column.partition];
    const bool by_class = !partition.vectors.empty(), class_is_row = !by_class && partition.class_of.empty();
    std::uint8_t* const class_bytes = class_is_row ? work_.row_bytes.data() : work_.class_bytes.data();
    const Ranks ranks = rank(column, values_[column.feature], partition.classes, class_bytes);
    answer_alike(index, ranks.least, ranks.most);
    if (ranks.least == ranks.most) return;
    const std::uint32_t first_question = column.first_question + ranks.least,
                        questions = ranks.most - ranks.least;
    by_class ? add_classes(partition, first_question, questions, class_bytes)
             : compare_rows(partition, first_question, questions, class_bytes);
  }

  /// Many classes: the ranks of the rows are compared with each question that some rank equals.
  void compare_rows(const SlicedPartition& partition, std::uint32_t first_question, std::uint32_t questions,
                    const std::uint8_t* HWY_RESTRICT class_bytes) noexcept {
    // Bytes may alias anything: what the loops read stands in variables of their own.
    std::uint8_t* HWY_RESTRICT row_bytes = work_.row_bytes.data();
    if (!partition.class_of.empty()) spread_bytes(partition, class_bytes, row_bytes);
    for (std::uint32_t first = 0; first < questions; first += 64) {
      const std::uint32_t count = std::min(64u, questions - first);
      const std::uint64_t occur = occurring_ranks(first) & (~std::uint64_t{0} >> (64 - count));
      std::uint32_t* HWY_RESTRICT vector_of = work_.vector_of.data() + first_question + first;
      const auto before = static_cast<std::uint32_t>(work_.vectors - 1);
      for (std::uint32_t q = 0; q < count; ++q) {
        const std::uint64_t up_to = occur & (~std::uint64_t{0} >> (63 - q));
        vector_of[q] = before + static_cast<std::uint32_t>(std::popcount(up_to));
      }
      for (std::uint64_t rest = occur; rest != 0; rest &= rest - 1) {
        const auto rank = first + static_cast<std::uint32_t>(std::countr_zero(rest));
        compare_bytes(row_bytes, rank_byte(rank), vector(work_.vectors++));
      }
    }
  }

  /// Which of 64 ranks above the least occur, as bits.
  std::uint64_t occurring_ranks(std::uint32_t first) const noexcept {
    constexpr hn::CappedTag<std::uint8_t, 64> bytes;
    std::uint64_t occur = 0;
    for (std::uint32_t i = 0; i < 64; i += static_cast<std::uint32_t>(hn::Lanes(bytes))) {
      const auto of = hn::LoadU(bytes, occurs_.data() + rank_byte(first + i));
      occur |= mask_bits(bytes, hn::Ne(of, hn::Zero(bytes))) << i;
    }
    return occur;
  }

#if HWY_TARGET == HWY_AVX3_DL
  /// The first 32, as far as there are so many.
  static __m512i load_classes(std::span<const std::uint16_t> classes) noexcept {
    const auto mask = classes.size() < 32 ? (__mmask32{1} << classes.size()) - 1 : ~__mmask32{0};
    return _mm512_maskz_loadu_epi16(mask, classes.data());
  }
  static __m512i low_bytes(__m512i lower, __m512i upper) noexcept {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(lower)),
                              _mm512_cvtepi16_epi8(upper), 1);
  }
#endif

  /// row_bytes[r] = class_bytes[the class of r].
  void spread_bytes(const SlicedPartition& partition, const std::uint8_t* HWY_RESTRICT class_bytes,
                    std::uint8_t* HWY_RESTRICT row_bytes) const noexcept {
#if HWY_TARGET == HWY_AVX3_DL
    constexpr std::uint32_t kPage = 128, kMostPages = 8;  // a page is looked up at once; many take too long
    const std::span<const std::uint16_t> class_of = partition.class_of.narrow();
    if (!class_of.empty() && partition.classes <= kPage * kMostPages) {
      const auto pages = static_cast<int>((partition.classes + kPage - 1) / kPage);
      for (std::size_t row = 0; row < class_of.size(); row += 64) {
        const __m512i lower = load_classes(class_of.subspan(row)),
                      upper = load_classes(class_of.subspan(std::min(row + 32, class_of.size())));
        const __m512i in_page = low_bytes(lower, upper);  // the lookup ignores the highest bit
        const __m512i page = low_bytes(_mm512_srli_epi16(lower, 7), _mm512_srli_epi16(upper, 7));
        __m512i found = _mm512_setzero_si512();
        for (int p = 0; p < pages; ++p) {
          const std::uint8_t* const of = class_bytes + kPage * static_cast<unsigned>(p);
          const __m512i here =
              _mm512_permutex2var_epi8(_mm512_loadu_si512(of), in_page, _mm512_loadu_si512(of + 64));
          found = _mm512_mask_mov_epi8(
              found, _mm512_cmpeq_epi8_mask(page, _mm512_set1_epi8(static_cast<char>(p))), here);
        }
        _mm512_storeu_si512(row_bytes + row, found);
      }
      return;
    }
#endif
    partition.class_of.copy(class_bytes, row_bytes, plan_.rows);
  }

  /// Bit r: ranks[r] <= most, which is below 255.
  void compare_bytes(const std::uint8_t* HWY_RESTRICT ranks, std::uint8_t most,
                     std::uint64_t* HWY_RESTRICT to) noexcept {
    constexpr hn::ScalableTag<std::int8_t> bytes;
    const auto beyond = hn::Set(bytes, static_cast<std::int8_t>(static_cast<std::int8_t>(most) + 1));
    for (std::size_t word = 0, words = plan_.words; word < words; ++word, ranks += 64) {
      std::uint64_t left = 0;
      for (std::size_t i = 0; i < 64; i += hn::Lanes(bytes)) {
        const auto rank = hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(ranks + i));
        left |= mask_bits(bytes, hn::Gt(beyond, rank)) << i;
      }
      to[word] = left;
    }
  }

  /// Few classes: in the order of their ranks, the left rows of a question are those of the question before
  /// and of the classes whose rank is its number.
  void add_classes(const SlicedPartition& partition, std::uint32_t first_question, std::uint32_t questions,
                   const std::uint8_t* class_bytes) noexcept {
    sort_by_rank(partition.classes, questions, class_bytes);
    const std::uint32_t* row_class = work_.by_rank.data();
    const std::uint64_t* before = nullptr;
    for (std::uint32_t q = 0; q < questions; ++q) {
      const std::uint32_t count = work_.bucket[q];
      if (count != 0) {
        std::uint64_t* const now = vector(work_.vectors++);
        before ? std::copy_n(before, plan_.words, now) : std::fill_n(now, plan_.words, 0);
        for (std::uint32_t i = 0; i < count; ++i) mark(partition, *row_class++, now);
        before = now;
      }
      work_.vector_of[first_question + q] = static_cast<std::uint32_t>(work_.vectors - 1);
    }
  }

  /// work.by_rank: the classes, lowest rank first; work.bucket: how many of each.
  void sort_by_rank(std::uint32_t classes, std::uint32_t most, const std::uint8_t* class_bytes) noexcept {
    std::uint32_t* const bucket = work_.bucket.data();
    std::uint32_t* const next = bucket + most + 1;
    std::uint32_t* const by_rank = work_.by_rank.data();
    std::fill_n(bucket, most + 1, 0u);
    for (std::uint32_t c = 0; c < classes; ++c) ++bucket[rank_byte(class_bytes[c])];
    std::uint32_t sum = 0;
    for (std::uint32_t b = 0; b <= most; ++b) {
      next[b] = sum;
      sum += bucket[b];
    }
    for (std::uint32_t c = 0; c < classes; ++c) by_rank[next[rank_byte(class_bytes[c])]++] = c;
  }

  /// Adds the rows of a class.
  void mark(const SlicedPartition& partition, std::size_t row_class,
            std::uint64_t* HWY_RESTRICT to) noexcept {
    const std::uint64_t* HWY_RESTRICT rows =
        std::data(partition.vectors.data()->words) + row_class * plan_.words;
    for (std::size_t w = 0; w < plan_.words; w += kLanes) {
      hn::Store(hn::Or(hn::Load(bits, to + w), hn::Load(bits, rows + w)), bits, to + w);
    }
  }

  void answer_set_by_row(std::size_t index) noexcept {
    const SlicedColumn& column = plan_.columns[index];
    const SlicedPartition& partition = plan_.partitions[column.partition];
    const double* const values = values_[column.feature];
    std::uint64_t* const to = vector(work_.vectors);
    std::fill_n(to, plan_.words, 0);
    if (partition.vectors.empty()) {
      for (std::size_t row = 0; row < plan_.rows; ++row) {
        const double value = values[partition.class_of.empty() ? row : partition.class_of[row]];
        to[row / 64] |= std::uint64_t{in_set(column, value)} << (row % 64);
      }
    } else {
      for (std::uint32_t c = 0; c < partition.classes; ++c) {
        if (in_set(column, values[c])) mark(partition, c, to);
      }
    }
    std::size_t left = 0;
    for (std::size_t word = 0; word < plan_.words; ++word) {
      left += static_cast<std::size_t>(std::popcount(to[word]));
    }
    answer_alike(index, left == 0, left != plan_.rows);
    if (left != 0 && left != plan_.rows) {
      work_.vector_of[column.first_question] = static_cast<std::uint32_t>(work_.vectors++);
    }
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
  std::span<const double* const> values_;
  std::array<std::uint8_t, UINT8_MAX + 1> occurs_{};  ///< rank bytes of the column's classes
};

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
