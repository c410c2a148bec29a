#pragma once
/// \file
/// A table of decisions of fixed size that many threads read and write at once, none waiting for another.
///
///     DecisionSets sets(512);
///     if (!sets.add(key, decision)) sets.replace_one(key, decision);   // no room: another decision goes
///     KeptDecision found;
///     if (sets.find(key, found)) ...
///
/// A decision stands in one of two sets of eight places that its hash names: in the first while there is
/// room, else in the second; when both are full, one that can stand elsewhere moves. So at least 80 % of the
/// places can be filled before there is no room (tests/unit/decision_cache_test.cpp). What goes then is a
/// decision that nobody found since the hand passed it (clock), so that problems that are asked once do not
/// drive out those that are asked often. 130 bytes a place.
///
/// Why a reader gets whole decisions without a lock or a fence: docs/design/0004-decision-cache.md.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <kscout/config.h>

namespace kscout {

/// Everything that changes a decision, and its hash.
struct DecisionKey {
  std::array<std::uint64_t, 6> word;
  std::uint64_t hash;
  std::uint64_t generation() const noexcept { return word.back(); }  ///< never 0 in a table
  bool operator==(const DecisionKey&) const = default;
};

/// A choice as it is kept.
struct KeptDecision {
  const KernelConfig* config;           ///< never changes
  std::array<std::uint64_t, 6> number;  ///< bits of the choice's doubles
  std::uint64_t link;                   ///< who decided
};

class DecisionSets {
 public:
  /// `places` is rounded up to a multiple of 8.
  explicit DecisionSets(std::size_t places);

  bool find(const DecisionKey& key, KeptDecision& decision) noexcept;
  /// Keeps a decision in place of one of the same key, an empty one, or one of another generation; false when
  /// there is none. Does nothing more when another thread writes to the place at the same time.
  bool add(const DecisionKey& key, const KeptDecision& decision) noexcept;
  /// Only in place of one of the same key.
  bool update(const DecisionKey& key, const KeptDecision& decision) noexcept;
  /// In place of any.
  void replace_one(const DecisionKey& key, const KeptDecision& decision) noexcept;

  std::size_t places() const noexcept { return slots_.size(); }

 private:
  static constexpr std::size_t kWays = 8;
  using Word = std::atomic<std::uint64_t>;

  /// One decision, a seqlock of two cache lines.
  struct alignas(64) Slot {
    Word version = 0;  ///< odd while somebody writes
    std::array<Word, std::tuple_size_v<decltype(DecisionKey::word)>> key = {};
    Word config = 0;
    std::array<Word, std::tuple_size_v<decltype(KeptDecision::number)>> number = {};
    Word link = 0;
  };
  static_assert(sizeof(Slot) == 128);

  /// What is looked at before the slots.
  struct Set {
    Word tags = 0;  ///< byte w: from the hash of slot w's key; 0 = empty. A hint: the key decides
    std::atomic<std::uint32_t> used = 0;  ///< bit w: slot w was found since the hand passed it
    std::atomic<std::uint32_t> hand = 0;
  };

  /// A place; way == kWays: none.
  struct Place {
    std::size_t set, way;
  };
  /// The two sets in which a key may stand.
  std::array<std::size_t, 2> sets_of(std::uint64_t hash) const noexcept {
    return {scaled(hash >> 32, sets_.size()), scaled(hash, sets_.size())};
  }
  /// A number below `count` from 32 random bits.
  static std::size_t scaled(std::uint64_t bits, std::size_t count) noexcept {
    return static_cast<std::size_t>((bits & 0xffffffffU) * count >> 32);
  }
  /// One byte of a hash; 0 means empty.
  static std::uint64_t tag_of(std::uint64_t hash) noexcept { return std::max<std::uint64_t>(hash & 0xff, 1); }
  Slot& slot(Place at) noexcept { return slots_[at.set * kWays + at.way]; }
  const Slot& slot(Place at) const noexcept { return slots_[at.set * kWays + at.way]; }
  bool find_in(std::size_t set, const DecisionKey& key, KeptDecision& decision) noexcept;
  /// Calls call(0), call(1) ... with constants: what they index can stay in registers.
  template <std::size_t N>
  static void for_each_index(const auto& call) noexcept {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (call(std::integral_constant<std::size_t, I>()), ...);
    }
    (std::make_index_sequence<N>());
  }
  static bool read(const Slot& slot, const DecisionKey& key, KeptDecision& decision) noexcept;
  void write(Place at, const DecisionKey& key, const KeptDecision& decision) noexcept;
  static DecisionKey key_of(const Slot& slot) noexcept;
  Place place_of(const DecisionKey& key) const noexcept;
  Place free_place(std::size_t set, std::uint64_t generation) const noexcept;
  bool move_away(Place from, std::uint64_t generation) noexcept;

  std::vector<Set> sets_;
  std::vector<Slot> slots_;  ///< eight per set
};

// What a hit does stands here, so that it becomes one function with what calls it: what is read of a slot
// goes on in registers. Through memory, pairs of words would be read together that were written apart, and
// wait for the store buffer.

inline bool DecisionSets::find(const DecisionKey& key, KeptDecision& decision) noexcept {
  const std::array<std::size_t, 2> sets = sets_of(key.hash);
  return find_in(sets[0], key, decision) || find_in(sets[1], key, decision);
}

inline bool DecisionSets::find_in(std::size_t s, const DecisionKey& key, KeptDecision& decision) noexcept {
  constexpr std::uint64_t kEveryByte = 0x0101010101010101ULL, kEveryTop = 0x8080808080808080ULL;
  Set& set = sets_[s];
  // The top bit of each byte that is the key's tag; a byte above such a one may be marked wrongly.
  const std::uint64_t zero = set.tags.load(std::memory_order_relaxed) ^ (tag_of(key.hash) * kEveryByte);
  for (std::uint64_t marks = (zero - kEveryByte) & ~zero & kEveryTop; marks != 0; marks &= marks - 1) {
    const auto way = static_cast<std::size_t>(std::countr_zero(marks)) / 8;
    if (!read(slot({s, way}), key, decision)) continue;
    // Written only when it changes: a line that many threads read stays in all their caches.
    const std::uint32_t mark = 1U << way;
    if ((set.used.load(std::memory_order_relaxed) & mark) == 0) {
      set.used.fetch_or(mark, std::memory_order_relaxed);
    }
    return true;
  }
  return false;
}

/// The reader's loads are acquire, so that the second look at the version comes after all of them; the
/// writer's stores are release, so that whoever sees one of them sees the odd version before it.
inline bool DecisionSets::read(const Slot& slot, const DecisionKey& key, KeptDecision& decision) noexcept {
  const auto get = [](const Word& word) { return word.load(std::memory_order_acquire); };
  const std::uint64_t version = get(slot.version);
  std::uint64_t differs = version & 1;
  for_each_index<std::tuple_size_v<decltype(key.word)>>(
      [&](auto i) { differs |= get(slot.key[i]) ^ key.word[i]; });
  if (differs != 0) return false;
  decision.config = std::bit_cast<const KernelConfig*>(get(slot.config));
  for_each_index<std::tuple_size_v<decltype(decision.number)>>(
      [&](auto i) { decision.number[i] = get(slot.number[i]); });
  decision.link = get(slot.link);
  return slot.version.load(std::memory_order_relaxed) == version;
}

}  // namespace kscout
