#pragma once
/// \file
/// Identifies a memory: that of the host or of one GPU.
///
///     dispatcher.run(problem, {.a = a, .b = b, .c = c, .space = {MemoryKind::cuda, 0}});
///     std::string where = print(backend.space());   // "hip:0"
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <kscout/types.h>

namespace kscout {

enum class MemoryKind : std::uint8_t { host, cuda, hip };
template <>
struct EnumWords<MemoryKind> {
  static constexpr std::string_view what = "memory kind";
  static constexpr std::array<std::string_view, 3> words = {"host", "cuda", "hip"};
};

/// Memory that one kind of kernel reaches. Pinned host memory is host memory.
struct MemorySpace {
  MemoryKind kind = MemoryKind::host;
  /// Number of the GPU, as CUDA or HIP counts the GPUs that the process sees; 0 for the host.
  std::int32_t ordinal = 0;

  constexpr bool operator==(const MemorySpace&) const = default;
};

/// "host", "cuda:0", "hip:1".
std::string print(const MemorySpace& space);
/// Inverse of print; "cuda" and "hip" mean GPU 0. Throws invalid_argument.
MemorySpace parse_memory_space(std::string_view text);

}  // namespace kscout
