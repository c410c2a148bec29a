#pragma once
/// \file
/// Converts Confidence to and from a member of the JSON description in a `.ksf` file. Include it in .cpp
/// files only: the JSON header is slow to compile.
#include <optional>

#include "core/json_fields.h"
#include "select/confidence.h"

namespace kscout {

/// null for no confidence.
Json confidence_json(const std::optional<Confidence>& confidence);

/// Returns nothing for null and for inputs that this version does not compute: the model can still choose
/// without confidence. Throws Json::exception for a member that is missing or of the wrong type.
std::optional<Confidence> confidence_from_json(const Json& json);

}  // namespace kscout
