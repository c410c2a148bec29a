#include "select/decision_sets.h"

#include "core/hash.h"

namespace kscout {
DecisionSets::DecisionSets(std::size_t places)
    : sets_((places + kWays - 1) / kWays), slots_(sets_.size() * kWays) {}

void DecisionSets::write(Place at, const DecisionKey& key, const KeptDecision& decision) noexcept {
  Slot& to = slot(at);
  Set& set = sets_[at.set];
  std::uint64_t version = to.version.load(std::memory_order_relaxed);
  if ((version & 1) || !to.version.compare_exchange_strong(version, version + 1)) return;
  const auto put = [](Word& word, std::uint64_t value) { word.store(value, std::memory_order_release); };
  for (std::size_t i = 0; i < key.word.size(); ++i) put(to.key[i], key.word[i]);
  put(to.config, std::bit_cast<std::uint64_t>(decision.config));
  for (std::size_t i = 0; i < decision.number.size(); ++i) put(to.number[i], decision.number[i]);
  put(to.link, decision.link);
  // Not used until it is found: what is asked once goes first.
  set.used.fetch_and(~(1U << at.way), std::memory_order_relaxed);
  std::uint64_t tags = set.tags.load(std::memory_order_relaxed);
  const std::uint64_t others = ~(std::uint64_t{0xff} << (8 * at.way));
  while (!set.tags.compare_exchange_weak(tags, (tags & others) | tag_of(key.hash) << (8 * at.way),
                                         std::memory_order_relaxed)) {
  }
  to.version.store(version + 2, std::memory_order_release);
}

bool DecisionSets::update(const DecisionKey& key, const KeptDecision& decision) noexcept {
  const Place at = place_of(key);
  if (at.way == kWays) return false;
  write(at, key, decision);
  return true;
}

bool DecisionSets::add(const DecisionKey& key, const KeptDecision& decision) noexcept {
  const std::array<std::size_t, 2> sets = sets_of(key.hash);
  Place to = place_of(key);
  if (to.way == kWays) to = free_place(sets[0], key.generation());
  if (to.way == kWays) to = free_place(sets[1], key.generation());
  for (std::size_t way = 0; to.way == kWays && way < kWays; ++way) {
    if (move_away({sets[0], way}, key.generation())) to = {sets[0], way};
  }
  if (to.way == kWays) return false;
  write(to, key, decision);
  return true;
}

void DecisionSets::replace_one(const DecisionKey& key, const KeptDecision& decision) noexcept {
  const std::size_t s = sets_of(key.hash)[0];
  std::size_t way = 0;
  for (std::size_t looked = 0; looked < 2 * kWays; ++looked) {  // the second round finds erased marks
    way = sets_[s].hand.fetch_add(1, std::memory_order_relaxed) % kWays;
    const std::uint32_t mark = 1U << way;
    if ((sets_[s].used.fetch_and(~mark, std::memory_order_relaxed) & mark) == 0) break;
  }
  write({s, way}, key, decision);
}

/// As it stands, perhaps while somebody writes: for decisions about room.
DecisionKey DecisionSets::key_of(const Slot& slot) noexcept {
  DecisionKey key;
  for (std::size_t i = 0; i < key.word.size(); ++i) key.word[i] = slot.key[i].load(std::memory_order_relaxed);
  key.hash = words_hash(key.word);
  return key;
}

DecisionSets::Place DecisionSets::place_of(const DecisionKey& key) const noexcept {
  for (const std::size_t set : sets_of(key.hash)) {
    for (std::size_t way = 0; way < kWays; ++way) {
      if (key_of(slot({set, way})) == key) return {set, way};
    }
  }
  return {0, kWays};
}

/// One that is empty or of another generation.
DecisionSets::Place DecisionSets::free_place(std::size_t set, std::uint64_t generation) const noexcept {
  std::size_t way = 0;
  while (way < kWays && key_of(slot({set, way})).generation() == generation) ++way;
  return {set, way};
}

/// Copies a decision to the other set that its key names; false when there is no room. Who looks for it
/// meanwhile finds it in one of them, or decides again.
bool DecisionSets::move_away(Place from, std::uint64_t generation) noexcept {
  const DecisionKey key = key_of(slot(from));
  const std::array<std::size_t, 2> sets = sets_of(key.hash);
  const Place to = free_place(sets[sets[0] == from.set ? 1 : 0], generation);
  KeptDecision decision;
  if (to.way == kWays || !read(slot(from), key, decision)) return false;
  write(to, key, decision);
  return true;
}

}  // namespace kscout
