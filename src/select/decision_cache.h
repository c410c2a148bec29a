#pragma once
/// \file
/// Caches decisions in a hash table of fixed size that threads share.
///
///     DecisionCache cache;
///     const DecisionKey key = cache.key(problem, By::best);
///     Choice choice;
///     if (!cache.find(key, choice)) {
///       choice = decide(problem);
///       cache.add(key, choice);
///     }
///
/// A hit takes no lock and writes no memory that threads share. docs/design/0004-decision-cache.md explains
/// why a hit reads a whole decision.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include <kscout/selector.h>

#include "core/hash.h"
#include "core/thread_number.h"
#include "op/problem_words.h"

namespace kscout {

/// Contains every field of a problem's identity, the requested order, and the cache's generation, which
/// stands for the selector's request (its `calls` too), model, device and environment. The problem's weight
/// is not part of the key. The last word holds the generation and, in its upper half, the limits.
struct DecisionKey {
  static constexpr int kLimitsAt = 20;  ///< first bit of the limits
  std::array<std::uint64_t, 7> word;
  /// 0: the decision is never cached.
  std::uint64_t generation() const noexcept { return generation_in(word.back()); }
  static std::uint64_t generation_in(std::uint64_t last) noexcept {
    constexpr std::uint64_t kLimited = std::uint64_t{1} << 63;
    return last & kLimited ? last & ((std::uint64_t{1} << kLimitsAt) - 1) : last;
  }
  bool operator==(const DecisionKey&) const = default;
};

class DecisionCache {
 public:
  /// `places`: table size, a power of two.
  explicit DecisionCache(std::size_t places = 8192);

  /// Packs sizes into shared words; a problem with larger sizes is never cached. Sizes of a GEMM have 32
  /// bits. Of a convolution, images, channels and groups have 32 bits, spatial sizes and split_k 16, the rest
  /// 8.
  DecisionKey key(const ProblemRef& problem, By by) const noexcept;
  /// The key of a decision under limits. A decision is not cached when its workspace limit is 2^42 bytes or
  /// more, or after 2^20 generations.
  DecisionKey key(const ProblemRef& problem, By by, const Limits& limits) const noexcept;

  /// Writes the cached decision to `choice`, with source `cache`, when the key is present.
  bool find(const DecisionKey& key, Choice& choice) noexcept;
  /// Stores a decision; replaces another one when all places for the key are taken. Does nothing when another
  /// thread is writing to the place.
  void add(const DecisionKey& key, const Choice& choice) noexcept;
  /// Starts a new generation: decisions added by a thread that made its key before are never found.
  void clear() noexcept { generation_.fetch_add(1); }

  std::size_t places() const noexcept { return mask_ + 1; }
  /// Exact once the threads that call find() and add() have finished.
  CacheStatistics statistics() const noexcept;

 private:
  using Word = std::atomic<std::uint64_t>;

  /// One decision under a sequence lock.
  struct alignas(128) Place {
    Word version;  ///< odd while a thread writes; 0: never written
    std::array<Word, std::tuple_size_v<decltype(DecisionKey::word)>> key;
    Word config;  ///< an address in kept_; its lowest bits, which are 0 there, hold Choice::decided_by
    /// The Choice from the config to the sources. A hit's own source is `cache`.
    std::array<Word, (offsetof(Choice, source) - sizeof(KernelConfig)) / sizeof(Word)> rest;
  };
  static_assert(sizeof(Place) == 128);
  static constexpr std::uint64_t kSourceBits = alignof(KernelConfig) - 1;
  static_assert(EnumWords<ChoiceSource>::words.size() <= kSourceBits + 1);

  /// A config that decisions refer to by address: it never changes and lives as long as the cache.
  struct Kept {
    std::atomic<bool> taken, ready;
    KernelConfig config;
  };
  static constexpr std::size_t kConfigs = 4096, kProbes = 16;

  struct alignas(64) Hits {
    Word count = 0;
  };

