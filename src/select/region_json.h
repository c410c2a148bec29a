#pragma once
/// \file
/// Converts what a model knows of its training (Region, Guard, kinds of algorithms) to and from members of
/// the JSON description in a `.ksf` file. Include it in .cpp files only: the JSON header is slow to compile.
#include <optional>
#include <span>
#include <vector>

#include "core/json_fields.h"
#include "select/algorithm_kind.h"
#include "select/region.h"

namespace kscout {

/// Null for none.
Json region_json(const std::optional<Region>& region);
Json guard_json(const std::optional<Guard>& guard);
Json listed_kinds_json(std::span<const AlgorithmKind> kinds);

/// Nothing for null. Throw Json::exception for a member that is missing or of the wrong type, and
/// invalid_argument for numbers that make no sense.
std::optional<Region> region_from_json(const Json& json);
std::optional<Guard> guard_from_json(const Json& json);
std::vector<AlgorithmKind> listed_kinds_from_json(const Json& json);

}  // namespace kscout
