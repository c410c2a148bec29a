// Sums over trees of a few rows, one by one, compiled for each instruction set. Included after sliced-inl.h.
#pragma once
#include <algorithm>
#include <array>
#include <bit>

#include "forest/sliced_plan.h"
#include "forest/sliced_trees-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

constexpr std::size_t kBatch = kSlicedBatch;  ///< rows at once

/// Sums of at most kBatch rows, named by their places.
class RowSums {
 public:
  RowSums(const SlicedPlan& plan, SlicedWork& work) noexcept : plan_(plan), work_(work) {}

  /// As Forest::predict sums.
  KSCOUT_SLICED_CODE void exact(std::span<const std::uint32_t> places, double* sums) noexcept {
    find_values(places);
    add_leaves_in_order(places.size(), sums);
    if (plan_.average && !plan_.trees.empty()) {
      const auto trees = static_cast<double>(plan_.trees.size());
      for (std::size_t row = 0; row < places.size(); ++row) sums[row] /= trees;
    }
    work_.counts.exact += places.size();
  }

  /// Adds the rounded leaves of sorted_tasks from first_task on.
  void add_rounded(std::span<const std::uint32_t> places, std::size_t first_task,
                   std::uint64_t* sums) noexcept {
    gather_batch(places);
    for (std::size_t t = first_task; t < work_.counts.sliced; ++t) {
      const SlicedTask& task = work_.sorted_tasks[t];
      const SlicedPair* const pairs = work_.pairs.data() + task.first_pair;
      std::int32_t leaves[kBatch];
      find_leaves(task, places.size(), leaves);
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto leaf = static_cast<std::uint32_t>(leaves[i]);
        const SlicedPair pair = pairs[leaf / 2];
        sums[i] += gathered_code(leaf % 2 == 0 ? first_of(pair) : second_of(pair));
      }
    }
  }

 private:
  static constexpr hn::CappedTag<std::int32_t, kBatch> lanes{};
  static constexpr hn::Rebind<std::int8_t, decltype(lanes)> byte_lanes{};

  /// Where the values of the batch's leaves stand, in trees that part the call's rows: batch_leaves.
  void find_values(std::span<const std::uint32_t> places) noexcept {
    if constexpr (kRowsByRanks > 0) {
      if (places.size() <= kRowsByRanks && plan_.all_in_bytes) return find_values_by_ranks(places);
    }
    gather_batch(places);
    for (std::size_t t = 0; t < work_.counts.sliced; ++t) {
      find_values_by_steps(work_.sorted_tasks[t], places.size());
    }
  }

  /// Answers of the batch's rows: byte i of batch_bits[v] is 0 or all ones.
  void gather_batch(std::span<const std::uint32_t> places) noexcept {
    for (std::size_t v = 0; v < work_.vectors; ++v) {
      const std::uint64_t* const from = work_.bit_words() + v * work_.words;
      std::int8_t* const to = work_.batch_bits.data() + v * kBatch;
      for (std::size_t i = 0; i < places.size(); ++i) {
        to[i] = static_cast<std::int8_t>(-static_cast<int>((from[places[i] / 64] >> (places[i] % 64)) & 1));
      }
    }
  }

  /// The alive leaf of each row of the batch: it moves from the first leaf of a node to the first on its
  /// right.
  void find_leaves(const SlicedTask& task, std::size_t rows, std::int32_t* HWY_RESTRICT to) noexcept {
    const SlicedStep* const steps = work_.steps.data() + task.first_step;
    for (std::size_t first = 0; first < rows; first += hn::Lanes(lanes)) {
      auto leaf = hn::Zero(lanes);
      for (std::size_t s = 0; s + 1 < task.leaves; ++s) {
        const std::int8_t* const answers =
            work_.batch_bits.data() + work_.vector_of[steps[s].question] * kBatch + first;
        const auto answer = hn::PromoteTo(lanes, hn::LoadU(byte_lanes, answers));
        const auto here = hn::VecFromMask(lanes, hn::Eq(leaf, hn::Set(lanes, std::int32_t{steps[s].leaf})));
        const auto moves = hn::MaskFromVec(hn::AndNot(answer, here));
        leaf = hn::IfThenElse(moves, hn::Set(lanes, std::int32_t{steps[s].right}), leaf);
      }
      hn::StoreU(leaf, lanes, to + first);
    }
  }

  /// The alive leaf of the only row.
  void find_leaf(const SlicedTask& task, std::int32_t* to) const noexcept {
    const SlicedStep* const steps = work_.steps.data() + task.first_step;
    const std::int8_t* const answers = work_.batch_bits.data();
    const std::uint32_t* const vector_of = work_.vector_of.data();
    std::uint32_t leaf = 0;
    for (std::size_t s = 0; s + 1 < task.leaves; ++s) {
      // Without a branch: half of the rows' answers cannot be predicted.
      const std::uint32_t left = static_cast<std::uint8_t>(answers[vector_of[steps[s].question] * kBatch]);
      const std::uint32_t moves = (left | (leaf ^ steps[s].leaf)) == 0 ? ~0u : 0u;
      leaf ^= (leaf ^ steps[s].right) & moves;
    }
    *to = static_cast<std::int32_t>(leaf);
  }

  /// A value that is wanted when those of all trees have been found: most are not in a cache near enough.
  void ask_for_value(std::uint32_t at) const noexcept { hwy::Prefetch(plan_.leaf_value.data() + at); }

  /// As find_values, in one tree.
  void find_values_by_steps(const SlicedTask& task, std::size_t rows) noexcept {
    std::int32_t leaves[kBatch];
    rows == 1 ? find_leaf(task, leaves) : find_leaves(task, rows, leaves);
    std::uint32_t* const to = work_.batch_leaves.data() + task.tree * kBatch;
    for (std::size_t i = 0; i < rows; ++i) {
      const std::uint32_t at = position(task, static_cast<std::uint32_t>(leaves[i]));
      ask_for_value(at);
      to[i] = at;
    }
  }

