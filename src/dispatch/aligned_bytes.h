#pragma once
/// \file
/// Memory for workspaces: aligned to 64 bytes, grown and reused, never shrunk.
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace kscout {

class AlignedBytes {
 public:
  static constexpr std::size_t kAlignment = 64;

  /// At least `bytes` of unspecified contents; earlier pointers may become invalid. Throws std::bad_alloc.
  void* at_least(std::size_t bytes) {
    if (bytes > size_) {
      const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      memory_.reset(std::aligned_alloc(kAlignment, rounded));
      size_ = memory_ ? rounded : 0;
      if (!memory_) throw std::bad_alloc();
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace kscout
