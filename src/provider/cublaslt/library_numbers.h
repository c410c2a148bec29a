#pragma once
/// \file
/// Maps cuBLASLt's numbers for tiles, stages and clusters to pairs of sizes.
///
///     const NamedSizes* const tile = find_sizes(library_tiles(), 256, 128);
///     if (tile) tile->number;      // the value for CUBLASLT_ALGO_CONFIG_TILE_ID
///
/// The build reads the lists from the library's header (cmake/KscoutCuda.cmake). Releases add numbers and
/// keep those of earlier releases. Where no CUDA toolkit was found, the lists only have the entry "not
/// stated".
#include <cstdint>
#include <span>

namespace kscout {

/// A value of one of the library's enums. `first` and `second` are the sizes in its name: rows x columns of
/// the library's own (transposed) matrix, or K x stages; 0 for AUTO or not stated.
struct NamedSizes {
  std::int32_t first, second;
  std::uint32_t number;
};

std::span<const NamedSizes> library_tiles() noexcept;
std::span<const NamedSizes> library_stages() noexcept;
std::span<const NamedSizes> library_clusters() noexcept;

/// Null for a number, or a pair of sizes, that the header lacks.
const NamedSizes* find_number(std::span<const NamedSizes> names, std::uint32_t number) noexcept;
const NamedSizes* find_sizes(std::span<const NamedSizes> names, std::int32_t first,
                             std::int32_t second) noexcept;

}  // namespace kscout
