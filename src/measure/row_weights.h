#pragma once
/// \file
/// The random vector of Freivalds' check (verify.h).
#include <cstdint>
#include <vector>

#include <kscout/fields.h>

namespace kscout {

/// 0.5 <= |w| <= 1.5, signs at random; the same at every call.
inline std::vector<double> row_weights(std::int64_t count) {
  std::vector<double> weights(static_cast<std::size_t>(count));
  std::uint64_t random = 0x5EED;
  for (double& weight : weights) {
    random = mix_hash(random, 1);
    const double size = 0.5 + static_cast<double>(random >> 11) * 0x1p-53;
    weight = (random & 1) ? size : -size;
  }
  return weights;
}

}  // namespace kscout
