// What is left of the trees of a call, compiled for each instruction set. Included after sliced-inl.h.
#include <algorithm>
#include <bit>

#include "forest/sliced_plan.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

/// From the leaves that rows still reach to the tasks of add_trees.
class TreePlanner {
 public:
  TreePlanner(const SlicedPlan& plan, SlicedWork& work) noexcept : plan_(plan), work_(work) {}

  /// work.tasks, sorted_tasks and their steps, codes and leaves.
  void run() noexcept {
    for (std::size_t tree = 0; tree < plan_.trees.size(); ++tree) plan_tree(tree);
    sort_tasks();
  }

 private:
  void plan_tree(std::size_t index) noexcept {
    const SlicedTree& tree = plan_.trees[index];
    SlicedTask task;
    task.tree = static_cast<std::uint32_t>(index);
    task.first_step = tree.first_step;
    task.first_leaf = tree.first_leaf;
    task.leaves = 1 + (tree.alive_words == 1 ? narrow_steps(tree) : wide_steps(tree));
    list_leaves(tree);
    if (task.leaves > 1) {
      task.planes = code_leaves(task);
      work_.unsorted_tasks[work_.counts.sliced++] = task;
    } else {
      ++work_.counts.constant;
    }
    work_.tasks[index] = task;
  }

  // ---- steps

  /// Nodes that part the alive leaves of a narrow tree, as bits.
  std::uint64_t parting_nodes(const SlicedTree& tree, std::uint64_t alive) const noexcept {
    const std::uint64_t* const left = plan_.left_leaves.data() + tree.first_node;
    const std::uint64_t* const right = plan_.right_leaves.data() + tree.first_node;
    const BitVector reached = hn::Set(bits, alive), none = hn::Zero(bits);
    std::uint64_t dead = 0;
    for (std::size_t n = 0; n < tree.nodes; n += kLanes) {
      const auto no_left = hn::Eq(hn::And(hn::LoadU(bits, left + n), reached), none);
      const auto no_right = hn::Eq(hn::And(hn::LoadU(bits, right + n), reached), none);
      dead |= mask_bits(bits, hn::Or(no_left, no_right)) << n;
    }
    return ~dead & ((std::uint64_t{1} << tree.nodes) - 1);
  }

  std::uint32_t narrow_steps(const SlicedTree& tree) noexcept {
    const std::uint64_t alive = work_.alive[tree.alive_word];
    const auto alive_before = [&](std::uint64_t leaves) {
      return static_cast<std::uint16_t>(std::popcount(alive & ((leaves & (0 - leaves)) - 1)));
    };
    SlicedStep* step = work_.steps.data() + tree.first_step;
    std::uint64_t rest = parting_nodes(tree, alive);
    const auto count = static_cast<std::uint32_t>(std::popcount(rest));
    for (; rest != 0; rest &= rest - 1) {
      const std::size_t node = tree.first_node + static_cast<std::size_t>(std::countr_zero(rest));
      *step++ = {work_.vector_of[plan_.node_question[node]], alive_before(plan_.left_leaves[node]),
                 alive_before(plan_.right_leaves[node])};
    }
    return count;
  }

  /// Steps are written whether they part the leaves or not, and kept when they do: no branch to predict.
  std::uint32_t wide_steps(const SlicedTree& tree) noexcept {
    const std::uint64_t* const alive = work_.alive.data() + tree.alive_word;
    std::uint32_t* const leaves_before = work_.leaves_before.data();
    std::uint32_t sum = 0;
    for (std::uint32_t word = 0; word <= tree.alive_words; ++word) {
      leaves_before[word] = sum;
      if (word < tree.alive_words) sum += static_cast<std::uint32_t>(std::popcount(alive[word]));
    }
    const auto alive_before = [&](std::uint32_t leaf) {
      const std::uint64_t lower = alive[leaf / 64] & ((std::uint64_t{1} << (leaf % 64)) - 1);
      return leaves_before[leaf / 64] + static_cast<std::uint32_t>(std::popcount(lower));
    };
    SlicedStep* const steps = work_.steps.data() + tree.first_step;
    const SlicedNode* node = plan_.wide_nodes.data() + tree.first_node;
    std::uint32_t count = 0;
    for (const SlicedNode* const end = node + tree.nodes; node != end; ++node) {
      const std::uint32_t left = alive_before(node->begin), right = alive_before(node->middle);
      const std::uint32_t after = alive_before(node->end);
      steps[count] = {work_.vector_of[node->question], static_cast<std::uint16_t>(left),
                      static_cast<std::uint16_t>(right)};
      count += static_cast<std::uint32_t>(left < right) & static_cast<std::uint32_t>(right < after);
    }
    return count;
  }

