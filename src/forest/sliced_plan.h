#pragma once
/// \file
/// What a SlicedForest knows before a call (SlicedPlan) and holds during one (SlicedWork).
///
/// A *question* is a distinct (feature, way of treating missing values, threshold) or (feature, category
/// set); trees share questions. Questions about one feature form a *column*, sorted by threshold: the answers
/// of a value follow from its rank among the thresholds. A question that rows answer differently has a vector
/// of one bit per row: 1 = left. Leaves of a tree are numbered from left to right, so that the leaves below a
/// node are a range.
#include <bit>
#include <cstdint>
#include <vector>

#include "forest/sliced.h"
#include "forest/sliced_kernels.h"

namespace kscout {

/// A cache line: keeps bit vectors aligned for every instruction set.
struct alignas(64) SlicedLine {
  std::uint64_t words[8];
};

struct SlicedNode {
  std::uint32_t question;
  std::uint16_t begin, middle, end;  ///< leaves [begin, middle) are to the left, [middle, end) to the right
};

struct SlicedTree {
  std::uint32_t first_node = 0, nodes = 0;  ///< those that rows may answer differently; parents first
  std::uint32_t first_leaf = 0, leaves = 0;
  std::uint32_t alive_word = 0, alive_words = 0;  ///< of SlicedPlan::alive
  std::uint32_t planes = 0;                       ///< bits of its rounded leaves
  double error = 0;                               ///< most that rounding moves a leaf
};

struct SlicedColumn {
  std::uint32_t feature = 0;
  std::uint8_t decision = 0;  ///< of its nodes: kind, missing, default way
  std::uint32_t partition = SlicedFeature::one_value;
  std::uint32_t first_question = 0, questions = 0;
  // Where to look a value up (numerical columns): buckets of neighbouring doubles, each with few thresholds.
  std::uint32_t first_threshold = 0;          ///< of padded_threshold
  std::uint32_t first_rank = 0, buckets = 0;  ///< of bucket_rank
  std::int32_t bucket_shift = 0;              ///< bits of ordered_bits() that a bucket leaves open
  std::uint32_t bucket_thresholds = 0;        ///< most in one bucket
  std::int64_t first_bucket = 0;
};

/// Doubles as integers of the same order; NaN excepted.
inline std::int64_t ordered_bits(double value) noexcept {
  const auto bits = std::bit_cast<std::int64_t>(value);
  return bits ^ static_cast<std::int64_t>(static_cast<std::uint64_t>(bits >> 63) >> 1);
}

/// How to turn classes into rows: bit vectors for few classes, lists of rows for many.
struct SlicedPartition {
  std::uint32_t classes = 0;
  std::vector<SlicedLine> vectors;         ///< class after class; empty when lists are shorter
  std::vector<std::uint32_t> first, rows;  ///< rows of class c: rows[first[c]] .. rows[first[c + 1])
};

struct SlicedPlan {
  std::size_t rows = 0;
  std::size_t words = 0;  ///< of a bit vector; whole vectors of the kernels
  Best best = Best::highest;
  bool average = false;
  const SlicedKernels* kernels = nullptr;

  std::vector<SlicedTree> trees;
  std::vector<std::uint32_t>
      order;  ///< of the trees that may differ, for the rounded sums: most planes first
  std::vector<SlicedNode> nodes;
  std::vector<double> leaf_value;
  std::vector<std::uint64_t> leaf_code;  ///< rounded leaf above the tree's lowest; bit p at position 2 p
  std::vector<std::uint64_t> alive;      ///< leaves that some row may reach whatever the call's values are
  std::size_t most_leaves = 0;

  std::vector<SlicedColumn> columns;                ///< whose values a call gives
  std::vector<double> padded_threshold;             ///< by column, each followed by a NaN
  std::vector<std::uint32_t> bucket_rank;           ///< by column: thresholds in earlier buckets
  std::vector<std::uint32_t> set_first, set_words;  ///< by question: categories that go left
  std::vector<std::uint32_t> set_bits;
  std::vector<std::uint32_t> fixed_vector;  ///< by question: its bit vector when no call changes it
  std::vector<SlicedLine> fixed_bits;
  std::size_t fixed_vectors = 0, most_vectors = 0;
  std::vector<SlicedPartition> partitions;
  std::size_t most_classes = 0;

  // What an answer rules out: for question q, entries [cut_first[q], cut_first[q + 1]).
  std::vector<std::uint32_t> cut_first, cut_word;
  std::vector<std::uint64_t> keep_left,
      keep_right;  ///< leaves of the word that stay when all rows go that way

  double unit = 1;  ///< of rounded leaves
  double double_error =
      0;                   ///< most by which a sum in doubles, and what follows it, differs from the true sum
  std::size_t planes = 0;  ///< bits of a sum of rounded leaves
};

struct SlicedWork {
  explicit SlicedWork(const SlicedPlan& plan);

  std::vector<SlicedLine> bits;          ///< the plan's fixed vectors, then the call's
  std::size_t vectors = 0;               ///< in use
  std::vector<std::uint32_t> vector_of;  ///< by question
  std::vector<std::uint64_t> alive;
  std::vector<std::uint32_t> ranks, bucket, by_rank;  ///< of the classes of one column
  std::vector<SlicedStep> steps;
  std::vector<std::uint64_t> codes;            ///< of the alive leaves of each tree
  std::vector<double> values;                  ///< the same
  std::vector<SlicedTask> tasks;               ///< by tree
  std::vector<SlicedTask> sorted_tasks;        ///< for the kernel: fewest leaves first
  std::vector<std::uint32_t> tasks_by_leaves;  ///< counting sort
  std::vector<SlicedLine> planes, slots;
  std::vector<std::uint64_t> survivors, candidates;
  std::vector<std::uint32_t> batch_bits;  ///< exact sums, kSlicedBatch rows at once: answers by vector
  std::vector<double> batch_values;       ///< the leaves' values by tree
  std::vector<ScoredRow> scored;
  SlicedForest::Counts counts;

  std::uint64_t* bit_words() noexcept { return bits.data()->words; }
};

/// Builds the plan; see SlicedForest's constructor.
SlicedPlan make_sliced_plan(const Forest& forest, const SlicedRows& rows, Best best,
                            const SlicedKernels& kernels);

}  // namespace kscout
