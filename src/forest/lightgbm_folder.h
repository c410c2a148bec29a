#pragma once
/// \file
/// Reads a folder of LightGBM models in the layout of CK Tile's trainer: feature_spec.json, and per target a
/// model as text, plain or gzip.
///
///     const LightgbmFolder folder = read_lightgbm_folder("models/gemm_universal_fp8_gfx950");
///     const LightgbmTarget& tflops = folder.target("tflops");
///     const double value = tflops.value(tflops.model.forest.predict(row));     // TFLOPS, whatever was learnt
///
/// Nothing is written: gzip is undone in memory. Fields: docs/formats/model-folder.md.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "forest/lightgbm_text.h"

namespace kscout {

/// One model of a folder.
struct LightgbmTarget {
  std::string name;    ///< "tflops", "latency", ...
  bool log1p = false;  ///< learnt as ln(1 + value)
  LightgbmModel model;

  /// What a score of model.forest says in the target's own unit: e^output - 1 where log1p; where not, tflops,
  /// latency and bandwidth are at least 0.
  double value(double score) const noexcept;
};

struct LightgbmFolder {
  std::string op, dtype, arch;             ///< as written; "" where the spec is silent
  std::vector<std::string> feature_names;  ///< what a row holds, in order
  std::vector<std::string> categorical;    ///< those that are codes
  std::vector<LightgbmTarget> targets;     ///< in the spec's order

  /// Throws not_found naming the targets that are there.
  const LightgbmTarget& target(std::string_view name) const;
};

/// Throws not_found when the folder, its feature_spec.json or every model is absent, corrupt_data when the
/// spec and a model contradict each other (features, a plain and a gzip file of one target that differ),
/// unsupported as parse_lightgbm does.
LightgbmFolder read_lightgbm_folder(const std::filesystem::path& folder);

}  // namespace kscout
