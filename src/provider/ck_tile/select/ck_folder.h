#pragma once
/// \file
/// Reads a folder of CK Tile's trainer, and finds out how it computed its features: schema, encoding and
/// device.
///
///     const CkFolder read = read_ck_folder("models/grouped_conv_forward_bf16_gfx950");
///     read.schema.evaluate(problem, read.device, configs, traits, matrix);     // rows of its models
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <kscout/device.h>

#include "features/schema.h"
#include "lightgbm/lightgbm.h"

namespace kscout {

/// A class of CK Tile's trainer that computes features.
struct CkEngine {
  std::string_view name;
  int encoding_version = 0;
};

/// The engine whose features a published schema (ck_*) computes.
const CkEngine& ck_engine(const Schema& schema);

/// A folder with the features of its models, in their order, and the device that they were computed for.
struct CkFolder {
  LightgbmFolder folder;
  Schema schema;
  Device device;
};

/// `schema` names the schema that has the folder's features, or a file with one (empty: the published one of
/// exactly these names); `device` replaces ck_device(). Throws the errors of read_lightgbm_folder(),
/// ck_schema(), check_ck_encoding() and ck_device(), and invalid_argument for features that `schema` lacks.
CkFolder read_ck_folder(const std::filesystem::path& path, std::string_view schema = {},
                        const std::optional<Device>& device = {});

/// The published schema (ck_*) that has the folder's feature names and no other, in any order. Throws
/// invalid_argument with the nearest schema and the names that differ.
const Schema& ck_schema(const LightgbmFolder& folder, const std::string& path);

/// Throws unsupported when the folder names a feature engine or an encoding version that `schema` does not
/// compute: equal names would then hide other values. Folders that name neither are of version 0.
void check_ck_encoding(const LightgbmFolder& folder, const Schema& schema, const std::string& path);

/// The device that the folder's features were computed for: the preset of its `arch`, with the constants of
/// its `hardware`. A folder without `hardware` counts 65,536 bytes of LDS, as all published trainings did.
/// Folders of KernelScout's trainer get the preset. Throws invalid_argument when the folder names no arch.
Device ck_device(const LightgbmFolder& folder, const std::string& path);

}  // namespace kscout
