#pragma once
/// \file
/// Configs of decisions, each kept once: a decision names its config by address, in eight bytes instead of
/// 136.
///
///     ConfigPool pool;
///     const KernelConfig* kept = pool.keep(choice.config);   // null: no room, or another thread is adding
///
/// What was kept stays where it is, unchanged, until the pool goes: whoever got the address from another
/// thread by a release store and an acquire load may read it without more ado. Threads keep at once; none
/// waits. Memory: 37 kB for every 256 configs, 16 times that at most.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <kscout/config.h>

namespace kscout {

class ConfigPool {
 public:
  static constexpr std::size_t kBlock = 256, kBlocks = 16;

  ConfigPool() { block_[0] = std::make_unique<Block>(); }

  /// The pool's copy of a config. Allocates when a block is full.
  const KernelConfig* keep(const KernelConfig& config) noexcept;
  std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }

 private:
  struct Block {
    std::array<std::uint64_t, kBlock> hash;
    std::array<KernelConfig, kBlock> config;
  };
  const KernelConfig* find(const KernelConfig& config, std::uint64_t hash, std::size_t size) const noexcept;
  const KernelConfig* add(const KernelConfig& config, std::uint64_t hash) noexcept;

  std::array<std::unique_ptr<Block>, kBlocks> block_;  ///< written by who holds `adding_`, read below `size_`
  std::atomic<std::size_t> size_ = 0;
  std::atomic<bool> adding_ = false;
};

}  // namespace kscout
