#pragma once
/// \file
/// The inner loop of a SlicedForest, compiled for each instruction set: rounded sums of the trees,
/// bit-sliced.
#include <cstddef>
#include <cstdint>

namespace kscout {

/// Splits the rows at one leaf: those that answer "left" stay, the others move to leaf `right`. Leaves are
/// numbered 0, 1, ... among those of the tree that are alive.
struct SlicedStep {
  std::uint32_t vector;  ///< the answers
  std::uint16_t leaf, right;
};

/// A tree with at least two alive leaves: leaves - 1 steps, (leaves + 1) / 2 codes. A code holds two leaves:
/// bit p of the rounded value of the first at position 2 p, of the second at 2 p + 1.
struct SlicedTask {
  std::uint32_t first_step = 0, first_code = 0;
  std::uint32_t leaves = 0, planes = 0;
};

struct SlicedJob {
  const std::uint64_t* bits = nullptr;  ///< vectors one after another
  std::size_t words = 0;                ///< of one vector
  const SlicedStep* steps = nullptr;
  const std::uint64_t* codes = nullptr;
  const SlicedTask* tasks = nullptr;
  std::size_t task_count = 0;
  std::uint64_t* planes =
      nullptr;  ///< plane p: words [p * words, (p + 1) * words); overwritten with the sums
  std::size_t plane_count = 0;
  std::uint64_t* slots = nullptr;  ///< room for sliced_slot_words(most leaves) words, aligned to 64 bytes
};

/// Rows are worked on in blocks of at most this many words.
inline constexpr std::size_t kSlicedBlockWords = 32;

/// Two leaves take four places: none, first, second, either.
constexpr std::size_t sliced_slot_words(std::size_t leaves) noexcept {
  return (leaves + 1) / 2 * 4 * kSlicedBlockWords;
}

struct SlicedKernels {
  const char* name;
  std::size_t lanes;  ///< words of a vector; SlicedJob::words is a multiple of it
  void (*add_trees)(const SlicedJob& job) noexcept;
};

/// The fastest that this CPU runs, and all that it runs (for tests), slowest first.
const SlicedKernels& best_sliced_kernels() noexcept;

extern const SlicedKernels kSlicedScalar;
#if defined(__x86_64__)
extern const SlicedKernels kSlicedAvx2, kSlicedAvx512;
#endif

}  // namespace kscout
