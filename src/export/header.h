#pragma once
/// \file
/// A model as one C++17 header without any dependency: family, formulas, forest, rules and a select function.
///
///     HeaderOptions options;
///     options.name_space = "my_gemm";
///     write_file_atomically("my_gemm.h", model_header(Model::load("models/gemm_fp32_zen3-2c"), options));
///
/// Compiled without fused multiply-add (-ffp-contract=off) it gives the scores and choices of Model::score
/// bit for bit. It is the plain walk over all trees and configs, slower than the library. The
/// guide is docs/exporting.md.
#include <optional>
#include <string>
#include <vector>

#include <kscout/selector.h>

#include "forest/lightgbm.h"
#include "select/model.h"

namespace kscout {

struct HeaderOptions {
  std::string name_space;        ///< empty: made of op, type and device, "gemm_fp32_zen3_2c"
  std::optional<Target> target;  ///< instead of the model's default
};

/// Throws invalid_argument for a target that the model lacks and for a name that is no namespace, unsupported
/// for a model of convolutions.
std::string model_header(const Model& model, const HeaderOptions& options);

/// One line of a lookup table.
struct ShapeChoice {
  GemmProblem problem;
  Choice choice;
};

/// A header that only looks up: a sorted table of problems with the config that was chosen for each, and a
/// binary search. Of equal problems the first counts. Throws invalid_argument when there is none, or configs
/// are of several providers.
std::string shapes_header(std::vector<ShapeChoice> choices, std::string name_space);

/// One target's forest as a LightGBM text model with the schema's feature names. Its predictions are the
/// target's raw scores: latency is better when lower, and nothing is calibrated. Throws as model_header.
std::string model_lightgbm(const Model& model, std::optional<Target> target);

/// The same forest before it is text.
LightgbmModel lightgbm_model(const Model& model, std::optional<Target> target);

/// Everything that the `.ksf` file holds as one JSON text (docs/exporting.md).
std::string model_json(const Model& model);

}  // namespace kscout
