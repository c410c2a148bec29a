#pragma once
/// \file
/// Scores few rows by a forest, exactly: the second step of a choice.
///
///     const ExactForest fast(forest, varies);     // varies[f]: how feature f varies
///     ExactForest::Scratch scratch(fast);         // one per thread
///     fast.scores(values, {}, out, scratch);      // values[f]: 32 doubles or one; out: at most 32 scores
///
/// The scores are Forest::predict's, bit for bit: every kind of node and missing value, any number of leaves.
///
/// Method: the distinct thresholds of one feature (for one way of treating missing values) form a sorted
/// *column*. The *rank* of a value in a column is the number of thresholds that send the value right, so that
/// a node compares bytes: a row goes right when its rank is greater than the node's position in the column. A
/// call ranks each value once. Then it visits all nodes of a tree, parents first, and keeps one byte per row:
/// the first leaf below the node that the row has reached. No branch depends on a value.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device_facts.h"
#include "forest/forest.h"

namespace kscout {

/// How a feature's values vary.
enum class Varies : std::uint8_t {
  never,    ///< a row keeps its value in all calls: ExactForest::rank_fixed() ranks it once
  by_call,  ///< the rows of a call share one value
  by_row,   ///< each row of each call has a value of its own
};

struct ExactKernels;

class ExactForest {
 public:
  static constexpr std::size_t block = 32;  ///< most rows of a call
  using Ranks = std::int8_t[block];         ///< of one column: INT8_MIN + rank, by row

  /// The forest has passed check(); it may be freed afterwards. varies.size() == forest.feature_count. `set`:
  /// instructions to use; all give the same bits.
  ExactForest(const Forest& forest, std::span<const Varies> varies,
              InstructionSet set = best_instruction_set());

  /// Memory of a call; for one ExactForest and one thread at a time.
  class Scratch {
   public:
    explicit Scratch(const ExactForest& forest) : lines_(forest.columns_.size() + 1) {}

   private:
    friend class ExactForest;
    struct alignas(block) Line {
      Ranks ranks;
    };
    std::vector<Line> lines_;  ///< by column, and one that is never read
  };

  /// Distinct pairs of a feature and its threshold or category set.
  std::size_t splits() const noexcept;
  /// Bytes that rank_fixed() writes.
  std::size_t fixed_size() const noexcept { return by_call_; }
  /// Ranks the features of one row that never vary. row[f]: the value of feature f; features that vary are
  /// not read. ranks.size() == fixed_size().
  void rank_fixed(std::span<const double> row, std::span<std::int8_t> ranks) const noexcept;

  /// Scores out.size() <= block rows. values[f] points to `block` doubles, one per row and any numbers behind
  /// them (Varies::by_row), or to one (Varies::by_call). fixed[r] points to what rank_fixed() wrote for row
  /// r; empty when no feature has Varies::never. Allocates nothing.
  void scores(std::span<const double* const> values, std::span<const std::int8_t* const> fixed,
              std::span<double> out, Scratch& scratch) const noexcept;

  /// A node of a narrow tree (at most 256 leaves, columns below 256). `step` leaves are to its left, from
  /// leaf `begin` on.
  struct Node {
    std::uint8_t column, begin, step;
    std::int8_t position;  ///< INT8_MIN + position in the column: rows of greater rank go right
  };

 private:
  /// Thresholds of one feature, ascending, at most 255; or one category set.
  struct Column {
    std::uint32_t feature = 0;
    std::uint8_t decision = 0;  ///< of its nodes: Forest::decision
    std::uint32_t first = 0;    ///< of thresholds_ or set_bits_
    std::uint32_t count = 0;    ///< thresholds, or words of the set
  };
  /// A node of another tree: its left child follows, its right child stands `step` nodes on.
  struct WideNode {
    std::uint32_t column, step;
    std::int8_t position;
  };
  struct Tree {
    std::uint32_t nodes;
    bool wide;
  };
  /// Where a node of the forest asks.
  struct Split {
    std::uint32_t column = 0;
    std::uint32_t position = 0;
  };

  std::vector<Split> make_columns(const Forest& forest, std::span<const Varies> varies);
  void add_tree(const Forest& forest, std::size_t tree, std::span<const Split> split_of);
  std::span<const double> thresholds(const Column& column) const noexcept {
    return std::span(thresholds_).subspan(column.first, column.count);
  }
  std::int8_t rank(const Column& column, double value) const noexcept;
  void rank_values(std::span<const double* const> values, std::span<const std::int8_t* const> fixed,
                   Scratch& scratch) const noexcept;

  const ExactKernels* kernels_;
  std::vector<Column> columns_;           ///< in the order of Varies
  std::size_t by_call_ = 0, by_row_ = 0;  ///< first columns that vary so
  std::vector<double> thresholds_;
  std::vector<std::uint32_t> set_bits_;
  std::vector<Tree> trees_;
  std::vector<Node> nodes_;           ///< of narrow trees, in preorder
  std::vector<WideNode> wide_nodes_;  ///< of the others, likewise
  std::vector<double> leaves_;        ///< of each tree, from left to right
  bool average_;
};

}  // namespace kscout
