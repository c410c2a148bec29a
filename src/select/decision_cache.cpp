#include "select/decision_cache.h"

#include <bit>
#include <cstring>

#include "core/hash.h"

namespace kscout {
namespace {

constexpr double Choice::*kNumberOf[] = {&Choice::time_us, &Choice::tflops,     &Choice::gb_s,
                                         &Choice::margin,  &Choice::confidence, &Choice::score};

std::uint64_t signed_word(std::int64_t value) noexcept { return static_cast<std::uint64_t>(value); }

/// The small fields of a call, a byte each.
std::uint64_t types_of(const GemmProblem& p, By by) noexcept {
  const std::array<std::uint8_t, 8> bytes = {
      static_cast<std::uint8_t>(p.dtype_a),    static_cast<std::uint8_t>(p.dtype_b),
      static_cast<std::uint8_t>(p.dtype_c),    static_cast<std::uint8_t>(p.dtype_acc),
      static_cast<std::uint8_t>(p.layout),     static_cast<std::uint8_t>(p.epilogue),
      static_cast<std::uint8_t>(p.accumulate), static_cast<std::uint8_t>(by)};
  return std::bit_cast<std::uint64_t>(bytes);
}

/// Never 0, which means empty.
std::uint64_t tag_of(std::uint64_t hash) noexcept { return hash | 1; }

std::size_t axis_words(const ConfigSpace& space) noexcept { return (space.axes.size() + 1) / 2; }

/// A small number of the calling thread; threads share one past the number of counters.
std::size_t thread_number() noexcept {
  static std::atomic<std::size_t> next = 0;
  thread_local const std::size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

DecisionCache::DecisionCache(std::size_t entries) : sets_(std::bit_ceil((entries + kWays - 1) / kWays)) {}

DecisionCache::Key DecisionCache::key(const GemmProblem& p, By by) const noexcept {
  return {{signed_word(p.m), signed_word(p.n), signed_word(p.k), signed_word(p.batch), signed_word(p.split_k),
           signed_word(p.lda), signed_word(p.ldb), signed_word(p.ldc), types_of(p, by),
           generation_.load(std::memory_order_acquire)}};
}

bool DecisionCache::find(const Key& key, Choice& choice) noexcept {
  const std::uint64_t hash = words_hash(key.word);
  Set& set = set_of(hash);
  for (std::size_t way = 0; way < kWays; ++way) {
    if (set.tag[way].load(std::memory_order_relaxed) != tag_of(hash)) continue;
    if (!read(set.slot[way], key, choice)) continue;
    // Written only when it changes: a line that many threads read stays in all their caches.
    if (set.used[way].load(std::memory_order_relaxed) == 0) set.used[way].store(1, std::memory_order_relaxed);
    counters().hits.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  counters().misses.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void DecisionCache::add(const Key& key, const Choice& choice) noexcept {
  const std::uint64_t hash = words_hash(key.word);
  Set& set = set_of(hash);
  std::size_t way = 0;  // of the same key, else an empty one, else one that is given up
  while (way < kWays && set.tag[way].load(std::memory_order_relaxed) != tag_of(hash)) ++way;
  if (way == kWays) {
    way = 0;
    while (way < kWays && set.tag[way].load(std::memory_order_relaxed) != 0) ++way;
  }
  if (way == kWays) {
    way = slot_to_give_up(set);
    counters().evictions.fetch_add(1, std::memory_order_relaxed);
  }
  if (!write(set.slot[way], key, choice)) return;
  set.used[way].store(0, std::memory_order_relaxed);  // until it is found: what is asked once goes first
  set.tag[way].store(tag_of(hash), std::memory_order_relaxed);
}

std::size_t DecisionCache::slot_to_give_up(Set& set) noexcept {
  std::size_t way = 0;
  for (std::size_t looked = 0; looked < 2 * kWays; ++looked) {  // the second round finds erased marks
    way = set.hand.fetch_add(1, std::memory_order_relaxed) % kWays;
    if (set.used[way].exchange(0, std::memory_order_relaxed) == 0) break;
  }
  return way;
}

// The reader's loads are acquire, so that the second look at the version comes after all of them; the
// writer's stores are release, so that whoever sees one of them sees the odd version before it.

bool DecisionCache::read(const Slot& slot, const Key& key, Choice& choice) noexcept {
  const std::uint64_t version = slot.version.load(std::memory_order_acquire);
  if (version & 1) return false;
  for (std::size_t i = 0; i < key.word.size(); ++i) {
    if (slot.key[i].load(std::memory_order_acquire) != key.word[i]) return false;
  }
  Choice found;
  found.config.space = std::bit_cast<const ConfigSpace*>(slot.space.load(std::memory_order_acquire));
  found.source = ChoiceSource::cache;
  found.decided_by = static_cast<ChoiceSource>(slot.link.load(std::memory_order_acquire));
  for (std::size_t i = 0; i < kNumbers; ++i) {
    found.*kNumberOf[i] = std::bit_cast<double>(slot.number[i].load(std::memory_order_acquire));
  }
  // The space is a constant of the program, also when it belongs to a decision that is being overwritten;
  // with a version that has not changed it is this one's.
  const std::size_t words = found.config.space ? axis_words(*found.config.space) : 0;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t two = slot.axes[i].load(std::memory_order_acquire);
    std::memcpy(&found.config.value[2 * i], &two, sizeof two);
  }
  if (slot.version.load(std::memory_order_relaxed) != version) return false;
  choice = found;
  return true;
}

bool DecisionCache::write(Slot& slot, const Key& key, const Choice& choice) noexcept {
  std::uint64_t version = slot.version.load(std::memory_order_relaxed);
  if ((version & 1) || !slot.version.compare_exchange_strong(version, version + 1)) return false;
  const auto put = [](Word& word, std::uint64_t value) { word.store(value, std::memory_order_release); };
  for (std::size_t i = 0; i < key.word.size(); ++i) put(slot.key[i], key.word[i]);
  put(slot.space, std::bit_cast<std::uint64_t>(choice.config.space));
  put(slot.link, static_cast<std::uint64_t>(choice.decided_by));
  for (std::size_t i = 0; i < kNumbers; ++i) {
    put(slot.number[i], std::bit_cast<std::uint64_t>(choice.*kNumberOf[i]));
  }
  for (std::size_t i = 0; i < axis_words(*choice.config.space); ++i) {
    std::uint64_t two;
    std::memcpy(&two, &choice.config.value[2 * i], sizeof two);
    put(slot.axes[i], two);
  }
  slot.version.store(version + 2, std::memory_order_release);
  return true;
}

DecisionCache::Counters& DecisionCache::counters() noexcept {
  return counters_[thread_number() % counters_.size()];
}

CacheStatistics DecisionCache::statistics() const noexcept {
  CacheStatistics sum;
  for (const Counters& of : counters_) {
    sum.hits += of.hits.load(std::memory_order_relaxed);
    sum.misses += of.misses.load(std::memory_order_relaxed);
    sum.evictions += of.evictions.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace kscout
