// Rounded sums of trees over rows, one bit per row, for one instruction set.
#include <algorithm>
#include <bit>
#include <cstring>

#include "core/isa-inl.h"
#include "core/read_ahead.h"
#include "forest/sliced_kernels.h"

/// Where the functions of a call stand that are not inlined into others, for each instruction set.
#define KSCOUT_SLICED_SECTION HWY_CONCAT(kscout_sliced_, HWY_NAMESPACE)
#define KSCOUT_SLICED_CODE KSCOUT_CODE(KSCOUT_SLICED_SECTION)

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Bits = hn::ScalableTag<std::uint64_t>;
using BitVector = hn::Vec<Bits>;
inline constexpr Bits bits;
inline constexpr std::size_t kLanes = HWY_LANES(std::uint64_t);

/// The lanes of a mask as bits; of at most 64 lanes.
template <class D, class Mask>
HWY_INLINE std::uint64_t mask_bits(D lanes, Mask mask) {
  std::uint64_t all = 0;
  std::uint8_t bytes[8];
  const std::size_t written = hn::StoreMaskBits(lanes, mask, bytes);
  std::memcpy(&all, bytes, written);
  return all;
}

/// Where the rows of a leaf stand.
template <std::size_t Vectors>
HWY_INLINE std::uint64_t* slot(std::uint64_t* slots, std::size_t leaf) {
  return slots + leaf * 2 * (Vectors * kLanes);
}
/// A place of a pair of leaves.
template <std::size_t Vectors>
HWY_INLINE std::uint64_t* slot(std::uint64_t* slots, std::size_t pair, SlicedPlace place) {
  return slots + (pair * 4 + static_cast<std::size_t>(place)) * (Vectors * kLanes);
}

/// Which rows reach each leaf.
template <std::size_t Vectors>
HWY_INLINE void reach_leaves(const SlicedJob& job, const SlicedTask& task, std::size_t first,
                             std::uint64_t* HWY_RESTRICT slots) {
  const SlicedStep* step = job.steps + task.first_step;
  const SlicedStep* const end = step + task.leaves - 1;
  const std::uint64_t* left = job.bits + job.vector_of[step->question] * job.words + first;
  for (std::size_t v = 0; v < Vectors; ++v) {
    const BitVector answer = hn::Load(bits, left + v * kLanes);
    hn::Store(answer, bits, slot<Vectors>(slots, 0) + v * kLanes);
    hn::Store(hn::Not(answer), bits, slot<Vectors>(slots, step->right) + v * kLanes);
  }
  for (++step; step != end; ++step) {
    left = job.bits + job.vector_of[step->question] * job.words + first;
    std::uint64_t* const stay = slot<Vectors>(slots, step->leaf);
    std::uint64_t* const move = slot<Vectors>(slots, step->right);
    for (std::size_t v = 0; v < Vectors; ++v) {
      const BitVector answer = hn::Load(bits, left + v * kLanes);
      const BitVector here = hn::Load(bits, stay + v * kLanes);
      hn::Store(hn::And(answer, here), bits, stay + v * kLanes);
      hn::Store(hn::AndNot(answer, here), bits, move + v * kLanes);
    }
  }
  for (std::size_t pair = 0; pair < task.leaves / 2; ++pair) {
    const std::uint64_t* const one = slot<Vectors>(slots, pair, SlicedPlace::first);
    const std::uint64_t* const other = slot<Vectors>(slots, pair, SlicedPlace::second);
    std::uint64_t* const either = slot<Vectors>(slots, pair, SlicedPlace::either);
    for (std::size_t v = 0; v < Vectors; ++v) {
      const BitVector both = hn::Or(hn::Load(bits, one + v * kLanes), hn::Load(bits, other + v * kLanes));
      hn::Store(both, bits, either + v * kLanes);
    }
  }
}

/// Sums in bits, plane by plane, of one block of rows. What trees carry out of their highest planes waits for
/// a second carry of the same weight: two of them and the plane make one carry of the next weight, so that a
/// carry costs about one addition, and not one for each plane above.
template <std::size_t Vectors>
class PlaneSums {
 public:
  static constexpr std::size_t kPlace = Vectors * kLanes;

  PlaneSums(const SlicedJob& job, std::size_t first) noexcept : job_(job), planes_(job.planes + first) {}

  /// Adds the tree's rounded leaves. It has (task.leaves + 1) / 2 pairs: so many as Pairs or, with More,
  /// more.
  template <std::size_t Pairs, bool More = false>
  HWY_INLINE void add(const SlicedTask& task, const std::uint64_t* HWY_RESTRICT slots) noexcept {
    const SlicedPair* const pair_at = job_.pairs + task.first_pair;
    const std::size_t pairs = More ? (task.leaves + 1) / 2 : Pairs;
    const std::size_t words = job_.words, end = task.planes;
    std::uint64_t* HWY_RESTRICT to = planes_;
    BitVector carry[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) carry[v] = hn::Zero(bits);
    for (std::size_t p = 0; p < end; ++p, to += words) {
      BitVector add[Vectors];
      const std::uint64_t* place = place_of(slots, pair_at[0], p);
      for (std::size_t v = 0; v < Vectors; ++v) add[v] = hn::Load(bits, place + v * kLanes);
      const auto unite = [&](std::size_t pair) HWY_ATTR {
        place = place_of(slots + pair * 4 * kPlace, pair_at[pair], p);
        for (std::size_t v = 0; v < Vectors; ++v) add[v] = hn::Or(add[v], hn::Load(bits, place + v * kLanes));
      };
      for (std::size_t pair = 1; pair < Pairs; ++pair) unite(pair);
      for (std::size_t pair = Pairs; More && pair < pairs; ++pair) unite(pair);
      add_to(to, add, carry);
    }
    carry_to(end, carry);
  }

