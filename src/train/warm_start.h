#pragma once
/// \file
/// Reads a trained model so that training continues from it: its trees are kept, more are added.
///
///     const WarmStart earlier = read_warm_start("models/mine", schema, signature, device);
///     if (const LightgbmTarget* from = earlier.find(Target::tflops)) ...
///
/// Reads KernelScout's models from their .ksf file, and models of CK Tile's trainer from their LightGBM text.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <kscout/device.h>

#include "features/schema.h"
#include "lightgbm/lightgbm.h"
#include "select/model.h"

namespace kscout {

struct WarmStart {
  std::filesystem::path folder;
  LightgbmFolder models;
  /// The earlier model is for any CPU: its trees saw no problem of this device, so cross-validation may
  /// choose how many trees are added.
  bool any_cpu = false;

  /// The earlier model of a target; null when there is none: the target then starts from nothing.
  const LightgbmTarget* find(Target target) const noexcept;
  int trees(Target target) const noexcept;
};

/// `folder`: a model folder of KernelScout, its .ksf file, or a folder of CK Tile's trainer. The model must
/// match the data: the features and categorical features of `schema` in its order, and the op, element type
/// and architecture of the data. Throws invalid_argument, naming the difference, when they do not match or
/// when one of `targets` was trained on another scale or in another unit; also the errors not_found and
/// corrupt_data of Model::load and read_lightgbm_folder.
WarmStart read_warm_start(const std::filesystem::path& folder, const Schema& schema,
                          const Signature& signature, const Device& device, std::span<const Target> targets);

}  // namespace kscout
