// Implements the memory of the CPU.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <kscout/backend.h>

#include "core/fail.h"

namespace kscout {

void Memory::transpose(const MatrixCopy&, std::int64_t, Stream) {
  fail(Errc::unsupported, "memory {}: matrices are transposed in the memory of the CPU only", print(space()));
}

namespace {

constexpr std::size_t kAlignment = 64;

/// Four elements: the compiler's vector type, whose shuffles every instruction set has.
template <class E>
struct Four {
  using Vector [[gnu::vector_size(4 * sizeof(E))]] = E;
};

/// Transposes 4 x 4 elements; the distances between lines are in elements.
template <class E>
void transpose_tile(const E* from, std::int64_t from_pitch, E* to, std::int64_t to_pitch) {
  using Vector = typename Four<E>::Vector;
  const auto read = [&](std::int64_t line, Vector& values) {
    std::memcpy(&values, from + line * from_pitch, sizeof values);
  };
  const auto write = [&](std::int64_t line, const Vector& values) {
    std::memcpy(to + line * to_pitch, &values, sizeof values);
  };
  Vector a, b, c, d;
  read(0, a), read(1, b), read(2, c), read(3, d);
  const Vector low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Vector low_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vector high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vector high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  write(0, __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5));
  write(1, __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7));
  write(2, __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5));
  write(3, __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7));
}

/// Transposes `lines` lines of `length` elements.
template <class E>
void transpose_matrix(const E* from, std::int64_t from_pitch, E* to, std::int64_t to_pitch,
                      std::int64_t lines, std::int64_t length) {
  // A block reads and writes whole cache lines.
  constexpr std::int64_t kTile = 4, kBlockLength = 64, kBlockLines = 16;
  const auto single = [&](std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1) {
    for (std::int64_t i = i0; i < i1; ++i) {
      for (std::int64_t j = j0; j < j1; ++j) to[i * to_pitch + j] = from[j * from_pitch + i];
    }
  };
  for (std::int64_t i0 = 0; i0 < length; i0 += kBlockLength) {
    const std::int64_t i1 = std::min(length, i0 + kBlockLength), i_tiles = i0 + (i1 - i0) / kTile * kTile;
    for (std::int64_t j0 = 0; j0 < lines; j0 += kBlockLines) {
      const std::int64_t j1 = std::min(lines, j0 + kBlockLines), j_tiles = j0 + (j1 - j0) / kTile * kTile;
      for (std::int64_t i = i0; i < i_tiles; i += kTile) {
        for (std::int64_t j = j0; j < j_tiles; j += kTile)
          transpose_tile(from + j * from_pitch + i, from_pitch, to + i * to_pitch + j, to_pitch);
      }
      single(i0, i_tiles, j_tiles, j1);
      single(i_tiles, i1, j0, j1);
    }
  }
}

/// Transposes every item, as Memory::transpose.
template <class E>
void transpose_items(const MatrixCopy& copy) {
  constexpr std::int64_t kBytes = sizeof(E);
  const std::int64_t length = copy.line_bytes / kBytes, filled = copy.lines * kBytes;
  for (std::int64_t item = 0; item < copy.items; ++item) {
    const auto* const from = static_cast<const std::byte*>(copy.from) + item * copy.from_item;
    auto* const to = static_cast<std::byte*>(copy.to) + item * copy.to_item;
    transpose_matrix(reinterpret_cast<const E*>(from), copy.from_pitch / kBytes, reinterpret_cast<E*>(to),
                     copy.to_pitch / kBytes, copy.lines, length);
    for (std::int64_t line = 0; line < copy.to_lines; ++line) {
      const std::int64_t kept = line < length ? filled : 0;
      if (kept < copy.to_line_bytes)
        std::memset(to + line * copy.to_pitch + kept, 0, static_cast<std::size_t>(copy.to_line_bytes - kept));
    }
  }
}

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

  void transpose(const MatrixCopy& copy, std::int64_t element_bytes, Stream) override {
    switch (element_bytes) {
      case 1:
        return transpose_items<std::uint8_t>(copy);
      case 2:
        return transpose_items<std::uint16_t>(copy);
      case 4:
        return transpose_items<std::uint32_t>(copy);
      case 8:
        return transpose_items<std::uint64_t>(copy);
      default:
        fail(Errc::invalid_argument, "a transpose of elements of {} bytes; they have 1, 2, 4 or 8",
             element_bytes);
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
