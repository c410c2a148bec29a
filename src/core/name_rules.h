#pragma once
/// \file
/// States the grammar of names that files and command lines give: of devices, libraries, rule sets.
///
///     check_name("--name", "../x");   // throws: a name has letters, digits and . _ + -, ...
///     const Device device = device_from_json(json, "model.ksf: device");
#include <string_view>

#include <kscout/device.h>

#include "core/json_fields.h"

namespace kscout {

/// A name stands in file names, sources and scripts: letters, digits and . _ + - behind a first letter, digit
/// or _, at most 100 of them.
bool is_name(std::string_view text) noexcept;
/// Throws invalid_argument unless is_name(); `what` says whose name it is.
void check_name(std::string_view what, std::string_view name);
/// Throws invalid_argument for a text with control characters or other bytes than UTF-8, or of more than 200
/// bytes.
void check_text(std::string_view what, std::string_view text);

/// Checks the name and the other texts of a device. Throws invalid_argument.
void check_names(const Device& device);

/// record_from_json with check_names(). Throws corrupt_data.
Device device_from_json(const Json& json, std::string_view what);

}  // namespace kscout
