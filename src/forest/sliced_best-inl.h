// Which rows may be among the best, compiled for each instruction set. Included after sliced-inl.h.
#pragma once
#include <algorithm>
#include <bit>

#include "core/read_ahead.h"
#include "forest/sliced_exact-inl.h"
#include "forest/sliced_plan.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::HWY_NAMESPACE {

/// The bits of `from` where `mask` has ones, side by side from the lowest place on.
inline std::uint64_t extract_bits(std::uint64_t from, std::uint64_t mask) noexcept {
#if HWY_TARGET == HWY_SCALAR
  std::uint64_t to = 0;
  for (int place = 0; mask != 0; mask &= mask - 1, ++place) {
    to |= ((from >> std::countr_zero(mask)) & 1) << place;
  }
  return to;
#else
  return _pext_u64(from, mask);
#endif
}

/// From the rows that are allowed to those whose rounded sums may be among the best: trees are added in
/// phases, those of large ranges first. After a phase a row stays when what it has and the ranges of all
/// trees to come reach the rounded sum of a row that is known to be good enough, less what rounding may
/// mislead by.
class BestRows {
 public:
  BestRows(const SlicedPlan& plan, SlicedWork& work, std::size_t count) noexcept
      : plan_(plan), work_(work), count_(count) {}

  /// work.survivors: the places of the rows that may be among the best `count`. Returns how many.
  KSCOUT_SLICED_CODE std::size_t find(std::span<const std::uint64_t> allowed) noexcept {
    start(allowed);
    read_ahead_for_sums();
    std::uint64_t to_come = 0;
    if (plan_.drops_rows) {
      for (const SlicedTask& task : tasks()) to_come += task.range;
    }
    std::size_t first = 0;
    for (const std::uint32_t end : work_.phase_end) {
      if (!plan_.drops_rows || work_.words <= kLanes) break;
      add(first, end);
      for (; first < end; ++first) to_come -= work_.sorted_tasks[first].range;
      if (first < work_.counts.sliced) drop(first, to_come);
    }
    add(first, work_.counts.sliced);
    work_.counts.finished = places();
    least_ = std::max(least_, kth_largest());
    keep_at_least(least_ - std::min(margin_, least_));
    return count_ones(work_.survivors);
  }

 private:
  std::span<const SlicedTask> tasks() const noexcept {
    return std::span(work_.sorted_tasks).first(work_.counts.sliced);
  }
  static std::size_t ones(std::uint64_t word) noexcept {
    return static_cast<std::size_t>(std::popcount(word));
  }
  std::size_t count_ones(const std::vector<std::uint64_t>& words) const noexcept {
    std::size_t sum = 0;
    for (std::size_t w = 0; w < work_.words; ++w) sum += ones(words[w]);
    return sum;
  }
  std::size_t places() const noexcept { return dropped_ ? places_ : plan_.rows; }

  void start(std::span<const std::uint64_t> allowed) noexcept {
    std::ranges::fill(work_.allowed, 0);
    std::ranges::copy(allowed, work_.allowed.begin());
    std::fill_n(plane(0), plan_.planes * plan_.words, 0);
    // Most by which the rounded sums of two rows may mislead. This sum rounds, too.
    double error = 0;
    for (const SlicedTask& task : tasks()) error += plan_.trees[task.tree].error;
    const double window = 2 * (error * (1 + 1e-9) + plan_.double_error) / plan_.unit;
    margin_ = window < 0x1p50 ? static_cast<std::uint64_t>(window) + 1 : std::uint64_t{1} << 50;
  }

  /// Trees want answers in no order. They were written long enough ago to have left the near caches.
  void read_ahead_for_sums() const noexcept {
    read_ahead(std::span<const SlicedLine>(work_.bits.get(), sliced_lines(work_.vectors * plan_.words)));
    if (work_.counts.sliced == 0) return;
    const SlicedTask& last = work_.tasks.back();
    read_ahead(std::span<const SlicedStep>(work_.steps).first(last.first_step));
    read_ahead(std::span<const SlicedPair>(work_.pairs).first(last.first_pair));
  }

  std::uint64_t* plane(std::size_t p) const noexcept {
    return std::data(work_.planes.data()->words) + p * work_.words;
  }

  void add(std::size_t first, std::size_t end) noexcept {
    SlicedJob job;
    job.bits = work_.bit_words();
    job.words = work_.words;
    job.vector_of = work_.vector_of.data();
    job.steps = work_.steps.data();
    job.pairs = work_.pairs.data();
    job.tasks = work_.sorted_tasks.data() + first;
    job.task_count = end - first;
    job.planes = plane(0);
    job.plane_count = plan_.planes;
    job.waiting = work_.waiting.data()->words;
    job.slots = work_.slots.data()->words;
    add_trees(job);
  }

