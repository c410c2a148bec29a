// Trees in bytes, all nodes of a block or all leaves at once: for the AVX-512 of Ice Lake and Zen 4. Included
// by sliced_trees-inl.h, which has what serves other trees and instruction sets.
#pragma once
#include <array>
#include <bit>

#include "forest/sliced_plan.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

using NodeBytes = std::array<std::uint8_t, SlicedNodes::count>;

/// One lane a node.
HWY_INLINE __m512i load_nodes(const NodeBytes& bytes) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data())));
}

/// What the table has for each column.
HWY_INLINE __m512i look_up(const SlicedLookup& table, const NodeBytes& columns) {
  static_assert(kSlicedLookup == 128);
  const __m512i at = _mm512_castsi256_si512(
      _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(columns.data()))));
  const auto from = [&](std::size_t first) HWY_ATTR { return _mm512_load_si512(table.of.data() + first); };
  const __m512i lower = _mm512_permutex2var_epi16(from(0), at, from(32));
  const __m512i upper = _mm512_permutex2var_epi16(from(64), at, from(96));
  const __mmask32 beyond = _mm512_test_epi16_mask(at, _mm512_set1_epi16(64));
  return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(_mm512_mask_mov_epi16(lower, beyond, upper)));
}

/// Leaves as bits, one lane a node.
struct NodeLeaves {
  __m512i from_begin, left, from_middle, right;
};
HWY_INLINE __m512i leaves_from(const NodeBytes& first) {
  return _mm512_sllv_epi32(_mm512_set1_epi32(-1), load_nodes(first));
}
HWY_INLINE NodeLeaves leaves_of(const SlicedNodes& nodes) {
  const __m512i begin = leaves_from(nodes.begin), middle = leaves_from(nodes.middle);
  return {begin, _mm512_xor_si512(begin, middle), middle, _mm512_xor_si512(middle, leaves_from(nodes.end))};
}

/// Those of `alive` that rows may reach whose ranks lie in the extents.
HWY_INLINE LeafWord reached_leaves(const SlicedPlan& plan, const SlicedTree& tree,
                                   const SlicedLookup& extents, LeafWord alive) {
  const SlicedNodes* nodes = plan.byte_nodes.data() + tree.first_node;
  __m512i dead = _mm512_setzero_si512();
  for (std::size_t n = 0; n < tree.nodes; n += SlicedNodes::count, ++nodes) {
    const __m512i extent = look_up(extents, nodes->column), rank = load_nodes(nodes->rank);
    const __m512i least = _mm512_and_si512(extent, _mm512_set1_epi32(0xff));
    const __mmask16 all_right = _mm512_cmplt_epu32_mask(rank, least);
    const __mmask16 all_left = _mm512_cmpge_epu32_mask(rank, _mm512_srli_epi32(extent, 8));
    const NodeLeaves leaves = leaves_of(*nodes);
    dead = _mm512_mask_or_epi32(dead, all_right, dead, leaves.left);
    dead = _mm512_mask_or_epi32(dead, all_left, dead, leaves.right);
  }
  return alive & ~static_cast<LeafWord>(_mm512_reduce_or_epi32(dead));
}

/// By lane: how many alive leaves precede those.
HWY_INLINE __m512i alive_before(__m512i leaves_from, __m512i alive) {
  return _mm512_popcnt_epi32(_mm512_andnot_si512(leaves_from, alive));
}

/// Writes a step for each node that parts the alive leaves and whole vectors; returns how many steps.
inline std::uint32_t steps_of_bytes(const SlicedPlan& plan, const SlicedTree& tree, LeafWord alive,
                                    SlicedStep* steps) noexcept {
  const __m512i reached = _mm512_set1_epi32(static_cast<int>(alive));
  const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
  const SlicedStep* const begin = steps;
  const SlicedNodes* nodes = plan.byte_nodes.data() + tree.first_node;
  for (std::size_t n = 0; n < tree.nodes; n += SlicedNodes::count, ++nodes) {
    const NodeLeaves of = leaves_of(*nodes);
    const __mmask16 parts =
        _mm512_test_epi32_mask(of.left, reached) & _mm512_test_epi32_mask(of.right, reached);
    const __m512i question =
        _mm512_add_epi32(look_up(plan.first_question, nodes->column), load_nodes(nodes->rank));
    const __m512i asked = _mm512_maskz_compress_epi32(parts, question);
    const __m512i leaves = _mm512_maskz_compress_epi32(
        parts, _mm512_or_si512(alive_before(of.from_begin, reached),
                               _mm512_slli_epi32(alive_before(of.from_middle, reached), 16)));
    _mm512_storeu_si512(steps, _mm512_permutex2var_epi32(asked, lower, leaves));
    _mm512_storeu_si512(steps + 8, _mm512_permutex2var_epi32(asked, upper, leaves));
    steps += std::popcount(static_cast<unsigned>(parts));
  }
  return static_cast<std::uint32_t>(steps - begin);
}

/// Writes the codes of the alive leaves one after another and a zero behind them. They count from the least
/// of them. Returns the largest.
inline SlicedCode narrow_codes_at_once(const SlicedCode* all, LeafWord alive, SlicedCode* codes) noexcept {
  const __m512i value_bits = _mm512_set1_epi32(static_cast<int>(kSlicedValueBits));
  const auto here = static_cast<__mmask16>(alive), beyond = static_cast<__mmask16>(alive >> 16);
  const __m512i one = _mm512_loadu_si512(all), other = _mm512_loadu_si512(all + 16);
  const SlicedCode lowest = _mm512_reduce_min_epu32(_mm512_min_epu32(
      _mm512_mask_mov_epi32(value_bits, here, one), _mm512_mask_mov_epi32(value_bits, beyond, other)));
  const SlicedCode highest = _mm512_reduce_max_epu32(
      _mm512_max_epu32(_mm512_maskz_mov_epi32(here, one), _mm512_maskz_mov_epi32(beyond, other)));
  const __m512i from = _mm512_set1_epi32(static_cast<int>(lowest));
  const auto list = [&](__mmask16 mask, __m512i code, SlicedCode* to) HWY_ATTR {
    const __m512i above = _mm512_and_si512(_mm512_sub_epi32(code, from), value_bits);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, above));
  };
  list(here, one, codes);
  list(beyond, other, codes + std::popcount(static_cast<unsigned>(here)));
  codes[std::popcount(alive)] = 0;  // the partner of an odd one: the second vector may end before it
  return (highest - lowest) & kSlicedValueBits;
}

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
