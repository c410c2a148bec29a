#pragma once
/// \file
/// Prints an evaluation.
#include <optional>

#include "evaluate/evaluate_model.h"
#include "table.h"

namespace kscout::cli {

/// Prints text, JSON or CSV on stdout. `worst`: number of worst problems in text and JSON.
void print_evaluation(const ModelEvaluation& evaluation, Format format,
                      std::optional<std::size_t> worst = std::nullopt);

}  // namespace kscout::cli
