#pragma once
/// \file
/// Prints an evaluation.
#include "evaluate/evaluate_model.h"
#include "table.h"

namespace kscout::cli {

/// Text, JSON or CSV on stdout.
void print_evaluation(const ModelEvaluation& evaluation, Format format);

}  // namespace kscout::cli
