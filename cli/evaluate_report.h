#pragma once
/// \file
/// Prints an evaluation, and names the measurements that `tune` keeps for one.
#include <optional>
#include <string_view>

#include "evaluate/evaluate_model.h"
#include "table.h"

namespace kscout::cli {

/// The dataset that `tune` writes into a model's folder and `evaluate` reads when none is named.
inline constexpr std::string_view kKeptMeasurements = "measurements.parquet";

/// Text, JSON or CSV on stdout. `worst`: how many of the worst problems text and JSON show.
void print_evaluation(const ModelEvaluation& evaluation, Format format,
                      std::optional<std::size_t> worst = std::nullopt);

}  // namespace kscout::cli
