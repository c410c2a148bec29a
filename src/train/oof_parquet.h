#pragma once
/// \file
/// Out-of-fold predictions as Parquet: one row per (problem, config) of the training set.
#include <filesystem>

#include "train/train.h"

namespace kscout {

/// Columns: the problem's fields, config (the kernel's name), fold, time_us, tflops, raced,
/// oof_pred_<target>... (as LightGBM puts it out, before calibration). Throws device_failure.
void write_oof_parquet(const std::filesystem::path& file, const TrainingResult& result);

}  // namespace kscout
