#pragma once
/// \file
/// LightGBM's text models: read into a forest, and written from one.
///
///     const LightgbmModel model = read_lightgbm("model_tflops.lgbm.gz");
///     const double score = model.forest.predict(row);            // the sum of the leaves
///     const double value = model.output(score);                  // what LightGBM's predict() returns
///     const std::string text = lightgbm_text(model);             // version v4, readable by LightGBM
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "forest/forest.h"

namespace kscout {

/// What LightGBM does with a score before it hands it out. All of them grow with the score, so they change
/// values and never an order.
enum class Link : std::uint8_t {
  identity,
  signed_square,  ///< score * |score|: objective=regression with reg_sqrt
  exponential,    ///< e^score: poisson, gamma, tweedie
};

/// A LightGBM model with one output.
struct LightgbmModel {
  Forest forest;
  std::vector<std::string> feature_names;
  std::string objective;  ///< its first word: "regression", "lambdarank"; "" for a custom one
  Link link = Link::identity;

  /// What LightGBM's predict() returns for a score, bit for bit (exponential: as the C library rounds it).
  double output(double score) const noexcept;
  bool operator==(const LightgbmModel&) const = default;
};

/// Reads versions v3 and v4. Throws corrupt_data (with the line) for damaged text, unsupported by name for
/// linear trees, several classes, and objectives whose output is none of Link.
LightgbmModel parse_lightgbm(std::string_view text);

/// Same from .lgbm, .txt or gzip of either, decompressed in memory. Throws not_found when there is no such
/// file.
LightgbmModel read_lightgbm(const std::filesystem::path& file);

/// The model as version v4; parse_lightgbm() gives it back. What only training knows (gains, counts of rows)
/// is left out: LightGBM predicts without it and explains (SHAP) only with it. Throws invalid_argument for a
/// feature name that the format cannot hold (empty, or with a space, a line end or '=').
std::string lightgbm_text(const LightgbmModel& model);

// ---- Reads a folder of LightGBM models in the layout of CK Tile's trainer: feature_spec.json, and per
// target a model as text, plain or gzip.
//
//     const LightgbmFolder folder = read_lightgbm_folder("models/gemm_universal_fp8_gfx950");
//     const LightgbmTarget& tflops = folder.target("tflops");
//     const double value = tflops.value(tflops.model.forest.predict(row));     // TFLOPS, whatever was learnt
//
// Nothing is written: gzip is undone in memory. Fields: docs/formats/model-folder.md.

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
