#pragma once
/// \file
/// Tells kinds of a library's algorithms apart by what they compute with.
///
///     if (kind_of(traits) == AlgorithmKind{.tile_k = 64, .cluster_m = 2, .cluster_n = 1, .tiled = true}) ...
///
/// A release may bring a kind that no training has seen. Trees then score it like the kind that it resembles
/// in some feature, which says nothing about its speed (docs/bench/releases.md). Of cuDNN's engines nothing
/// is known but the number, which each engine keeps from release to release: it is the kind.
#include <cmath>
#include <compare>

#include <kscout/traits.h>

namespace kscout {

struct AlgorithmKind {
  double tile_k = 0, stages = 0, cluster_m = 0, cluster_n = 0;  ///< 0: the library does not say
  bool tiled = false;                                           ///< whether it says the tile
  double engine = 0;  ///< number + 1 of an algorithm of which the library says nothing else
  auto operator<=>(const AlgorithmKind&) const = default;
};

inline AlgorithmKind kind_of(const Traits& traits) noexcept {
  const auto known = [](double value) { return value > 0 ? value : 0; };  // 0 for NaN
  return {.tile_k = known(traits.tile_k),
          .stages = known(traits.stages),
          .cluster_m = known(traits.cluster_m),
          .cluster_n = known(traits.cluster_n),
          .tiled = traits.tile_m > 0,
          .engine = std::isnan(traits.split_k) ? known(traits.algorithm + 1) : 0};
}

}  // namespace kscout
