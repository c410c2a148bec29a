#pragma once
/// \file
/// Prints an evaluation.
#include <optional>

#include "evaluate/evaluate_model.h"
#include "table.h"

namespace kscout::cli {

/// Text, JSON or CSV on stdout. `worst`: how many of the worst problems text and JSON show.
void print_evaluation(const ModelEvaluation& evaluation, Format format,
                      std::optional<std::size_t> worst = std::nullopt);

}  // namespace kscout::cli