  /// Trees from first_task on are still to come.
  void drop(std::size_t first_task, std::uint64_t to_come) noexcept {
    const std::uint64_t ahead = kth_largest();
    if (least_ == 0 && count_ <= kBatch) {
      keep_at_least(ahead);
      least_ = finish_leaders(first_task);
    }
    least_ = std::max(least_, ahead);
    const std::uint64_t behind = margin_ + to_come;
    keep_at_least(least_ - std::min(behind, least_));
    const std::size_t kept = count_ones(work_.survivors);
    const std::size_t words = std::max<std::size_t>(1, (kept + 64 * kLanes - 1) / (64 * kLanes)) * kLanes;
    if (4 * words <= 3 * work_.words) pack(kept, words);
  }

  /// The least whole rounded sum of the first `count` survivors: as many rows end as high at least.
  std::uint64_t finish_leaders(std::size_t first_task) noexcept {
    std::uint32_t leaders[kBatch];
    std::uint64_t sums[kBatch] = {};
    std::size_t found = 0;
    for (std::uint32_t word = 0; word < work_.words; ++word) {
      for (std::uint64_t rest = work_.survivors[word]; rest != 0 && found < count_; rest &= rest - 1) {
        leaders[found++] = 64 * word + static_cast<std::uint32_t>(std::countr_zero(rest));
      }
    }
    if (found < count_) return 0;
    for (std::size_t i = 0; i < found; ++i) {
      for (std::size_t p = 0; p < plan_.planes; ++p) {
        sums[i] |= ((plane(p)[leaders[i] / 64] >> (leaders[i] % 64)) & 1) << p;
      }
    }
    RowSums(plan_, work_).add_rounded({leaders, found}, first_task, sums);
    return *std::min_element(sums, sums + found);
  }

  /// The count-th largest sum, or the least where fewer rows are allowed: from the highest bit down.
  std::uint64_t kth_largest() noexcept {
    auto& candidates = work_.candidates;
    std::copy_n(work_.allowed.begin(), work_.words, candidates.begin());
    std::size_t count = std::min(count_, count_ones(candidates));
    std::uint64_t value = 0;
    for (std::size_t p = plan_.planes; p-- > 0;) {
      const std::uint64_t* const of = plane(p);
      std::size_t with = 0;
      for (std::size_t w = 0; w < work_.words; ++w) with += ones(candidates[w] & of[w]);
      const bool set = with >= count;
      if (!set) count -= with;
      value |= std::uint64_t{set} << p;
      for (std::size_t w = 0; w < work_.words; ++w) candidates[w] &= set ? of[w] : ~of[w];
    }
    return value;
  }

  /// work.survivors: the allowed rows with a sum of `least` or more.
  void keep_at_least(std::uint64_t least) noexcept {
    for (std::size_t w = 0; w < work_.words; ++w) {
      std::uint64_t equal = work_.allowed[w], greater = 0;
      for (std::size_t p = plan_.planes; p-- > 0;) {
        const std::uint64_t of = plane(p)[w];
        if ((least >> p) & 1) {
          equal &= of;
        } else {
          greater |= equal & of;
          equal &= ~of;
        }
      }
      work_.survivors[w] = greater | equal;
    }
  }

  /// Only the `kept` survivors go on, in `words` words.
  void pack(std::size_t kept, std::size_t words) noexcept {
    std::size_t place = 0;
    for (std::uint32_t w = 0; w < work_.words; ++w) {
      for (std::uint64_t rest = work_.survivors[w]; rest != 0; rest &= rest - 1) {
        const std::uint32_t from = 64 * w + static_cast<std::uint32_t>(std::countr_zero(rest));
        work_.rows[place++] = dropped_ ? work_.rows[from] : from;
      }
    }
    pack_vectors(work_.bit_words(), work_.vectors, words);
    pack_vectors(plane(0), plan_.planes, words);
    for (std::size_t w = 0; w < words; ++w) {
      const std::size_t rest = kept - std::min(kept, 64 * w);
      work_.allowed[w] = rest >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << rest) - 1;
    }
    work_.words = words;
    places_ = kept;
    dropped_ = true;
  }

  /// Keeps the survivors' bits of vectors one after another, in place: what is written has been read.
  void pack_vectors(std::uint64_t* const vectors, std::size_t count, std::size_t words) noexcept {
    const std::size_t from_words = work_.words;
    const std::uint64_t* HWY_RESTRICT survivors = work_.survivors.data();
    for (std::size_t v = 0; v < count; ++v) {
      const std::uint64_t* const from = vectors + v * from_words;
      std::uint64_t* to = vectors + v * words;
      std::uint64_t* const end = to + words;
      std::uint64_t gathered = 0;
      std::size_t held = 0;
      for (std::size_t w = 0; w < from_words; ++w) {
        const std::uint64_t bits_here = extract_bits(from[w], survivors[w]);
        gathered |= bits_here << held;
        const std::size_t now = held + ones(survivors[w]);
        if (now >= 64) {
          *to++ = gathered;
          gathered = held == 0 ? 0 : bits_here >> (64 - held);
        }
        held = now % 64;
      }
      if (to != end) *to++ = gathered;
      while (to != end) *to++ = 0;
    }
  }

  const SlicedPlan& plan_;
  SlicedWork& work_;
  const std::size_t count_;
  std::uint64_t margin_ = 0, least_ = 0;
  std::size_t places_ = 0;
  bool dropped_ = false;
};

}  // namespace kscout::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
