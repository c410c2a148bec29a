#include "select/decision_cache.h"

#include <initializer_list>
#include <utility>

namespace kscout {
DecisionCache::DecisionCache(const Tables& tables) : places_(tables) {
  table_[0] = std::make_unique<DecisionSets>(places_[0]);
  made_ = 1;
}
DecisionCache::~DecisionCache() = default;

DecisionKey DecisionCache::key(const ConvProblem& p, By by) const noexcept {
  bool fits = true;
  const auto packed = [&fits](std::initializer_list<std::pair<std::int64_t, int>> numbers) {
    std::uint64_t word = 0;
    for (const auto& [number, bits] : numbers) {
      const auto value = static_cast<std::uint64_t>(number);
      fits = fits && value >> bits == 0;
      word = word << bits | value;
    }
    return word;
  };
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  std::array<std::uint64_t, 6> word = {packed({{p.n, 24}, {p.c, 20}, {p.k, 20}}),
                                       packed({{p.g, 20}, {p.d, 12}, {p.h, 16}, {p.w, 16}}),
                                       packed({{p.z, 8},
                                               {p.y, 8},
                                               {p.x, 8},
                                               {p.stride_d, 6},
                                               {p.stride_h, 6},
                                               {p.stride_w, 6},
                                               {p.dilation_d, 7},
                                               {p.dilation_h, 7},
                                               {p.dilation_w, 7}}),
                                       packed({{p.left_pad_d, 8},
                                               {p.left_pad_h, 8},
                                               {p.left_pad_w, 8},
                                               {p.right_pad_d, 8},
                                               {p.right_pad_h, 8},
                                               {p.right_pad_w, 8},
                                               {p.split_k, 16}}),
                                       // In a GEMM's key the byte of `op` holds accumulate: 0 or 1.
                                       packed({{number(by), 8},
                                               {1 + number(p.op), 8},
                                               {number(p.layout), 8},
                                               {number(p.dtype_acc), 8},
                                               {number(p.dtype_out), 8},
                                               {number(p.dtype_wei), 8},
                                               {number(p.dtype_in), 8}})};
  word.back() = fits ? generation_.load(std::memory_order_acquire) : 0;
  return {word, words_hash(word)};
}

void DecisionCache::add(const DecisionKey& key, const Choice& choice) noexcept {
  if (key.generation() == 0) return;  // too large a problem for a key
  const KernelConfig* const config = configs_.keep(choice.config);
  if (!config) return;
  KeptDecision decision{config, {}, static_cast<std::uint64_t>(choice.decided_by)};
  for (std::size_t i = 0; i < kNumbers; ++i) {
    decision.number[i] = std::bit_cast<std::uint64_t>(choice.*kNumberOf[i]);
  }
  const std::size_t made = made_.load(std::memory_order_acquire);
  for (std::size_t t = 0; t < made; ++t) {
    if (table_[t]->update(key, decision)) return;
  }
  for (std::size_t t = 0; t < made; ++t) {
    if (table_[t]->add(key, decision)) return;
  }
  if (add_table()) {
    table_[made_.load(std::memory_order_acquire) - 1]->add(key, decision);
    return;
  }
  count(&Counters::evictions);
  // Each table gives up as many as its share of all places.
  std::size_t t = 0, place = (key.hash >> 8) % places();
  for (; t + 1 < made && place >= table_[t]->places(); ++t) place -= table_[t]->places();
  table_[t]->replace_one(key, decision);
}

/// False when all are made, when another thread is making one, or without memory.
bool DecisionCache::add_table() noexcept {
  if (adding_.exchange(true, std::memory_order_acquire)) return false;
  const std::size_t made = made_.load(std::memory_order_relaxed);
  try {
    if (made < table_.size() && places_[made] > 0) {
      table_[made] = std::make_unique<DecisionSets>(places_[made]);
      made_.store(made + 1, std::memory_order_release);
    }
  } catch (const std::bad_alloc&) {  // it goes on with what it has
  }
  const bool added = made_.load(std::memory_order_relaxed) > made;
  adding_.store(false, std::memory_order_release);
  return added;
}

std::size_t DecisionCache::places() const noexcept {
  std::size_t sum = 0;
  for (std::size_t t = made_.load(std::memory_order_acquire); t-- > 0;) sum += table_[t]->places();
  return sum;
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
