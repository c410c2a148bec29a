#pragma once
/// \file
/// Reads device presets: one TOML table per device, one key per field of Device.
///
///     constexpr std::string_view kFile = "families/devices.toml";
///     const auto presets = parse_device_presets(embedded_file(kFile), kFile);
#include <string_view>
#include <vector>

#include <kscout/device.h>

namespace kscout {

/// Presets in the order of their names. Throws corrupt_data with file and line: no TOML, a fact that Device
/// does not have (names the nearest), a value of the wrong type or below zero, `kind` missing.
std::vector<Device> parse_device_presets(std::string_view toml, std::string_view file);

}  // namespace kscout
