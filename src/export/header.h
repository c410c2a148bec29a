#pragma once
/// \file
/// Exports a model as one C++17 header without dependencies: family, formulas, forest, rules and a select
/// function.
///
///     HeaderOptions options;
///     options.name_space = "my_gemm";
///     write_file_atomically("my_gemm.h", model_header(Model::load("models/gemm_fp32_any_cpu"), options));
///
/// Compiled without fused multiply-add (-ffp-contract=off), the header gives the scores and choices of
/// Model::score bit for bit. It evaluates all trees for all configs, so it is slower than the library. Guide:
/// docs/exporting.md.
#include <optional>
#include <string>
#include <vector>

#include <kscout/selector.h>

#include "lightgbm/lightgbm.h"
#include "select/model.h"

namespace kscout {

struct HeaderOptions {
  std::string name_space;        ///< empty: derived from op, type and device: "gemm_fp32_zen3_2c"
  std::optional<Target> target;  ///< instead of the model's default
};

/// Throws invalid_argument for a target that the model lacks and for an invalid namespace, and unsupported
/// for a model of problems with a list of sizes (grouped GEMMs).
std::string model_header(const Model& model, const HeaderOptions& options);

/// A row of a lookup table.
struct ShapeChoice {
  Problem problem;
  Choice choice;
};

/// Writes a header with a lookup table only: sorted problems, the config chosen for each, and a binary
/// search. Of equal problems, the first one is written. Throws invalid_argument when there is no problem, or
/// there are several operations or providers.
std::string shapes_header(std::vector<ShapeChoice> choices, std::string name_space);

/// Writes one target's forest as a LightGBM text model with the schema's feature names. Its predictions are
/// the target's raw scores without calibration; for target latency, lower is better. Throws the errors of
/// model_header().
std::string model_lightgbm(const Model& model, std::optional<Target> target);

/// The LightGBM model that model_lightgbm writes as text.
LightgbmModel lightgbm_model(const Model& model, std::optional<Target> target);

/// The complete contents of the `.ksf` file as one JSON text (docs/exporting.md).
std::string model_json(const Model& model);

}  // namespace kscout