  /// What waits is added.
  void finish() noexcept {
    BitVector carry[Vectors], add[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) carry[v] = hn::Zero(bits);
    for (std::size_t p = 0; p < job_.plane_count; ++p) {
      const bool any = (waits_ >> p) & 1;
      for (std::size_t v = 0; v < Vectors; ++v)
        add[v] = any ? hn::Load(bits, waiting(p) + v * kLanes) : hn::Zero(bits);
      add_to(plane(p), add, carry);
    }
  }

 private:
  /// Of the four at `places`, the one with the rows that bit p counts for.
  static HWY_INLINE const std::uint64_t* place_of(const std::uint64_t* places, SlicedPair pair,
                                                  std::size_t p) noexcept {
    constexpr std::size_t kBytes = 8 * kPlace, kUnit = std::size_t{1} << kSlicedPlaceBit;
    const std::size_t at = (pair >> (2 * p)) & (3 * kUnit);
    const std::size_t offset = kBytes >= kUnit ? at * (kBytes / kUnit) : at / (kUnit / kBytes);
    return reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const char*>(places) + offset);
  }

  std::uint64_t* plane(std::size_t p) const noexcept { return planes_ + p * job_.words; }
  std::uint64_t* waiting(std::size_t p) const noexcept { return job_.waiting + p * kPlace; }

  /// One plane += add + carry; carry becomes what goes to the next.
  static HWY_INLINE void add_to(std::uint64_t* HWY_RESTRICT to, const BitVector* add,
                                BitVector* carry) noexcept {
    for (std::size_t v = 0; v < Vectors; ++v) {
      const BitVector sum = hn::Load(bits, to + v * kLanes);
      const BitVector differ = hn::Xor(sum, add[v]);
      hn::Store(hn::Xor(differ, carry[v]), bits, to + v * kLanes);
      carry[v] = hn::Or(hn::And(sum, add[v]), hn::And(carry[v], differ));
    }
  }

  /// The sums fit the planes: beyond them every carry is zero.
  HWY_INLINE void carry_to(std::size_t p, BitVector* carry) noexcept {
    BitVector add[Vectors];
    for (; (waits_ >> p) & 1; ++p) {
      for (std::size_t v = 0; v < Vectors; ++v) add[v] = hn::Load(bits, waiting(p) + v * kLanes);
      add_to(plane(p), add, carry);
      waits_ &= ~(std::uint64_t{1} << p);
    }
    if (p >= job_.plane_count) return;
    for (std::size_t v = 0; v < Vectors; ++v) hn::Store(carry[v], bits, waiting(p) + v * kLanes);
    waits_ |= std::uint64_t{1} << p;
  }

  const SlicedJob& job_;
  std::uint64_t* const planes_;
  std::uint64_t waits_ = 0;  ///< planes for which a carry waits
};

/// All trees for Vectors vectors of rows from word `first` on. Inlined: templates stand in no section.
template <std::size_t Vectors>
HWY_INLINE void add_block(const SlicedJob& job, std::size_t first) {
  std::uint64_t* const slots = job.slots;
  PlaneSums<Vectors> sums(job, first);
  std::size_t ready = 0;  // places "none" that hold zeros
  for (std::size_t t = 0; t < job.task_count; ++t) {
    const SlicedTask& task = job.tasks[t];
    const std::size_t pairs = (task.leaves + 1) / 2;
    for (; ready < pairs; ++ready) {
      std::fill_n(slot<Vectors>(slots, ready, SlicedPlace::none), Vectors * kLanes, 0);
    }
    reach_leaves<Vectors>(job, task, first, slots);
    switch (pairs) {
      case 1:
        sums.template add<1>(task, slots);
        break;
      case 2:
        sums.template add<2>(task, slots);
        break;
      case 3:
        sums.template add<3>(task, slots);
        break;
      case 4:
        sums.template add<4>(task, slots);
        break;
      case 5:
        sums.template add<5>(task, slots);
        break;
      case 6:
        sums.template add<6>(task, slots);
        break;
      default:
        sums.template add<6, true>(task, slots);
    }
  }
  sums.finish();
}

KSCOUT_SLICED_CODE HWY_NOINLINE inline void add_trees(const SlicedJob& job) noexcept {
  std::size_t first = 0;
  for (; first + 4 * kLanes <= job.words; first += 4 * kLanes) add_block<4>(job, first);
  for (; first + 2 * kLanes <= job.words; first += 2 * kLanes) add_block<2>(job, first);
  for (; first < job.words; first += kLanes) add_block<1>(job, first);
}

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
