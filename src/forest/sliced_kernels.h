#pragma once
/// \file
/// What a SlicedForest does in a call, compiled for each instruction set.
#include <cstddef>
#include <cstdint>
#include <span>

#include "forest/sliced.h"

namespace kscout {

/// Splits the rows at one leaf: those that answer "left" stay, the others move to leaf `right`. Leaves are
/// numbered 0, 1, ... among those of the tree that are alive.
struct SlicedStep {
  std::uint32_t question;
  std::uint16_t leaf, right;
};

/// What is left of a tree: leaves - 1 steps, and a SlicedPair for each two alive leaves from `first_pair` on.
/// Values count from the least alive leaf.
struct SlicedTask {
  std::uint32_t tree = 0;
  std::uint32_t first_step = 0, first_pair = 0;
  std::uint16_t leaves = 0, planes = 0;
  std::uint16_t range = 0;  ///< the largest value
};

using SlicedCode = std::uint32_t;
inline constexpr int kSlicedCodeBits = 16;  ///< most of a rounded leaf
/// Where codes have the bits of a value. Spread bits keep the order of the values, and a difference borrows
/// across the places between them.
inline constexpr SlicedCode kSlicedValueBits = 0x55555555;
/// The value of a spread code whose other bits are clear.
constexpr std::uint32_t gathered_code(SlicedCode code) noexcept {
  code = (code | code >> 1) & 0x33333333;
  code = (code | code >> 2) & 0x0f0f0f0f;
  code = (code | code >> 4) & 0x00ff00ff;
  return (code | code >> 8) & 0xffff;
}
/// The code of a value below 2^kSlicedCodeBits.
constexpr SlicedCode spread_code(std::uint32_t value) noexcept {
  value = (value | value << 8) & 0x00ff00ff;
  value = (value | value << 4) & 0x0f0f0f0f;
  value = (value | value << 2) & 0x33333333;
  return (value | value << 1) & kSlicedValueBits;
}
/// Codes, pairs and steps are read and written in vectors: behind the last is room for two.
inline constexpr std::size_t kSlicedRoom = 32;

/// Where the rows of two leaves stand: four places. Leaf i of a tree has place 2 i.
enum class SlicedPlace : std::uint8_t { first, none, second, either };
/// The rounded values of two leaves: for bit p of them, which place has the rows that it counts for, at
/// kSlicedPlaceBit + 2 p. That bit makes the offset of a place from a mask alone, where a place has 128
/// bytes.
using SlicedPair = std::uint64_t;
inline constexpr int kSlicedPlaceBit = 7;
/// Room for the pairs of a tree: they are made in vectors of four.
constexpr std::uint32_t sliced_pairs(std::uint32_t leaves) noexcept { return (leaves + 7) / 8 * 4; }
/// The low bit of a place tells whether the leaves agree in the bit, the high one the second's bit.
constexpr SlicedPair sliced_pair(SlicedCode first, SlicedCode second) noexcept {
  return SlicedPair{(~(first ^ second) & kSlicedValueBits) | second << 1} << kSlicedPlaceBit;
}
constexpr SlicedCode first_of(SlicedPair pair) noexcept {
  const auto places = static_cast<SlicedCode>(pair >> kSlicedPlaceBit);
  return ~(places ^ places >> 1) & kSlicedValueBits;
}
constexpr SlicedCode second_of(SlicedPair pair) noexcept {
  return static_cast<SlicedCode>(pair >> (kSlicedPlaceBit + 1)) & kSlicedValueBits;
}

struct SlicedJob {
  const std::uint64_t* bits = nullptr;       ///< vectors one after another
  std::size_t words = 0;                     ///< of one vector
  const std::uint32_t* vector_of = nullptr;  ///< by question
  const SlicedStep* steps = nullptr;
  const SlicedPair* pairs = nullptr;
  const SlicedTask* tasks = nullptr;
  std::size_t task_count = 0;
  std::uint64_t* planes = nullptr;  ///< plane p: words [p * words, (p + 1) * words); the sums are added
  std::size_t plane_count = 0;
  std::uint64_t* waiting = nullptr;  ///< room for plane_count * kSlicedBlockWords words, aligned to 64 bytes
  std::uint64_t* slots = nullptr;    ///< room for sliced_slot_words(most leaves) words, aligned to 64 bytes
};

/// Rows are worked on in blocks of at most this many words.
inline constexpr std::size_t kSlicedBlockWords = 32;

/// Two leaves take four places.
constexpr std::size_t sliced_slot_words(std::size_t leaves) noexcept {
  return (leaves + 1) / 2 * 4 * kSlicedBlockWords;
}

/// Rows that are summed in doubles at once.
inline constexpr std::size_t kSlicedBatch = 8;

struct SlicedKernels {
  const char* name;
  std::size_t lanes;  ///< words of a vector; SlicedPlan::words is a multiple of it
  bool reads_bytes;   ///< nodes as SlicedNodes: looks up the columns of many at once
  std::size_t (*top)(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values,
                     std::span<const std::uint64_t> allowed, std::span<const std::uint32_t> ties,
                     std::span<ScoredRow> out) noexcept;
  void (*scores)(const SlicedPlan& plan, SlicedWork& work, std::span<const double* const> values,
                 std::span<double> out) noexcept;
};

/// The fastest that this CPU runs.
const SlicedKernels& best_sliced_kernels() noexcept;

extern const SlicedKernels kSlicedScalar;
#if defined(__x86_64__)
extern const SlicedKernels kSlicedAvx2, kSlicedAvx512, kSlicedAvx512Dl;
#endif

}  // namespace kscout
