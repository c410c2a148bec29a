#pragma once
/// \file
/// Makes a shortlist with a random network, to test cost and reading without accuracy.
#include <random>

#include <kscout/config.h>

#include "forest/shortlist.h"

namespace kscout::toy {

inline Shortlist random_shortlist(const ConfigTable& configs, std::uint64_t seed,
                                  std::uint32_t hidden = 128) {
  std::mt19937_64 random(seed);
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  Shortlist shortlist;
  for (std::size_t i = 0; i < configs.size(); ++i) shortlist.configs.push_back(configs[i]);
  for (std::size_t f = 0; f < kShortlistFeatures; ++f) {
    shortlist.mean[f] = static_cast<std::int32_t>(number(-500, 3000));
    shortlist.factor[f] = static_cast<std::int32_t>(number(0, 400'000));
  }
  const std::uint32_t sizes[] = {kShortlistFeatures, hidden, hidden,
                                 static_cast<std::uint32_t>(configs.size())};
  for (std::size_t l = 0; l < 3; ++l) {
    Shortlist::Layer& layer = shortlist.layers[l];
    layer.inputs = sizes[l];
    layer.outputs = sizes[l + 1];
    for (std::uint32_t i = 0; i < layer.inputs * layer.outputs; ++i)
      layer.weights.push_back(static_cast<std::int8_t>(number(-128, 127)));
    for (std::uint32_t o = 0; o < layer.outputs; ++o) {
      layer.bias.push_back(static_cast<std::int32_t>(number(-1'000'000, 1'000'000)));
      layer.factor.push_back(static_cast<std::int32_t>(number(50'000, 150'000)));
    }
  }
  return shortlist;
}

}  // namespace kscout::toy
