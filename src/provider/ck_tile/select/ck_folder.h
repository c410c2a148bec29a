#pragma once
/// \file
/// Finds out how a folder of CK Tile's trainer computed its features: schema, encoding and device.
///
///     const LightgbmFolder folder = read_lightgbm_folder(path);
///     const Schema& schema = ck_schema(folder, path.string());     // the published schema of exactly these names
///     check_ck_encoding(folder, schema, path.string());            // feature_engine, feature_encoding_version
///     const Device device = ck_device(folder, path.string());      // with the constants of `hardware`
#include <string>

#include <kscout/device.h>

#include "features/schema.h"
#include "lightgbm/lightgbm.h"

namespace kscout {

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
