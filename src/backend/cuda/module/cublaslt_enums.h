#pragma once
/// \file
/// The library's numbers for tiles, stages and clusters as pairs of sizes. The lists are made from the names
/// in its header when the module is configured (cmake/KscoutCuda.cmake).
#include <cstdint>
#include <span>

#include "backend/cuda/module.h"

namespace kscout::cuda {

/// A value of one of the library's enums; `sizes` as they stand in its name: rows x columns of the library's
/// own (transposed) matrix, or K x stages, 0 for AUTO.
struct NamedSizes {
  std::int32_t first, second;
  std::uint32_t value;
};

std::span<const NamedSizes> tile_names() noexcept;
std::span<const NamedSizes> stage_names() noexcept;
std::span<const NamedSizes> cluster_names() noexcept;

/// Null for a value, or a pair of sizes, that the header does not have.
const NamedSizes* find_value(std::span<const NamedSizes> names, std::uint32_t value) noexcept;
const NamedSizes* find_sizes(std::span<const NamedSizes> names, std::int32_t first,
                             std::int32_t second) noexcept;

}  // namespace kscout::cuda