#if HWY_TARGET == HWY_AVX3_DL
  /// As many rows find their leaves from the ranks of their values: more are faster step by step, together.
  static constexpr std::size_t kRowsByRanks = 2;

  /// The ranks of one row's values, each as the least and the largest: the column's questions less those that
  /// the row answers with "left".
  SlicedLookup ranks_of(std::uint32_t place) const noexcept {
    SlicedLookup ranks;
    const std::uint64_t* const answers = work_.bit_words() + place / 64;
    for (std::size_t c = 0; c < std::min(plan_.columns.size(), kSlicedLookup); ++c) {
      const std::uint32_t least = work_.extents.of[c] & 0xff, most = work_.extents.of[c] >> 8;
      const std::uint32_t* const vector_of = work_.vector_of.data() + plan_.columns[c].first_question;
      std::uint64_t left = 0;
      for (std::uint32_t q = least; q < most; ++q) {
        left += (answers[vector_of[q] * work_.words] >> (place % 64)) & 1;
      }
      const std::uint32_t rank = most - static_cast<std::uint32_t>(left);
      ranks.of[c] = sliced_extent(rank, rank);
    }
    return ranks;
  }

  /// As find_values, of few rows: all nodes of a tree at once, once for each row.
  KSCOUT_SLICED_CODE void find_values_by_ranks(std::span<const std::uint32_t> places) noexcept {
    std::array<SlicedLookup, kRowsByRanks> ranks;
    for (std::size_t i = 0; i < places.size(); ++i) ranks[i] = ranks_of(places[i]);
    std::uint32_t* to = work_.batch_leaves.data();
    for (const SlicedTree& tree : plan_.trees) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const LeafWord leaf = reached_leaves(plan_, tree, ranks[i], work_.alive[tree.alive_word]);
        to[i] = tree.first_leaf + static_cast<std::uint32_t>(std::countr_zero(leaf));
        ask_for_value(to[i]);
      }
      to += kBatch;
    }
    work_.counts.by_ranks += places.size();
  }
#else
  static constexpr std::size_t kRowsByRanks = 0;
  void find_values_by_ranks(std::span<const std::uint32_t>) noexcept;  // never called, nowhere defined
#endif

  /// Where the value of a tree's alive leaf stands.
  std::uint32_t position(const SlicedTask& task, std::uint32_t leaf) const noexcept {
    const SlicedTree& tree = plan_.trees[task.tree];
    const LeafWord* word = work_.alive.data() + tree.alive_word;
    std::uint32_t before = tree.first_leaf;
    for (std::uint32_t here; leaf >= (here = ones(*word)); ++word) {
      leaf -= here;
      before += kWordLeaves;
    }
    return before + nth_one(*word, leaf);
  }

  static std::uint32_t ones(LeafWord word) noexcept {
    return static_cast<std::uint32_t>(std::popcount(word));
  }

  /// The position of the one that `before` others precede: the byte, then within it; nothing to predict.
  static std::uint32_t nth_one(LeafWord word, std::uint32_t before) noexcept {
#if HWY_TARGET == HWY_AVX3_DL  // all of them deposit bits fast
    return static_cast<std::uint32_t>(std::countr_zero(_pdep_u32(LeafWord{1} << before, word)));
#else
    std::uint32_t shift = 0;
    for (const LeafWord bytes : {LeafWord{0xff}, LeafWord{0xffff}, LeafWord{0xffffff}}) {
      shift += 8 * static_cast<std::uint32_t>(before >= ones(word & bytes));
    }
    before -= ones(word & ((LeafWord{1} << shift) - 1));
    return shift + kOnesOfByte[(word >> shift) & 0xff][before];
#endif
  }

  /// The values that batch_leaves names, and those of trees in which all rows met, in the order of the trees.
  void add_leaves_in_order(std::size_t rows, double* sums) noexcept {
    const double* const values = plan_.leaf_value.data();
    std::fill_n(sums, rows, 0.0);
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) {
      const SlicedTask& task = work_.tasks[tree];
      const std::uint32_t* const from = work_.batch_leaves.data() + tree * kBatch;
      if (task.leaves == 1) {
        const double same = values[position(task, 0)];
        for (std::size_t i = 0; i < rows; ++i) sums[i] += same;
      } else {
        for (std::size_t i = 0; i < rows; ++i) sums[i] += values[from[i]];
      }
    }
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
};

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