  Place& place(std::uint64_t hash, std::size_t probe) const noexcept {
    return places_[(hash + probe * (hash >> 32 | 1)) & mask_];  // double hashing
  }
  static bool holds(const Place& place, const DecisionKey& key) noexcept;
  const KernelConfig* keep(const KernelConfig& config) noexcept;
  void count_hit() noexcept;

  const std::size_t mask_;
  const std::shared_ptr<void> memory_;  ///< zeros; pages use memory only after they are written
  Place* const places_;
  Kept* const kept_;
  Word generation_ = 1;
  /// By thread; the last element is shared by threads without a number.
  std::array<Hits, kThreadNumbers + 1> hits_;
  Word misses_ = 0, evictions_ = 0;  ///< in a cache line that no hit reads
};

inline DecisionKey DecisionCache::key(const ProblemRef& problem, By by) const noexcept {
  std::uint64_t rest = 0;
  const ProblemWords words = words_of_any(rest, problem, static_cast<int>(by));
  const std::uint64_t generation = rest == 0 ? generation_.load(std::memory_order_acquire) : 0;
  return {{words[0], words[1], words[2], words[3], words[4], words[5], generation}};
}

inline DecisionKey DecisionCache::key(const ProblemRef& problem, By by, const Limits& limits) const noexcept {
  DecisionKey key = this->key(problem, by);
  if (!limits.any()) return key;
  constexpr std::uint64_t kNoWorkspaceLimit = (std::uint64_t{1} << 41) - 1;
  const std::uint64_t bytes =
      limits.workspace_bytes < 0 ? kNoWorkspaceLimit : static_cast<std::uint64_t>(limits.workspace_bytes);
  std::uint64_t& last = key.word.back();
  const bool fits =
      last >> DecisionKey::kLimitsAt == 0 && (limits.workspace_bytes < 0 || bytes < kNoWorkspaceLimit);
  last = fits && last != 0
             ? std::uint64_t{1} << 63 | std::uint64_t{limits.deterministic} << 62 |
                   std::uint64_t{limits.batch_invariant} << 61 | bytes << DecisionKey::kLimitsAt | last
             : 0;
  return key;
}

// Loads of a place are acquire, so that the second read of the version comes after all of them. Stores are
// release, so that a thread that sees one of them also sees the odd version. The loops are unrolled to stay
// in registers.

inline bool DecisionCache::holds(const Place& place, const DecisionKey& key) noexcept {
  std::uint64_t differs = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < key.word.size(); ++i) {
    differs |= place.key[i].load(std::memory_order_acquire) ^ key.word[i];
  }
  return differs == 0;
}

inline bool DecisionCache::find(const DecisionKey& key, Choice& choice) noexcept {
  const std::uint64_t hash = words_hash(key.word);
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const Place& at = place(hash, probe);
    const std::uint64_t version = at.version.load(std::memory_order_acquire);
    if (version == 0) break;  // add() would have used this place
    if (!holds(at, key)) continue;
    const std::uint64_t config = at.config.load(std::memory_order_acquire);
    std::array<std::uint64_t, std::tuple_size_v<decltype(Place::rest)>> rest;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = at.rest[i].load(std::memory_order_acquire);
    if ((version & 1) != 0 || at.version.load(std::memory_order_relaxed) != version) break;
    choice.config = *reinterpret_cast<const KernelConfig*>(config & ~kSourceBits);
    std::memcpy(reinterpret_cast<std::byte*>(&choice) + sizeof(KernelConfig), rest.data(), sizeof(rest));
    choice.source = ChoiceSource::cache;
    choice.decided_by = static_cast<ChoiceSource>(config & kSourceBits);
    count_hit();
    return true;
  }
  misses_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

inline void DecisionCache::count_hit() noexcept {
  const std::size_t number = thread_number();
  Word& count = hits_[number].count;
  if (number == kThreadNumbers) {
    count.fetch_add(1, std::memory_order_relaxed);
  } else {  // only this thread writes the counter
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

}  // namespace kscout
