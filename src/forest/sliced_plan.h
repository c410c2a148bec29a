#pragma once
/// \file
/// What a SlicedForest knows before a call (SlicedPlan) and holds during one (SlicedWork).
///
/// A *question* is a distinct (feature, way of treating missing values, threshold) or (feature, category
/// set); trees share questions. Questions about one feature form a *column*, sorted by threshold: the answers
/// of a value follow from its rank among the thresholds. A question that rows answer differently has a vector
/// of one bit per row: 1 = left. Leaves of a tree are numbered from left to right, so that the leaves below a
/// node are a range. In a call, all rows answer the first questions of a column with "right" (as many as the
/// least rank of their values) and those from the largest rank on with "left": the *extent* of the column.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/indexing.h"
#include "forest/sliced.h"
#include "forest/sliced_kernels.h"

namespace kscout {

/// Leaves of a tree as bits. Most trees of a trained forest have 31 leaves: half a word is enough, and every
/// byte of a plan is read in every call.
using LeafWord = std::uint32_t;
inline constexpr std::uint32_t kWordLeaves = 32;

/// A cache line: keeps bit vectors aligned for every instruction set.
struct alignas(64) SlicedLine {
  std::uint64_t words[8];
};
constexpr std::size_t sliced_lines(std::size_t words) noexcept { return (words + 7) / 8; }

/// Sixteen nodes of a tree in bytes: every byte of a plan is read in every call. The last of a tree is filled
/// up with nodes without leaves.
struct SlicedNodes {
  static constexpr std::size_t count = 16;
  std::array<std::uint8_t, count> column{}, rank{};  ///< the question: of which column, and which of its own
  std::array<std::uint8_t, count> begin{}, middle{}, end{};  ///< leaves [begin, middle), [middle, end)
};

/// A node of a wide tree.
struct SlicedNode {
  std::uint32_t question;
  std::uint16_t begin, middle, end;  ///< leaves [begin, middle) are to the left, [middle, end) to the right
};

/// Nodes stand parents first. In bytes, where the kernels read them: when its leaves fit a word and its
/// questions are of the first kSlicedLookup columns; then it has all nodes that calls or rows decide. Others
/// have those that rows may answer differently; what the answers to the rest rule out stands in
/// SlicedPlan::cut_first. One whose leaves fit a word is narrow: its nodes stand in SlicedPlan::left_leaves,
/// right_leaves and node_question; those of others in wide_nodes.
struct SlicedTree {
  std::uint32_t first_node = 0;  ///< in bytes: of byte_nodes
  std::uint32_t first_leaf = 0;
  std::uint32_t alive_word = 0;  ///< of SlicedPlan::alive
  std::uint16_t nodes = 0, leaves = 0, alive_words = 0;
  bool in_bytes = false;
  double error = 0;  ///< most that rounding moves a leaf
};

/// The number of what a question does not have: a column, a vector of its own.
inline constexpr std::uint32_t kSlicedNone = UINT32_MAX;

/// At most kSlicedColumnQuestions, so that a rank is a byte; a category set is a column of its own.
struct SlicedColumn {
  std::uint32_t feature = 0;
  std::uint32_t partition = SlicedFeature::one_value;
  std::uint32_t first_question = 0;
  std::uint32_t first_threshold = 0;  ///< of SlicedPlan::padded_threshold
  std::uint8_t questions = 0;
  std::uint8_t decision = 0;  ///< of its nodes: kind, missing, default way
};
inline constexpr std::uint32_t kSlicedColumnQuestions = 255;

/// A number for each of the first columns, looked up for the columns of many nodes at once.
inline constexpr std::size_t kSlicedLookup = 128;
struct alignas(64) SlicedLookup {
  std::array<std::uint16_t, kSlicedLookup> of{};
};
constexpr std::uint16_t sliced_extent(std::uint32_t least, std::uint32_t most) noexcept {
  return static_cast<std::uint16_t>(least | most << 8);
}

/// How to turn classes into rows: a bit vector for each of few classes, else the class of each row.
inline constexpr std::size_t kFewClasses = 40;
struct SlicedPartition {
  std::uint32_t classes = 0;
  std::vector<SlicedLine> vectors;  ///< class after class
  Spread class_of;                  ///< by row; both are empty when class r is row r
};

struct SlicedPlan {
  std::size_t rows = 0;
  std::size_t words = 0;  ///< of a bit vector; whole vectors of the kernels
  Best best = Best::highest;
  bool average = false;
  const SlicedKernels* kernels = nullptr;
  bool drops_rows = true;  ///< before all trees are added

  std::vector<SlicedTree> trees;
  std::vector<SlicedNodes> byte_nodes;
  bool all_in_bytes = true;  ///< the nodes of all trees stand there
  /// Of narrow trees: leaves on either side of each node, as bits. Each tree is filled up with nodes without
  /// leaves to a whole number of the kernels' vectors.
  std::vector<LeafWord> left_leaves, right_leaves;
  std::vector<std::uint32_t> node_question;
  std::vector<SlicedNode> wide_nodes;
  std::size_t steps = 0, pairs = 0;  ///< most of a call
  std::vector<double> leaf_value;
  std::vector<SlicedCode> leaf_code;  ///< rounded leaf above the tree's lowest; bit p at position 2 p
  std::vector<LeafWord> alive;        ///< leaves that some row may reach whatever the call's values are
  std::size_t most_leaves = 0;

