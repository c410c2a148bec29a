#pragma once
/// \file
/// Writes a model as a folder of CK Tile's trainer, for its scripts.
///
///     for (const auto& [name, text] : ck_model_files(model, {})) write_file_atomically(folder / name, text);
///
/// The folder has one target, tflops: the model's choice. A target tflops is written as its forest, in
/// log_targets. For target relative, the forest of the best TFLOPS and the calibration are added as trees,
/// and objective poisson makes LightGBM return e^sum: the predicted TFLOPS themselves.
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "select/model.h"

namespace kscout {

struct CkModelExport {
  std::optional<Target> target;         ///< instead of the model's default
  std::filesystem::path manifest = {};  ///< train_manifest.json of the model; empty: the numbers are unknown
};

/// The names and texts of the files. Throws unsupported when the model's features are not those of a
/// published schema, or for a target other than tflops and relative; invalid_argument for a target that the
/// model lacks.
std::vector<std::pair<std::string, std::string>> ck_model_files(const Model& model,
                                                                const CkModelExport& options);

}  // namespace kscout
