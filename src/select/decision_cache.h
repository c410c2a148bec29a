#pragma once
/// \file
/// Decisions of before, in fixed memory: many threads look up and add at once, none waits for another.
///
///     DecisionCache cache(2048);
///     const DecisionCache::Key key = cache.key(problem, By::best);
///     Choice choice;
///     if (!cache.find(key, choice)) {
///       choice = decide(problem);
///       cache.add(key, choice);
///     }
///
/// Sets of four slots; a slot is a seqlock of 64-bit atomics, so that a reader either gets a whole decision
/// or goes on as if there were none. Of a full set a slot goes that nobody found since the hand passed it
/// (clock), so that problems that are asked once do not drive out those that are asked often. clear() starts
/// a new generation, which is part of the key: it costs nothing, and what a thread adds that began before is
/// not found any more.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <kscout/selector.h>

namespace kscout {

class DecisionCache {
 public:
  /// Everything that changes a decision: all fields of the problem's identity, the order asked for, and the
  /// generation, which stands for model, device and environment. The weight of a problem changes nothing.
  struct Key {
    std::array<std::uint64_t, 10> word;
    bool operator==(const Key&) const = default;
  };

  /// `entries` is rounded up to a power of two, at least 4. Each takes 336 bytes.
  explicit DecisionCache(std::size_t entries);

  Key key(const GemmProblem& problem, By by) const noexcept;

  /// Writes `choice`, whose source becomes `cache`, when the key is there.
  bool find(const Key& key, Choice& choice) noexcept;
  /// Keeps a decision; does nothing when another thread writes to the slot at the same time.
  void add(const Key& key, const Choice& choice) noexcept;
  void clear() noexcept { generation_.fetch_add(1); }

  std::size_t entries() const noexcept { return sets_.size() * kWays; }
  /// Exact once the threads that call find() and add() have finished.
  CacheStatistics statistics() const noexcept;

 private:
  static constexpr std::size_t kWays = 4, kAxisWords = kMaxAxes / 2, kNumbers = 6;
  using Word = std::atomic<std::uint64_t>;

  struct alignas(64) Slot {
    Word version = 0;  ///< odd while somebody writes
    std::array<Word, std::tuple_size_v<decltype(Key::word)>> key = {};
    Word space = 0;  ///< address of the config space
    Word link = 0;   ///< who decided
    std::array<Word, kNumbers> number = {};
    std::array<Word, kAxisWords> axes = {};  ///< two values a word; those past the space's last axis are 0
  };
  struct alignas(64) Set {
    std::array<Word, kWays> tag = {};  ///< hash of the slot's key; 0 = empty. A hint: the key decides
    std::array<std::atomic<std::uint8_t>, kWays> used = {};
    std::atomic<std::uint32_t> hand = 0;
    std::array<Slot, kWays> slot;
  };
  /// Counters of a few threads: apart from those of others, so that counting costs no traffic.
  struct alignas(64) Counters {
    Word hits = 0, misses = 0, evictions = 0;
  };

  Set& set_of(std::uint64_t hash) noexcept { return sets_[(hash >> 32) & (sets_.size() - 1)]; }
  static bool read(const Slot& slot, const Key& key, Choice& choice) noexcept;
  static bool write(Slot& slot, const Key& key, const Choice& choice) noexcept;
  std::size_t slot_to_give_up(Set& set) noexcept;
  Counters& counters() noexcept;

  std::atomic<std::uint64_t> generation_ = 1;
  std::vector<Set> sets_;
  std::array<Counters, 64> counters_;
};

}  // namespace kscout
