#pragma once
/// \file
/// Going on from a model that was trained before: its trees stay, more are added.
///
///     const WarmStart earlier = read_warm_start("models/mine", schema, signature, device);
///     if (const LightgbmTarget* from = earlier.find(Target::tflops)) ...
///
/// Reads our models from their .ksf file and the folders of CK Tile's trainer from their LightGBM text.
#include <filesystem>
#include <string>
#include <vector>

#include <kscout/device.h>

#include "features/schema.h"
#include "forest/lightgbm.h"
#include "select/model.h"

namespace kscout {

struct WarmStart {
  std::filesystem::path folder;
  LightgbmFolder models;

  /// The earlier model of a target; null when there is none, and the target starts from nothing.
  const LightgbmTarget* find(Target target) const noexcept;
  int trees(Target target) const noexcept;
};

/// `folder`: a model folder of ours, its .ksf file, or a folder of CK Tile's trainer.
/// Throws invalid_argument, naming what differs, unless the folder's features are those of `schema` in its
/// order, with the same categorical ones, and the operation, element type and architecture that it names are
/// those of the data; also when a target was learnt on another scale. not_found, corrupt_data as Model::load
/// and read_lightgbm_folder.
WarmStart read_warm_start(const std::filesystem::path& folder, const Schema& schema,
                          const Signature& signature, const Device& device);

}  // namespace kscout
