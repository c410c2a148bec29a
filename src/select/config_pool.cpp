#include "select/config_pool.h"

#include <algorithm>
#include <new>

namespace kscout {

const KernelConfig* ConfigPool::keep(const KernelConfig& config) noexcept {
  const std::uint64_t hash = std::hash<KernelConfig>()(config);
  if (const KernelConfig* const known = find(config, hash, size())) return known;
  if (adding_.exchange(true, std::memory_order_acquire)) return nullptr;
  const KernelConfig* const kept = add(config, hash);
  adding_.store(false, std::memory_order_release);
  return kept;
}

const KernelConfig* ConfigPool::find(const KernelConfig& config, std::uint64_t hash,
                                     std::size_t size) const noexcept {
  for (std::size_t first = 0; first < size; first += kBlock) {
    const Block& block = *block_[first / kBlock];
    const auto end = block.hash.begin() + static_cast<std::ptrdiff_t>(std::min(kBlock, size - first));
    for (auto at = block.hash.begin(); (at = std::find(at, end, hash)) != end; ++at) {
      const KernelConfig& kept = block.config[static_cast<std::size_t>(at - block.hash.begin())];
      if (kept == config) return &kept;
    }
  }
  return nullptr;
}

const KernelConfig* ConfigPool::add(const KernelConfig& config, std::uint64_t hash) noexcept {
  const std::size_t at = size_.load(std::memory_order_relaxed);
  if (const KernelConfig* const known = find(config, hash, at)) return known;  // added meanwhile
  if (at == kBlock * kBlocks) return nullptr;
  std::unique_ptr<Block>& block = block_[at / kBlock];
  if (!block) block.reset(new (std::nothrow) Block);
  if (!block) return nullptr;
  block->hash[at % kBlock] = hash;
  block->config[at % kBlock] = config;
  size_.store(at + 1, std::memory_order_release);
  return &block->config[at % kBlock];
}

}  // namespace kscout
