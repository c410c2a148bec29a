#pragma once
/// \file
/// Reads and writes LightGBM text models.
///
///     const LightgbmModel model = read_lightgbm("model_tflops.lgbm.gz");
///     const double score = model.forest.predict(row);            // the sum of the leaves
///     const double value = model.output(score);                  // what LightGBM's predict() returns
///     const std::string text = lightgbm_text(model);             // version v4, readable by LightGBM
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "features/schema.h"
#include "forest/forest.h"

namespace kscout {

/// How LightGBM transforms a score for output. Every link increases with the score, so it changes values but
/// never an order.
enum class Link : std::uint8_t {
  identity,
  signed_square,  ///< score * |score|: objective=regression with reg_sqrt
  exponential,    ///< e^score: poisson, gamma, tweedie
};

/// A LightGBM model with one output.
struct LightgbmModel {
  Forest forest;
  std::vector<std::string> feature_names;
  std::string objective;  ///< first word of the objective: "regression", "lambdarank"; "" for a custom one
  Link link = Link::identity;

  /// What LightGBM's predict() returns for a score, bit for bit (exponential: as the C library rounds it).
  double output(double score) const noexcept;
  bool operator==(const LightgbmModel&) const = default;
};

/// Reads versions v3 and v4. Throws corrupt_data (with the line) for damaged text; unsupported, by name, for
/// linear trees, several classes, and objectives without a Link.
LightgbmModel parse_lightgbm(std::string_view text);

/// Reads a file: .lgbm, .txt or gzip of either, decompressed in memory. Throws not_found when there is no
/// such file.
LightgbmModel read_lightgbm(const std::filesystem::path& file);

/// The model as version v4, the inverse of parse_lightgbm(). Training statistics (gains, row counts) are
/// omitted: LightGBM can predict without them but needs them to explain (SHAP). Throws invalid_argument for a
/// feature name that the format cannot store (empty, or with a space, a line end or '=').
std::string lightgbm_text(const LightgbmModel& model);

/// A forest of KernelScout as a model of LightGBM, with the schema's feature names. `ranks`: its scores order
/// configs, and are no values.
LightgbmModel lightgbm_model(Forest forest, const Schema& schema, bool ranks);

// ---- Reads a folder of LightGBM models in the layout of CK Tile's trainer: feature_spec.json, and one model
// per target as text, plain or gzip.
//
//     const LightgbmFolder folder = read_lightgbm_folder("models/gemm_universal_fp8_gfx950");
//     const LightgbmTarget& tflops = folder.target("tflops");
//     const double value = tflops.value(tflops.model.forest.predict(row));     // TFLOPS, whatever was learnt
//
// Writes no files: gzip is decompressed in memory. Fields: docs/formats/model-folder.md.

/// One model of a folder.
struct LightgbmTarget {
  std::string name;    ///< "tflops", "latency", ...
  bool log1p = false;  ///< trained on ln(1 + value)
  LightgbmModel model;

  /// Converts a score of model.forest to the target's own unit: e^output - 1 with log1p; without it, tflops,
  /// latency and bandwidth are at least 0.
  double value(double score) const noexcept;
};

struct LightgbmFolder {
  std::string op, dtype, arch;             ///< as in the spec; "" where the spec omits them
  std::vector<std::string> feature_names;  ///< features of a row, in order
  std::vector<std::string> categorical;    ///< names of the categorical features
  std::vector<LightgbmTarget> targets;     ///< in the spec's order
  std::string engine;        ///< `feature_engine`: what computed the features; "" where the spec omits it
  int encoding_version = 0;  ///< `feature_encoding_version`
  /// `hardware`: constants of the device that the features were computed with, above 0; empty when omitted.
  std::map<std::string, double> hardware;

  /// Throws not_found naming the existing targets.
  const LightgbmTarget& target(std::string_view name) const;
};

/// Throws not_found when the folder, its feature_spec.json or every model is missing, corrupt_data when the
/// spec and a model contradict each other (features, or a plain and a gzip file of one target that differ),
/// and the unsupported errors of parse_lightgbm.
LightgbmFolder read_lightgbm_folder(const std::filesystem::path& folder);

/// The unit of target latency: 1 for KernelScout's trainer, 1000 for CK Tile's, which counts milliseconds.
/// Their different words for operations distinguish the trainers.
double microseconds_per_latency(const LightgbmFolder& folder);

}  // namespace kscout
