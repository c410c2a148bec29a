#pragma once
/// \file
/// Metadata of merged tables: what the tables said under a key, each value once, as one text.
///
///     std::string rules = "default";
///     list_values(rules, "full");   // "default; full"
///     listed_values(rules);         // {"default", "full"}
///
/// An empty value is one: a sweep without a filter measured more than its neighbours in the list.
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

std::vector<std::string_view> listed_values(std::string_view list);

/// Adds those of `values`, which may be a list, that the list lacks.
void list_values(std::string& list, std::string_view values);

}  // namespace kscout
