// What is left of a tree of at most 32 leaves, all its nodes and leaves at once: for the AVX-512 of Ice Lake
// and Zen 4. Included by sliced_trees-inl.h, which has the same for every instruction set.
#pragma once
#include <bit>
#include <utility>

#include "forest/sliced_plan.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

/// By lane: how many alive leaves precede the first of a range.
HWY_INLINE __m512i alive_before(__m512i leaves, __m512i alive) {
  const __m512i lower = _mm512_andnot_si512(leaves, _mm512_sub_epi32(leaves, _mm512_set1_epi32(1)));
  return _mm512_popcnt_epi32(_mm512_and_si512(lower, alive));
}

/// Writes a step for each node that parts the alive leaves and whole vectors; returns how many steps.
inline std::uint32_t narrow_steps_at_once(const SlicedPlan& plan, const SlicedTree& tree, LeafWord alive,
                                          SlicedStep* steps) noexcept {
  const __m512i reached = _mm512_set1_epi32(static_cast<int>(alive));
  const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
  const SlicedStep* const begin = steps;
  for (std::uint32_t n = 0; n < tree.nodes; n += 16) {  // behind the last are nodes without leaves
    const __m512i left = _mm512_loadu_si512(plan.left_leaves.data() + tree.first_node + n);
    const __m512i right = _mm512_loadu_si512(plan.right_leaves.data() + tree.first_node + n);
    const __m512i question = _mm512_loadu_si512(plan.node_question.data() + tree.first_node + n);
    const __mmask16 parts = _mm512_test_epi32_mask(left, reached) & _mm512_test_epi32_mask(right, reached);
    const __m512i leaves = _mm512_maskz_compress_epi32(
        parts,
        _mm512_or_si512(alive_before(left, reached), _mm512_slli_epi32(alive_before(right, reached), 16)));
    const __m512i asked = _mm512_maskz_compress_epi32(parts, question);
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
  const auto list = [&](__mmask16 mask, __m512i code, SlicedCode* to) {
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
