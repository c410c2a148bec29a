// What is left of the trees of a call, compiled for each instruction set. Included after sliced-inl.h.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "forest/sliced_plan.h"
#if HWY_TARGET == HWY_AVX3_DL
#include "forest/sliced_bytes-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

/// By byte: the positions of its ones, then zeros.
inline constexpr auto kOnesOfByte = [] {
  std::array<std::array<std::uint8_t, 8>, 256> ones{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::size_t count = 0;
    for (std::uint8_t bit = 0; bit < 8; ++bit) {
      if ((byte >> bit) & 1) ones[byte][count++] = bit;
    }
  }
  return ones;
}();

#if HWY_TARGET != HWY_SCALAR
/// Codes of leaves, eight at a time.
inline constexpr hn::CappedTag<SlicedCode, 8> code_lanes;
static_assert(HWY_LANES(SlicedCode) >= 8);

#endif

/// From the leaves that rows still reach to the tasks of add_trees.
class TreePlanner {
 public:
  TreePlanner(const SlicedPlan& plan, SlicedWork& work) noexcept : plan_(plan), work_(work) {}

  /// work.tasks, sorted_tasks, phase_end and their steps and codes.
  void run() noexcept {
    next_step_ = next_pair_ = 0;
#if HWY_TARGET == HWY_AVX3_DL  // all of them first: no tree waits for another
    for (const SlicedTree& tree : plan_.trees) {
      if (!tree.in_bytes) continue;
      work_.alive[tree.alive_word] = reached_leaves(plan_, tree, work_.extents, plan_.alive[tree.alive_word]);
    }
#endif
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) plan_tree(tree);
    sort_tasks();
  }

 private:
  KSCOUT_SLICED_CODE void plan_tree(std::size_t index) noexcept {
    const SlicedTree& tree = plan_.trees[index];
    SlicedTask task;
    task.tree = static_cast<std::uint32_t>(index);
    task.first_step = next_step_;
    task.first_pair = next_pair_;
    const std::uint32_t steps = write_steps(tree, task);
    task.leaves = static_cast<std::uint16_t>(steps + 1);
    if (task.leaves > 1) {
      const SlicedCode range = code_leaves(tree, task);
      task.planes = static_cast<std::uint16_t>((std::bit_width(range) + 1) / 2);
      task.range = static_cast<std::uint16_t>(gathered_code(range));
      next_step_ += steps;
      next_pair_ += sliced_pairs(task.leaves);
      ++work_.counts.sliced;
    } else {
      ++work_.counts.constant;
    }
    work_.tasks[index] = task;
  }

  // ---- steps

  std::uint32_t write_steps(const SlicedTree& tree, const SlicedTask& task) noexcept {
#if HWY_TARGET == HWY_AVX3_DL
    if (tree.in_bytes) {
      return steps_of_bytes(plan_, tree, work_.alive[tree.alive_word], work_.steps.data() + task.first_step);
    }
#endif
    return tree.alive_words == 1 ? narrow_steps(tree, task) : wide_steps(tree, task);
  }

  /// Nodes that part the alive leaves of a narrow tree, as bits.
  std::uint64_t parting_nodes(const SlicedTree& tree, LeafWord alive) const noexcept {
    constexpr hn::ScalableTag<LeafWord> nodes;
    const LeafWord* const left = plan_.left_leaves.data() + tree.first_node;
    const LeafWord* const right = plan_.right_leaves.data() + tree.first_node;
    const auto reached = hn::Set(nodes, alive), none = hn::Zero(nodes);
    std::uint64_t dead = 0;
    for (std::size_t n = 0; n < tree.nodes; n += hn::Lanes(nodes)) {
      const auto no_left = hn::Eq(hn::And(hn::LoadU(nodes, left + n), reached), none);
      const auto no_right = hn::Eq(hn::And(hn::LoadU(nodes, right + n), reached), none);
      dead |= mask_bits(nodes, hn::Or(no_left, no_right)) << n;
    }
    return ~dead & ((std::uint64_t{1} << tree.nodes) - 1);
  }

  std::uint32_t narrow_steps(const SlicedTree& tree, const SlicedTask& task) noexcept {
    const LeafWord alive = work_.alive[tree.alive_word];
    SlicedStep* step = work_.steps.data() + task.first_step;
    const auto alive_before = [&](LeafWord leaves) {
      return static_cast<std::uint16_t>(std::popcount(alive & ((leaves & (0 - leaves)) - 1)));
    };
    std::uint64_t rest = parting_nodes(tree, alive);
    const auto count = static_cast<std::uint32_t>(std::popcount(rest));
    for (; rest != 0; rest &= rest - 1) {
      const std::size_t node = tree.first_node + static_cast<std::size_t>(std::countr_zero(rest));
      *step++ = {plan_.node_question[node], alive_before(plan_.left_leaves[node]),
                 alive_before(plan_.right_leaves[node])};
    }
    return count;
  }

  /// Steps are written whether they part the leaves or not, and kept when they do: no branch to predict.
  std::uint32_t wide_steps(const SlicedTree& tree, const SlicedTask& task) noexcept {
    const LeafWord* const alive = work_.alive.data() + tree.alive_word;
    std::uint32_t* const leaves_before = work_.leaves_before.data();
    std::uint32_t sum = 0;
    for (std::uint32_t word = 0; word <= tree.alive_words; ++word) {
      leaves_before[word] = sum;
      if (word < tree.alive_words) sum += static_cast<std::uint32_t>(std::popcount(alive[word]));
    }
    const auto alive_before = [&](std::uint32_t leaf) {
      const std::uint32_t word = leaf / kWordLeaves;
      const LeafWord lower = alive[word] & ((LeafWord{1} << (leaf % kWordLeaves)) - 1);
      return leaves_before[word] + static_cast<std::uint32_t>(std::popcount(lower));
    };
    SlicedStep* const steps = work_.steps.data() + task.first_step;
    const SlicedNode* node = plan_.wide_nodes.data() + tree.first_node;
    std::uint32_t count = 0;
    for (const SlicedNode* const end = node + tree.nodes; node != end; ++node) {
      const std::uint32_t left = alive_before(node->begin), right = alive_before(node->middle);
      const std::uint32_t after = alive_before(node->end);
      steps[count] = {node->question, static_cast<std::uint16_t>(left), static_cast<std::uint16_t>(right)};
      count += static_cast<std::uint32_t>(left < right) & static_cast<std::uint32_t>(right < after);
    }
    return count;
  }

  // ---- leaves

