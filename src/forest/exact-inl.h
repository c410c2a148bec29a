// Implements the inner loops of ExactForest for one instruction set. Before including this file, exact.cpp
// defines KSCOUT_EXACT_SET (a namespace), KSCOUT_EXACT_TARGET (an attribute) and KSCOUT_EXACT_BYTES (bytes of
// a vector).

namespace KSCOUT_EXACT_SET {
namespace {

using Bytes [[gnu::vector_size(KSCOUT_EXACT_BYTES)]] = std::uint8_t;
// Signed, because a signed comparison is one instruction.
using SignedBytes [[gnu::vector_size(KSCOUT_EXACT_BYTES)]] = std::int8_t;
using Doubles [[gnu::vector_size(KSCOUT_EXACT_BYTES)]] = double;
using Bits [[gnu::vector_size(KSCOUT_EXACT_BYTES)]] = std::int64_t;

constexpr std::size_t kBlock = ExactForest::block;
constexpr std::size_t kVectors = kBlock / sizeof(Bytes);
constexpr std::size_t kLanes = sizeof(Doubles) / sizeof(double);
constexpr std::size_t kAtOnce = 4;  // number of vectors of doubles that stay in registers

/// Ranks one value per row: applies compared_value(), then counts thresholds.
KSCOUT_EXACT_TARGET void rank_rows(const double* values, std::uint8_t decision,
                                   std::span<const double> thresholds, ExactForest::Ranks& ranks) noexcept {
  const Bits none = {};
  const Bits nan_is_absent = none - (Decision::missing(decision) != Missing::none);
  const Bits zero_is_absent = none - (Decision::missing(decision) == Missing::zero);
  const Bits absent = none + std::bit_cast<std::int64_t>(absent_value(decision));
  std::int8_t* rank = ranks.of_row;
  for (const double* const end = values + kBlock; values != end; values += kAtOnce * kLanes) {
    Doubles compared[kAtOnce];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      Doubles value;
      std::memcpy(&value, values + i * kLanes, sizeof value);
      const Bits is_nan = value != value, is_zero = (value >= -kForestZero) & (value <= kForestZero);
      const Bits is_absent = (is_nan & nan_is_absent) | (is_zero & zero_is_absent);
      compared[i] = (Doubles)(((Bits)value & ~(is_nan | is_zero)) | (is_absent & absent));
    }
    Bits left[kAtOnce] = {};  // minus the number of thresholds that send the value left
    for (const double threshold : thresholds) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kAtOnce; ++i) left[i] += compared[i] <= threshold;
    }
    for (const Bits& counts : left) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        *rank++ =
            static_cast<std::int8_t>(static_cast<std::int64_t>(thresholds.size()) + counts[lane] + INT8_MIN);
      }
    }
  }
}

/// Adds to sums[row] the leaves that the row reaches in `trees` trees of `count` nodes each.
template <std::size_t trees>
KSCOUT_EXACT_TARGET inline void add_leaves_of(const ExactForest::Node* nodes, std::size_t count,
                                              const double* leaves, const ExactForest::Ranks* ranks,
                                              std::span<double> sums) noexcept {
  const Bytes none = {};
  Bytes leaf[trees][kVectors] = {};
  for (std::size_t node = 0; node < count; ++node) {
#pragma GCC unroll 4
    for (std::size_t tree = 0; tree < trees; ++tree) {
      const ExactForest::Node& at = nodes[tree * count + node];
      const Bytes begin = none + at.begin, step = none + at.step;
      const SignedBytes position = (SignedBytes)none + at.position;
#pragma GCC unroll 2
      for (std::size_t i = 0; i < kVectors; ++i) {
        SignedBytes rank;
        std::memcpy(&rank, ranks[at.column].of_row + i * sizeof rank, sizeof rank);
        leaf[tree][i] += (Bytes)((leaf[tree][i] == begin) & (rank > position)) & step;
      }
    }
  }
  std::uint8_t reached[trees][kBlock];
  std::memcpy(reached, leaf, sizeof leaf);
  for (std::size_t row = 0; row < sums.size(); ++row) {
#pragma GCC unroll 4
    for (std::size_t tree = 0; tree < trees; ++tree)
      sums[row] += leaves[tree * (count + 1) + reached[tree][row]];
  }
}

/// Adds the leaves that the rows reach in all trees, in the order of the trees.
KSCOUT_EXACT_TARGET void add_leaves(std::span<const std::uint32_t> tree_nodes, const ExactForest::Node* nodes,
                                    const double* leaves, const ExactForest::Ranks* ranks,
                                    std::span<double> sums) noexcept {
  for (std::size_t t = 0; t < tree_nodes.size();) {
    const std::size_t count = tree_nodes[t];
    // Interleaves four trees, because each node of a tree waits for the one before.
    const auto next = tree_nodes.subspan(t, std::min<std::size_t>(4, tree_nodes.size() - t));
    const bool alike = next.size() == 4 && std::ranges::count(next, tree_nodes[t]) == 4;
    (alike ? add_leaves_of<4> : add_leaves_of<1>)(nodes, count, leaves, ranks, sums);
    const std::size_t trees = alike ? 4 : 1;
    t += trees;
    nodes += trees * count;
    leaves += trees * (count + 1);
  }
}

constexpr ExactKernels kKernels = {rank_rows, add_leaves};

}  // namespace
}  // namespace KSCOUT_EXACT_SET

#undef KSCOUT_EXACT_SET
#undef KSCOUT_EXACT_TARGET
#undef KSCOUT_EXACT_BYTES