  std::vector<SlicedColumn> columns;  ///< those whose values a call gives, then the others
  std::size_t call_columns = 0;
  SlicedLookup extents;         ///< of the others: sliced_extent()
  SlicedLookup first_question;  ///< as columns have it
  /// By column, each followed by kSlicedThresholdRoom NaNs; of a categorical one the number of its set.
  std::vector<double> padded_threshold;
  std::vector<std::uint32_t> set_words;  ///< as Forest::set_words
  std::vector<std::uint32_t> set_bits;
  std::vector<std::uint32_t> fixed_vector;  ///< by question: its bit vector when no call changes it
  std::vector<SlicedLine> fixed_bits;
  std::size_t fixed_vectors = 0, most_vectors = 0;
  std::vector<SlicedPartition> partitions;
  std::size_t most_classes = 0;

  // What an answer rules out in trees that are not in bytes: for question q, entries [cut_first[q],
  // cut_first[q + 1]).
  std::vector<std::uint32_t> cut_first, cut_word;
  std::vector<LeafWord> keep_left, keep_right;  ///< leaves of the word that stay when all rows go that way

  double unit = 1;  ///< of rounded leaves
  double double_error =
      0;                   ///< most by which a sum in doubles, and what follows it, differs from the true sum
  std::size_t planes = 0;  ///< bits of a sum of rounded leaves

  /// The categories that go left, as Forest::set_bits has them.
  std::span<const std::uint32_t> category_set(double number) const noexcept {
    const auto set = static_cast<std::size_t>(number);
    return {set_bits.data() + set_words[set], set_words[set + 1] - set_words[set]};
  }
};

/// Trees are sorted by leaves, all with as many or more together.
inline constexpr std::size_t kSlicedSizes = 33;

/// Rounded sums are made in phases; after each, rows that cannot be among the best any more are dropped. Ends
/// of the phases in eighths of the trees: few phases, because each sorts its trees anew.
inline constexpr std::array<std::size_t, 3> kSlicedPhaseEnds = {1, 3, 8};
inline constexpr std::size_t kSlicedPhases = kSlicedPhaseEnds.size();
/// Of rows in so few words none is dropped: a tree costs nearly as much for half of them.
inline constexpr std::size_t kSlicedDropWords = 16;

/// Thresholds are read in vectors.
inline constexpr std::size_t kSlicedThresholdRoom = 8;

/// Ranks are looked up in a table of this many cells.
inline constexpr int kSlicedCellBits = 10;
inline constexpr std::size_t kSlicedCellRoom = 64;  ///< behind the last: see fill_cells()

struct SlicedWork {
  explicit SlicedWork(const SlicedPlan& plan);

  /// Bit r of a vector stands for row r or, once rows were dropped, for the row in place r.
  std::size_t words = 0;            ///< of a vector
  std::vector<std::uint32_t> rows;  ///< by place, once rows were dropped
  /// The plan's fixed vectors, then the call's: room for all that a call may want, written when it does.
  std::unique_ptr<SlicedLine[]> bits;
  std::size_t vectors = 0;               ///< in use
  std::vector<std::uint32_t> vector_of;  ///< by question
  SlicedLookup extents;                  ///< of all columns
  std::vector<LeafWord> alive;
  std::vector<std::uint32_t> bucket, by_rank;        ///< of the classes of one column
  std::vector<std::uint32_t> thresholds_before;      ///< by cell, of one column
  std::vector<std::uint8_t> class_bytes, row_bytes;  ///< ranks of one column, whole words
  std::vector<std::uint32_t> leaves_before;          ///< of a wide tree, by word
  std::vector<SlicedStep> steps;                     ///< of the trees that part the rows, one after another
  std::vector<SlicedPair> pairs;                     ///< likewise, of their alive leaves
  std::vector<SlicedTask> tasks;                     ///< by tree
  std::vector<SlicedTask> sorted_tasks;  ///< of the trees that part the rows, in the kernel's order
  std::array<std::uint32_t, kSlicedPhases> phase_end{};  ///< of sorted_tasks
  std::vector<SlicedLine> planes, waiting, slots;
  std::vector<std::uint64_t> allowed, survivors, candidates;  ///< by place
  std::vector<std::int8_t> batch_bits;      ///< exact sums, kSlicedBatch rows at once: answers by vector
  std::vector<std::uint32_t> batch_leaves;  ///< by tree: positions in SlicedPlan::leaf_value
  std::vector<ScoredRow> scored;
  SlicedForest::Counts counts;

  std::uint64_t* bit_words() noexcept { return bits[0].words; }
  void copy_fixed_bits(const SlicedPlan& plan) noexcept {
    std::copy(plan.fixed_bits.begin(), plan.fixed_bits.end(), bits.get());
  }
};

/// From trees and leaf values: unit, double_error, planes, leaf_code and each tree's error.
void round_leaves(SlicedPlan& plan);

/// Builds the plan; see SlicedForest's constructor.
SlicedPlan make_sliced_plan(const Forest& forest, const SlicedRows& rows, Best best,
                            const SlicedKernels& kernels);

}  // namespace kscout