#if HWY_TARGET == HWY_SCALAR
  /// work.pairs: of the alive leaves. Values count from the least of them, so that they have few bits.
  /// Returns the largest.
  SlicedCode code_leaves(const SlicedTree& tree, const SlicedTask& task) noexcept {
    const LeafWord* const alive = work_.alive.data() + tree.alive_word;
    const auto for_each_code = [&](const auto& use) {
      for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
        for (LeafWord rest = alive[word]; rest != 0; rest &= rest - 1) {
          const std::uint32_t leaf = word * kWordLeaves + static_cast<std::uint32_t>(std::countr_zero(rest));
          use(plan_.leaf_code[tree.first_leaf + leaf]);
        }
      }
    };
    SlicedCode lowest = kSlicedValueBits, highest = 0;
    for_each_code([&](SlicedCode code) {
      lowest = std::min(lowest, code);
      highest = std::max(highest, code);
    });
    SlicedPair* const pairs = work_.pairs.data() + task.first_pair;
    std::uint32_t count = 0;
    SlicedCode first = 0;
    for_each_code([&](SlicedCode code) {
      const SlicedCode above = (code - lowest) & kSlicedValueBits;
      if (count % 2 == 0) first = above;
      pairs[count / 2] = sliced_pair(first, count % 2 == 0 ? 0 : above);
      ++count;
    });
    return (highest - lowest) & kSlicedValueBits;
  }
  void pair_codes(const SlicedTask&) const noexcept {}
