#pragma once
/// \file
/// Confidence as the member of a `.ksf` file's description that holds it. Include in .cpp files only: the
/// JSON header is heavy.
#include <optional>

#include "core/json_fields.h"
#include "select/confidence.h"

namespace kscout {

/// null when there is none.
Json confidence_json(const std::optional<Confidence>& confidence);

/// Nothing for null, and for one of inputs that this version does not compute: a model without it chooses all
/// the same. Throws Json::exception for a member that is missing or of the wrong type.
std::optional<Confidence> confidence_from_json(const Json& json);

}  // namespace kscout
