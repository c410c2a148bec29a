#include "provider/cublaslt/library_numbers.h"

#include <algorithm>

namespace kscout {

namespace {

// Each list uses one of the three macros of the generated file.
constexpr std::int32_t AUTO = 0;
#define KSCOUT_STAGE(k, stages, number)
#define KSCOUT_CLUSTER(m, n, number)
constexpr NamedSizes kTiles[] = {
    {0, 0, 0},
#define KSCOUT_TILE(m, n, number) {m, n, number},
#include "cublaslt_numbers.inc"
};
#undef KSCOUT_TILE
#undef KSCOUT_STAGE
#define KSCOUT_TILE(m, n, number)
constexpr NamedSizes kStages[] = {
    {0, 0, 0},
#define KSCOUT_STAGE(k, stages, number) {k, stages, number},
#include "cublaslt_numbers.inc"
};
#undef KSCOUT_STAGE
#undef KSCOUT_CLUSTER
#define KSCOUT_STAGE(k, stages, number)
constexpr NamedSizes kClusters[] = {
    {AUTO, AUTO, 0},
#define KSCOUT_CLUSTER(m, n, number) {m, n, number},
#include "cublaslt_numbers.inc"
};

}  // namespace

std::span<const NamedSizes> library_tiles() noexcept { return kTiles; }
std::span<const NamedSizes> library_stages() noexcept { return kStages; }
std::span<const NamedSizes> library_clusters() noexcept { return kClusters; }

const NamedSizes* find_number(std::span<const NamedSizes> names, std::uint32_t number) noexcept {
  const auto found = std::ranges::find(names, number, &NamedSizes::number);
  return found == names.end() ? nullptr : &*found;
}

const NamedSizes* find_sizes(std::span<const NamedSizes> names, std::int32_t first,
                             std::int32_t second) noexcept {
  const auto found = std::ranges::find_if(
      names, [&](const NamedSizes& name) { return name.first == first && name.second == second; });
  return found == names.end() ? nullptr : &*found;
}

}  // namespace kscout
