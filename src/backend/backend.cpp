
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/hip/hip_backend.h"
#include "core/fail.h"
#include "core/names.h"

namespace kscout {

namespace {

struct Entry {
  std::string_view name;
  Backend& (*get)();
  /// Why the backend is missing on this machine; empty when it is present.
  std::string (*missing)();
};

constexpr std::array kBackends = {
    Entry{"cpu", cpu_backend, [] { return std::string(); }},
    Entry{"cuda", cuda_backend, cuda_missing},
    Entry{"hip", hip_backend, hip_missing},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kBackends.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kBackends[i].name;
  return names;
}();

}  // namespace

std::string print(const MemorySpace& space) {
  const std::string kind(word(space.kind));
  return space.kind == MemoryKind::host ? kind : kind + ":" + std::to_string(space.ordinal);
}

MemorySpace parse_memory_space(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  MemorySpace space{.kind = parse<MemoryKind>(text.substr(0, colon))};
  if (colon == text.size()) return space;
  const std::string_view number = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), space.ordinal);
  if (space.kind == MemoryKind::host || error != std::errc() || end != number.data() + number.size() ||
      space.ordinal < 0) {
    fail(Errc::invalid_argument, "memory '{}': host, or cuda or hip with a GPU's number as in cuda:0", text);
  }
  return space;
}

void check_reach(std::string_view backend, const MemorySpace& reached, const MemorySpace& given) {
  if (given == reached) return;
  fail(Errc::invalid_argument,
       "the operands are in memory {}, backend {} reaches {}; copy them there, or take a backend that "
       "reaches them "
       "(buffers say in `space` where they are)",
       print(given), backend, print(reached));
}

Backend& backend(std::string_view name) {
  const Entry& entry = kBackends[index_of_word("backend", name, kNames)];
  if (const std::string why = entry.missing(); !why.empty())
    fail(Errc::unsupported, "backend {}: {}", name, why);
  return entry.get();
}

GemmBuffers operands_of(Op direction, const ConvTensors& tensors) noexcept {
  const auto [a, b, c] = by_operand(direction, tensors.in, tensors.wei, tensors.out);
  return {.a = a, .b = b, .c = c, .space = tensors.space};
}

std::span<const std::string_view> backend_names() noexcept {
  static const std::vector<std::string_view> here = [] {
    std::vector<std::string_view> names;
    for (const Entry& entry : kBackends) {
      if (entry.missing().empty()) names.push_back(entry.name);
    }
    return names;
  }();
  return here;
}

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
