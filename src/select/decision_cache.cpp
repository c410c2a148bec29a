#include "select/decision_cache.h"

#include <new>

#include <sys/mman.h>

namespace kscout {
namespace {

std::shared_ptr<void> map_zeros(std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return {at, [bytes](void* memory) { munmap(memory, bytes); }};
}

}  // namespace

DecisionCache::DecisionCache(std::size_t places)
    : mask_(places - 1),
      memory_(map_zeros(places * sizeof(Place) + kConfigs * sizeof(Kept))),
      places_(static_cast<Place*>(memory_.get())),
      kept_(reinterpret_cast<Kept*>(places_ + places)) {}

void DecisionCache::add(const DecisionKey& key, const Choice& choice) noexcept {
  const KernelConfig* const config = key.generation() == 0 ? nullptr : keep(choice.config);
  if (!config) return;
  const std::uint64_t hash = words_hash(key.word);
  // Never written, of an earlier generation, or holding this key.
  const auto usable = [&key](const Place& at) {
    const std::uint64_t last = at.key.back().load(std::memory_order_relaxed);
    return DecisionKey::generation_in(last) != key.generation() || holds(at, key);
  };
  std::size_t probe = 0;
  while (probe < kProbes && !usable(place(hash, probe))) ++probe;
  if (probe == kProbes) probe = evictions_.fetch_add(1, std::memory_order_relaxed) % kProbes;

  Place& to = place(hash, probe);
  std::uint64_t version = to.version.load(std::memory_order_relaxed);
  if ((version & 1) != 0 || !to.version.compare_exchange_strong(version, version + 1)) return;
  std::array<std::uint64_t, std::tuple_size_v<decltype(Place::rest)>> rest;
  std::memcpy(rest.data(), reinterpret_cast<const std::byte*>(&choice) + sizeof(KernelConfig), sizeof(rest));
  for (std::size_t i = 0; i < key.word.size(); ++i) to.key[i].store(key.word[i], std::memory_order_release);
  to.config.store(reinterpret_cast<std::uintptr_t>(config) | static_cast<std::uint64_t>(choice.decided_by),
                  std::memory_order_release);
  for (std::size_t i = 0; i < rest.size(); ++i) to.rest[i].store(rest[i], std::memory_order_release);
  to.version.store(version + 2, std::memory_order_release);
}

/// Null when other configs occupy all places for this one.
const KernelConfig* DecisionCache::keep(const KernelConfig& config) noexcept {
  const std::size_t hash = std::hash<KernelConfig>()(config);
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    Kept& at = kept_[(hash + probe) % kConfigs];
    if (!at.taken.load(std::memory_order_relaxed) && !at.taken.exchange(true)) {
      at.config = config;
      at.ready.store(true, std::memory_order_release);
    }
    if (at.ready.load(std::memory_order_acquire) && at.config == config) return &at.config;
  }
  return nullptr;
}

CacheStatistics DecisionCache::statistics() const noexcept {
  CacheStatistics sum{.misses = misses_, .evictions = evictions_};
  for (const Hits& of : hits_) sum.hits += of.count.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace kscout
