#pragma once
/// \file
/// Scores few rows by a forest, exactly: the second step of a choice.
///
///     const ExactForest fast(forest, features);        // features[f]: how it varies, and its values if it never does
///     ExactForest::Scratch scratch(fast);              // one per thread
///     fast.scores(values, rows, out, scratch);         // values[f]: 32 doubles or one; out: at most 32 scores
///
/// The scores have the same bits as those of Forest::predict. Every kind of node and missing value and any
/// number of leaves are supported.
///
/// Method: the distinct thresholds of one feature (for one way of treating missing values) form a sorted
/// *column*. The *rank* of a value in a column is the number of thresholds that send the value right. A node
/// therefore compares bytes: a row goes right when its rank is greater than the node's position in the
/// column. A call ranks each value once. Then it visits all nodes of a tree, parents first, and keeps one
/// byte per row: the first leaf below the node that the row has reached. No branch depends on a value.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device_facts.h"
#include "expr/few_rows.h"
#include "forest/forest.h"

namespace kscout {

struct ExactKernels;

class ExactForest {
 public:
  static constexpr std::size_t block = 32;  ///< maximum number of rows per call
  using Ranks = std::int8_t[block];         ///< ranks of one column, by row: INT8_MIN + rank
  /// Reached leaves of one tree, by row, counted from the tree's first leaf.
  using Leaves = std::uint8_t[block];

  /// How a feature varies, and its fixed values.
  struct Feature {
    Varies varies = Varies::by_row;
    std::span<const double> fixed = {};  ///< for Varies::never: the values by row
  };

  /// `forest` must have passed check(). Keeps no reference to the arguments. features.size() ==
  /// forest.feature_count. `set`: the instruction set to use; all give the same bits.
  ExactForest(const Forest& forest, std::span<const Feature> features,
              InstructionSet set = best_instruction_set());

  /// Memory of a call, for one ExactForest and one thread at a time.
  class Scratch {
   public:
    explicit Scratch(const ExactForest& forest)
        : lines_(forest.columns_.size() + 1), reached_(forest.trees_.size() + 1) {}

   private:
    friend class ExactForest;
    struct alignas(block) Line {
      Ranks ranks;
    };
    struct alignas(block) Reached {
      Leaves leaves;
    };
    std::vector<Line> lines_;       ///< by column, and one padding line that is never read
    std::vector<Reached> reached_;  ///< by narrow tree
  };

  /// Number of distinct pairs of a feature and a threshold or category set.
  std::size_t splits() const noexcept;

  /// Scores rows.size() <= block rows. rows[i] is the index of row i in the `fixed` values; it is not read
  /// when no feature has any. values[f] points to `block` doubles, one per row with arbitrary numbers after
  /// them (Varies::by_row), or to one double (Varies::by_call). out.size() == rows.size(). Allocates nothing.
  void scores(std::span<const double* const> values, std::span<const std::uint32_t> rows,
              std::span<double> out, Scratch& scratch) const noexcept;

  /// A node of a narrow tree (at most 256 leaves, columns below 256). Its left subtree has `step` leaves,
  /// beginning with leaf `begin`. Its left child is the next node, its right child is `step` nodes further.
  struct Node {
    std::uint8_t column, begin, step;
    std::int8_t position;  ///< INT8_MIN + position in the column: rows of higher rank go right
  };
  struct Tree {
    std::uint32_t nodes;
    bool wide;
  };

 private:
  /// Thresholds of one feature, ascending, at most 255; or one category set.
  struct Column {
    std::uint32_t feature = 0;
    std::uint8_t decision = 0;  ///< Forest::decision of its nodes
    std::uint32_t first = 0;    ///< index into thresholds_ or set_bits_
    std::uint32_t count = 0;    ///< number of thresholds, or of words of the set
  };
  /// A node of a wide tree.
  struct WideNode {
    std::uint32_t column, step;
    std::int8_t position;
  };
  /// The split of a forest's node.
  struct Split {
    std::uint32_t column = 0;
    std::uint32_t position = 0;
  };

  std::vector<Split> make_columns(const Forest& forest, std::span<const Feature> features);
  void add_tree(const Forest& forest, std::size_t tree, std::span<const Split> split_of);
  std::span<const double> thresholds(const Column& column) const noexcept {
    return std::span(thresholds_).subspan(column.first, column.count);
  }
  std::int8_t rank(const Column& column, double value) const noexcept;
  void rank_rows(const Column& column, const double* values, Ranks& ranks) const noexcept;
  /// The leaf that a row reaches in a wide tree.
  static std::size_t wide_leaf(const WideNode* nodes, std::size_t count, const Ranks* ranks,
                               std::size_t row) noexcept;
  void rank_fixed(std::span<const Feature> features);
  void rank_values(std::span<const double* const> values, std::span<const std::uint32_t> rows,
                   Scratch& scratch) const noexcept;

  const ExactKernels* kernels_;
  std::vector<Column> columns_;           ///< sorted by Varies
  std::size_t by_call_ = 0, by_row_ = 0;  ///< first columns that vary in this way
  std::vector<std::int8_t> fixed_ranks_;  ///< row after row: ranks in the columns that never vary
  std::vector<double> thresholds_;
  std::vector<std::uint32_t> set_bits_;
  std::vector<Tree> trees_;
  std::vector<Node> nodes_;           ///< nodes of narrow trees, in preorder
  std::vector<WideNode> wide_nodes_;  ///< nodes of wide trees, in preorder
  std::vector<double> leaves_;        ///< leaf values of each tree, from left to right
  bool average_;
};

}  // namespace kscout
