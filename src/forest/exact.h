#pragma once
/// \file
/// Scores few rows by a forest, exactly: the second step of a choice.
///
///     const ExactForest fast(forest, features);        // features[f]: how it varies, and its values if it never does
///     ExactForest::Scratch scratch;                    // one per thread, for any forests
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
  struct alignas(block) Ranks {
    std::int8_t of_row[block];  ///< INT8_MIN + rank in one column
  };

  /// How a feature varies, and its fixed values.
  struct Feature {
    Varies varies = Varies::by_row;
    std::span<const double> fixed = {};  ///< for Varies::never: the values by row
  };

  /// `forest` must have passed check(). Keeps no reference to the arguments. features.size() ==
  /// forest.feature_count. `set`: the instruction set to use; all give the same bits.
  ExactForest(const Forest& forest, std::span<const Feature> features,
              InstructionSet set = best_instruction_set());

  /// Memory of a call, which grows when a forest needs more: ranks by column.
  using Scratch = std::vector<Ranks>;

  /// Scores rows.size() <= block rows. rows[i] is the index of row i in the `fixed` values; it is not read
  /// when no feature has any. values[f] points to `block` doubles, one per row with arbitrary numbers after
  /// them (Varies::by_row), or to one double (Varies::by_call). out.size() == rows.size(). Allocates only
  /// when `scratch` is smaller than needed.
  void scores(std::span<const double* const> values, std::span<const std::uint32_t> rows,
              std::span<double> out, Scratch& scratch) const;

  /// A node. Its left subtree has `step` leaves, beginning with leaf `begin`. Its left child is the next
  /// node, its right child is `step` nodes further.
  template <class ColumnNumber, class Leaf>
  struct NodeOf {
    ColumnNumber column;
    Leaf begin, step;
    std::int8_t position;  ///< INT8_MIN + position in the column: rows of higher rank go right
  };
  using Node = NodeOf<std::uint16_t, std::uint8_t>;
  using WideNode = NodeOf<std::uint32_t, std::uint32_t>;

 private:
  /// Thresholds of one feature, ascending, at most 255; or one category set.
  struct Column {
    std::uint32_t feature = 0;
    std::uint8_t decision = 0;  ///< Forest::decision of its nodes
    std::uint32_t first = 0;    ///< index into thresholds_ or set_bits_
    std::uint32_t count = 0;    ///< number of thresholds, or of words of the set
  };

  std::vector<WideNode> make_columns(const Forest& forest, std::span<const Feature> features);
  void add_tree(const Forest& forest, std::size_t tree, std::span<const WideNode> split_of);
  std::int8_t rank(const Column& column, double value) const noexcept;

  const ExactKernels* kernels_;
  std::vector<Column> columns_;           ///< sorted by Varies
  std::size_t by_call_ = 0, by_row_ = 0;  ///< first columns that vary in this way
  std::vector<std::int8_t> fixed_ranks_;  ///< row after row: ranks in the columns that never vary
  std::vector<double> thresholds_;
  std::vector<std::uint32_t> set_bits_;
  std::vector<std::uint32_t> tree_nodes_;  ///< number of nodes by tree
  std::vector<Node> nodes_;                ///< of all trees, in preorder
  std::vector<WideNode> wide_nodes_;       ///< instead of nodes_ when a number exceeds its width in a Node
  std::vector<double> leaves_;             ///< leaf values of each tree, from left to right
  bool average_;
};

}  // namespace kscout
