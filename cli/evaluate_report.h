#pragma once
/// \file
/// Prints an evaluation, and reads the data of one.
#include <optional>
#include <string>
#include <vector>

#include "evaluate/evaluate_model.h"
#include "table.h"

namespace kscout::cli {

/// Prints text, JSON or CSV on stdout. `worst`: number of worst problems in text and JSON.
void print_evaluation(const ModelEvaluation& evaluation, Format format,
                      std::optional<std::size_t> worst = std::nullopt);

/// Reads the measurements that `kscout tune` kept in a model's folder. The rows of the model's training sizes
/// become `how.training` unless it is set: the static baselines are chosen on them. Throws invalid_argument
/// when there is no such file.
CompactTable read_kept(const std::string& model, ModelEvaluationOptions& how);

}  // namespace kscout::cli