  // ---- leaves

  void list_leaves(const SlicedTree& tree) noexcept {
    const std::uint64_t* const alive = work_.alive.data() + tree.alive_word;
    std::uint16_t* leaf = work_.leaves.data() + tree.first_leaf;
    for (std::uint32_t word = 0; word < tree.alive_words; ++word) {
      for (std::uint64_t rest = alive[word]; rest != 0; rest &= rest - 1) {
        *leaf++ = static_cast<std::uint16_t>(64 * word + static_cast<std::uint32_t>(std::countr_zero(rest)));
      }
    }
  }

  /// Codes of the listed leaves, counted from the least of them, so that they have few bits. Returns how
  /// many.
  std::uint32_t code_leaves(const SlicedTask& task) noexcept {
    constexpr std::uint64_t kValueBits = 0x5555555555555555;
    const std::uint16_t* const leaf = work_.leaves.data() + task.first_leaf;
    const std::uint64_t* const code_of = plan_.leaf_code.data() + task.first_leaf;
    std::uint64_t* const codes = work_.codes.data() + task.first_leaf;
    std::uint64_t least = ~std::uint64_t{0}, most = 0;
    for (std::uint32_t i = 0; i < task.leaves; ++i) {
      const std::uint64_t code = code_of[leaf[i]];
      least = std::min(least, code);
      most = std::max(most, code);
      codes[i] = code;
    }
    // Spread bits keep the order of the values, and a difference borrows across the places between them.
    const auto above = [&](std::uint64_t code) { return (code - least) & kValueBits; };
    const std::uint32_t pairs = task.leaves / 2;
    for (std::uint32_t pair = 0; pair < pairs; ++pair) {
      codes[pair] = above(codes[2 * pair]) | above(codes[2 * pair + 1]) << 1;
    }
    if (task.leaves % 2 != 0) codes[pairs] = above(codes[task.leaves - 1]);
    return static_cast<std::uint32_t>(std::bit_width(above(most)) + 1) / 2;
  }

  // ---- the kernel's order

  /// Few leaves first, among them few planes first: the kernel's loops repeat.
  void sort_tasks() noexcept {
    const std::size_t count = work_.counts.sliced;
    sort_by({work_.unsorted_tasks.data(), count}, work_.sorted_tasks.data(), &SlicedTask::planes);
    std::copy_n(work_.sorted_tasks.data(), count, work_.unsorted_tasks.data());
    sort_by({work_.unsorted_tasks.data(), count}, work_.sorted_tasks.data(), &SlicedTask::leaves);
  }

  /// Stable counting sort.
  void sort_by(std::span<const SlicedTask> from, SlicedTask* to, std::uint32_t SlicedTask::*key) noexcept {
    std::uint32_t most = 0;
    for (const SlicedTask& task : from) most = std::max(most, task.*key);
    std::uint32_t* const next = work_.tasks_by_size.data();
    std::fill_n(next, most + 2, 0u);
    for (const SlicedTask& task : from) ++next[task.*key + 1];
    for (std::uint32_t size = 0; size < most; ++size) next[size + 1] += next[size];
    for (const SlicedTask& task : from) to[next[task.*key]++] = task;
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
};

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
