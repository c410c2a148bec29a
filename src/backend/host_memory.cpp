#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <kscout/backend.h>

#include "core/fail.h"

namespace kscout {

namespace {

constexpr std::size_t kAlignment = 64;

class HostMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* const memory = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
    if (!memory) fail(Errc::device_failure, "no memory for a workspace of {} bytes", bytes);
    return memory;
  }

  void release(void* memory) noexcept override { std::free(memory); }

  void copy(const MatrixCopy& copy, Stream) override {
    for (std::int64_t item = 0; item < copy.items; ++item) {
      const auto* from = static_cast<const std::byte*>(copy.from) + item * copy.from_item;
      auto* to = static_cast<std::byte*>(copy.to) + item * copy.to_item;
      for (std::int64_t line = 0; line < copy.to_lines; ++line, to += copy.to_pitch) {
        const std::int64_t filled = line < copy.lines ? copy.line_bytes : 0;
        if (filled > 0) std::memcpy(to, from + line * copy.from_pitch, static_cast<std::size_t>(filled));
        std::memset(to + filled, 0, static_cast<std::size_t>(copy.to_line_bytes - filled));
      }
    }
  }

  void set(void* to, std::byte value, std::size_t bytes, Stream) override {
    std::memset(to, std::to_integer<int>(value), bytes);
  }
  void read(void* to_host, const void* from, std::size_t bytes, Stream) override {
    std::memcpy(to_host, from, bytes);
  }
  void write(void* to, const void* from_host, std::size_t bytes, Stream) override {
    std::memcpy(to, from_host, bytes);
  }
};

}  // namespace

Memory& host_memory() noexcept {
  static HostMemory instance;
  return instance;
}

}  // namespace kscout
