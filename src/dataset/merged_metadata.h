#pragma once
/// \file
/// The metadata of several tables together: under each key what the tables say, each value once, as one text.
///
///     merge_metadata(tables).at("rules");   // "default; full"
///     split_list("default; full");          // {"default", "full"}
///
/// An empty value is one: a sweep without a filter measured more than its neighbours in the list. For
/// `filter` a table without the key says the same. Of clocks the least and the largest are kept, of `created`
/// the first and the last time.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/measurement.h>

namespace kscout {

std::vector<std::string_view> split_list(std::string_view list);

/// Values may be lists already: of tables that were merged before.
std::map<std::string, std::string> merge_metadata(std::span<const MeasurementTable> tables);

}  // namespace kscout
