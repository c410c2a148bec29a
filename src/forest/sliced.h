#pragma once
/// \file
/// A forest evaluated for many rows at once that share most of their feature values: one bit per row, so that
/// one vector operation serves 256 rows (512 with AVX-512).
///
///     const SlicedForest fast(forest, rows);              // rows: which features differ between them, and how
///     SlicedForest::Scratch scratch(fast);                // one per thread
///     std::array<ScoredRow, 3> best;
///     const std::size_t found = fast.top(values, allowed, ties, best, scratch);
///
/// What comes out is what Forest::predict gives for these rows, bit for bit. Rows that cannot be among the
/// best are dropped by sums of rounded leaves whose error is bounded when the forest is loaded; the others
/// are summed in doubles and in the order of the trees. Every forest that passed check() is served in this
/// one way: all kinds of nodes and missing values, any number of leaves up to kMostLeaves.
/// docs/design/0003-sliced-forest.md explains the method; the node masks are those of QuickScorer (Lucchese
/// et al., SIGIR 2015), the sums are bit-sliced adders.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forest/forest.h"

namespace kscout {

inline constexpr std::size_t kMostLeaves = 65535;  ///< of one tree

/// Where a feature's values come from.
struct SlicedFeature {
  static constexpr std::uint32_t one_value = UINT32_MAX;
  std::uint32_t partition =
      one_value;              ///< which of SlicedRows::partitions; one_value: all rows have the same
  std::vector<double> fixed;  ///< the values, one per class, when no call changes them; else empty
};

/// Rows sorted into classes: those of one class have equal values in the features that name the partition.
struct SlicedClasses {
  explicit SlicedClasses(std::vector<std::uint32_t> of_rows);

  std::vector<std::uint32_t> class_of;  ///< by row; numbered 0, 1, ... in the order of their first rows
  std::uint32_t count = 0;
};

/// The rows that a SlicedForest answers for.
struct SlicedRows {
  std::size_t rows = 0;
  std::vector<SlicedClasses> partitions;
  std::vector<SlicedFeature> features;  ///< one per feature of the forest

  /// Of a partition, or of one_value.
  std::uint32_t classes(std::uint32_t partition) const {
    return partition == SlicedFeature::one_value ? 1 : partitions[partition].count;
  }
};

/// Which end of the scores is wanted.
enum class Best : std::uint8_t { highest, lowest };

struct ScoredRow {
  std::uint32_t row = 0;
  double score = 0;  ///< as Forest::predict
};

struct SlicedKernels;
struct SlicedPlan;
struct SlicedWork;

class SlicedForest {
 public:
  /// Throws invalid_argument when `rows` does not fit the forest, unsupported for trees of more leaves than
  /// kMostLeaves. The forest may be freed afterwards.
  SlicedForest(const Forest& forest, const SlicedRows& rows, Best best = Best::highest);
  /// With the code of one instruction set, for tests: sliced_kernels.h.
  SlicedForest(const Forest& forest, const SlicedRows& rows, Best best, const SlicedKernels& kernels);
  ~SlicedForest();
  SlicedForest(SlicedForest&&) noexcept;
  SlicedForest& operator=(SlicedForest&&) noexcept;

  /// How the last call served the trees, and what it cost. constant + sliced = all trees.
  struct Counts {
    std::size_t constant = 0;   ///< trees in which all rows met in one leaf
    std::size_t sliced = 0;     ///< trees whose leaves differed
    std::size_t questions = 0;  ///< distinct questions (feature, threshold) that rows answered differently
    std::size_t finished = 0;   ///< rows whose rounded leaves were added of all trees
    std::size_t exact = 0;      ///< rows summed in doubles
    std::size_t by_ranks = 0;   ///< those of them that found their leaves from the ranks of their values
  };

  /// Memory of a call; made for one SlicedForest, for one thread at a time.
  class Scratch {
   public:
    explicit Scratch(const SlicedForest& forest);
    ~Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;
    const Counts& counts() const noexcept;

   private:
    friend class SlicedForest;
    std::unique_ptr<SlicedWork> work_;
  };

  std::size_t rows() const noexcept;
  /// Words of 64 rows that `allowed` of top() has.
  std::size_t row_words() const noexcept;

  /// The best rows of those that `allowed` marks (bit r % 64 of word r / 64), best first; among ties the row
  /// r with the smaller ties[r] first. Returns how many: out.size() or the number of allowed rows.
  /// values[f][class] is the value of feature f; fixed features are not read. Allocates nothing; thread-safe
  /// with one scratch per thread.
  std::size_t top(std::span<const double* const> values, std::span<const std::uint64_t> allowed,
                  std::span<const std::uint32_t> ties, std::span<ScoredRow> out,
                  Scratch& scratch) const noexcept;

  /// Scores of all rows, exact. Slower than top(): every row is summed in doubles.
  void scores(std::span<const double* const> values, std::span<double> out, Scratch& scratch) const noexcept;

 private:
  std::unique_ptr<const SlicedPlan> plan_;
};

}  // namespace kscout
