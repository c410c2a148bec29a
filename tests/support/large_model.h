#pragma once
/// \file
/// Makes a model of realistic size with random forests, to measure cost without accuracy.
#include "features/schema.h"
#include "select/model.h"
#include "support/random_forest.h"

namespace kscout::toy {

/// All 1,014 configs of provider native's rule set `full` (rrr, epyc-7763) under `trees` trees of `leaves`
/// leaves each.
inline Model large_model(std::size_t trees = 500, std::uint32_t leaves = 31) {
  const auto forest = [&](std::size_t features, std::uint32_t category_share) {
    return RandomForest({.features = static_cast<std::uint32_t>(features),
                         .trees = trees,
                         .min_leaves = leaves,
                         .max_leaves = leaves,
                         .categorical = category_share / 100.0},
                        features)
        .forest();
  };
  ModelData data;
  data.schema = std::make_shared<Schema>(Schema::find("gemm"));
  data.families = {enumerate({.provider = "native",
                              .signature = signature_of(make_gemm(1, 1, 1, DType::fp32, Layout::rrr)),
                              .device = device_preset("epyc-7763"),
                              .rules = "full",
                              .filter = {}})};
  data.targets = {{Target::relative, forest(data.schema->size(), 5), 0, 1}};
  data.best_features = {static_cast<std::uint32_t>(data.schema->index("m"))};
  data.best_tflops = RandomForest({.features = 1, .trees = 50, .categorical = 0}, 1).forest();
  data.fingerprint = "0123456789abcdef";
  return Model(std::move(data));
}

}  // namespace kscout::toy
