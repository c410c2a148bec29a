#pragma once
/// \file
/// Out-of-fold predictions as Parquet: one row per (problem, config) of the training set.
#include <filesystem>
#include <vector>

#include "problems/conv_sets.h"
#include "train/train.h"

namespace kscout {

/// Columns: the problem's fields, config (the kernel's name), fold, time_us, tflops, raced,
/// oof_pred_<target>... (as LightGBM puts it out, before calibration). Throws device_failure.
void write_oof_parquet(const std::filesystem::path& file, const TrainingResult& result);

/// How well the model chose for each problem while it had not seen its sizes, by the first of its targets:
/// speed of the config that it puts first over that of the fastest. Throws corrupt_data when the file is no
/// such table or of GEMMs.
std::vector<ShapeEfficiency> oof_efficiencies(const std::filesystem::path& file);

}  // namespace kscout