#else
  /// Where their pairs will stand, the codes of the alive leaves, one after another. They count from the
  /// least of them, so that they have few bits. Returns the largest.
  SlicedCode code_leaves(const SlicedTree& tree, const SlicedTask& task) noexcept {
    const LeafWord* const alive = work_.alive.data() + tree.alive_word;
    const SlicedCode* const all = plan_.leaf_code.data() + tree.first_leaf;
#if HWY_TARGET == HWY_AVX3_DL
    if (tree.alive_words == 1) {
      return narrow_codes_at_once(all, *alive,
                                  reinterpret_cast<SlicedCode*>(work_.pairs.data() + task.first_pair));
    }
#endif
    const auto alive_of = [alive](std::size_t leaf) {
      return static_cast<std::uint8_t>(alive[leaf / kWordLeaves] >> (leaf % kWordLeaves));
    };
    alignas(32) static constexpr SlicedCode kLaneBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const auto lane_bits = hn::Load(code_lanes, kLaneBits);
    const auto value_bits = hn::Set(code_lanes, kSlicedValueBits);
    auto lowest = value_bits, highest = hn::Zero(code_lanes);
    for (std::size_t leaf = 0; leaf < tree.leaves; leaf += hn::Lanes(code_lanes)) {
      const auto code = hn::LoadU(code_lanes, all + leaf);
      const auto here = hn::TestBit(hn::Set(code_lanes, alive_of(leaf)), lane_bits);
      lowest = hn::Min(lowest, hn::IfThenElse(here, code, lowest));
      highest = hn::Max(highest, hn::IfThenElseZero(here, code));
    }
    lowest = hn::MinOfLanes(code_lanes, lowest);
    // Vectors are written whole: what stands behind a tree's pairs belongs to trees that come later.
    auto* codes = reinterpret_cast<SlicedCode*>(work_.pairs.data() + task.first_pair);
    for (std::size_t leaf = 0; leaf < tree.leaves; leaf += hn::Lanes(code_lanes)) {
      const auto above = hn::And(hn::Sub(hn::LoadU(code_lanes, all + leaf), lowest), value_bits);
      const auto& ones = kOnesOfByte[alive_of(leaf)];
      const auto from =
          hn::PromoteTo(code_lanes, hn::LoadU(hn::Rebind<std::uint8_t, decltype(code_lanes)>(), ones.data()));
      hn::StoreU(hn::TableLookupLanes(above, hn::IndicesFromVec(code_lanes, from)), code_lanes, codes);
      codes += std::popcount(alive_of(leaf));
    }
    hn::StoreU(hn::Zero(code_lanes), code_lanes, codes);  // the partner of an odd one
    return (hn::GetLane(hn::MaxOfLanes(code_lanes, highest)) - hn::GetLane(lowest)) & kSlicedValueBits;
  }

  /// work.pairs, in place of the codes. Later than those were written: they are read as they were not, which
  /// would have to wait for them.
  void pair_codes(const SlicedTask& task) noexcept {
    SlicedPair* const pairs = work_.pairs.data() + task.first_pair;
    constexpr hn::RepartitionToWide<decltype(code_lanes)> both;
    const auto value_bits = hn::Set(both, std::uint64_t{kSlicedValueBits});
    for (std::size_t pair = 0; 2 * pair < task.leaves; pair += hn::Lanes(both)) {  // as sliced_pair()
      const auto firsts = hn::LoadU(both, pairs + pair), seconds = hn::ShiftRight<32>(firsts);
      const auto places = hn::Or(hn::AndNot(hn::Xor(firsts, seconds), value_bits), hn::Add(seconds, seconds));
      hn::StoreU(hn::ShiftLeft<kSlicedPlaceBit>(places), both, pairs + pair);
    }
  }
#endif

  // ---- the kernel's order

  /// Where a range stands among all: its highest bit and the two bits behind it.
  static std::size_t range_bucket(std::uint32_t range) noexcept {
    const int width = std::bit_width(range | 1);
    return static_cast<std::size_t>(4 * (width - 1)) + (((range << 2) >> (width - 1)) & 3);
  }

  /// In phases, trees of large ranges first: what rows can still gain falls fast.
  void sort_tasks() noexcept {
    const std::span<const SlicedTask> tasks(work_.tasks.data(), plan_.trees.size());
    if (!plan_.drops_rows) return sort_phases<1>(tasks, [](const SlicedTask&) { return 0; });
    std::array<std::uint32_t, 4 * kSlicedCodeBits> phase_of{};
    for (const SlicedTask& task : tasks) phase_of[range_bucket(task.range)] += task.leaves > 1;
    std::size_t before = 0, phase = 0;
    for (std::size_t bucket = phase_of.size(); bucket-- > 0;) {
      while (8 * before > kSlicedPhaseEnds[phase] * work_.counts.sliced) ++phase;
      before += std::exchange(phase_of[bucket], static_cast<std::uint32_t>(phase));
    }
    sort_phases<kSlicedPhases>(tasks,
                               [&](const SlicedTask& task) { return phase_of[range_bucket(task.range)]; });
  }

  /// In a phase few leaves first, among them few planes first, so that the kernel's loops repeat. Stable
  /// counting sort.
  template <std::size_t Phases, class PhaseOf>
  void sort_phases(std::span<const SlicedTask> tasks, const PhaseOf& phase_of) noexcept {
    constexpr std::size_t kPhaseKeys = kSlicedSizes * kSlicedCodeBits;
    const auto key = [&](const SlicedTask& task) {
      const std::size_t size = std::min<std::size_t>(task.leaves, kSlicedSizes - 1);
      return phase_of(task) * kPhaseKeys + size * kSlicedCodeBits + task.planes - (task.planes > 0);
    };
    std::array<std::uint32_t, Phases * kPhaseKeys> next{};
    for (const SlicedTask& task : tasks) next[key(task)] += task.leaves > 1;
    std::uint32_t sum = 0;
    for (std::size_t of = 0; of < Phases; ++of) {
      for (std::uint32_t& place : std::span(next).subspan(of * kPhaseKeys, kPhaseKeys)) {
        sum += std::exchange(place, sum);
      }
      work_.phase_end[of] = sum;
    }
    for (const SlicedTask& task : tasks) {
      if (task.leaves > 1) work_.sorted_tasks[next[key(task)]++] = task;
    }
    for (const SlicedTask& task : std::span(work_.sorted_tasks).first(work_.counts.sliced)) pair_codes(task);
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
  std::uint32_t next_step_ = 0, next_pair_ = 0;
};

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
