#pragma once
/// \file
/// Writes the matrix that a training reads as Parquet, for experiments with other learners.
///
///     const TrainingSet set = make_training_set(tables, families, schema);
///     write_training_matrix("features.parquet", set, schema, {.folds = 5});
#include <cstdint>
#include <filesystem>

#include "train/training_set.h"

namespace kscout {

struct MatrixFolds {
  std::uint32_t folds = 5;
  SplitBy by = SplitBy::sizes;
};

/// One row per usable (problem, config), grouped by problem. Columns: `problem` and `config` as texts, `fold`
/// of a cross-validation that keeps groups together, `time_us`, `tflops`, `raced` (pruned early), `calls`
/// (the problem's weight), `row_weight` (of the training), one `label_TARGET` for each target, then every
/// feature by its name. Throws invalid_argument for a feature with the name of another column, and what
/// group_k_fold() throws.
void write_training_matrix(const std::filesystem::path& file, const TrainingSet& set, const Schema& schema,
                           const MatrixFolds& folds);

}  // namespace kscout
