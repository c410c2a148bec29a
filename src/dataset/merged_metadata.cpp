#include "dataset/merged_metadata.h"

#include <algorithm>

#include <fmt/format.h>

namespace kscout {

namespace {

constexpr std::string_view kBetween = "; ";

/// Adds those of `values` that the list lacks.
void add_to_list(std::vector<std::string_view>& list, std::span<const std::string_view> values) {
  for (const std::string_view value : values) {
    if (std::ranges::find(list, value) == list.end()) list.push_back(value);
  }
}

/// The values of a table under a key. One that names no filter was measured without.
std::vector<std::string_view> values_of(const MeasurementTable& table, const std::string& key) {
  const auto found = table.metadata.find(key);
  if (found != table.metadata.end()) return split_list(found->second);
  if (key == "filter") return {""};
  return {};
}

}  // namespace

std::vector<std::string_view> split_list(std::string_view list) {
  std::vector<std::string_view> values;
  for (;;) {
    const std::size_t end = list.find(kBetween);
    values.push_back(list.substr(0, end));
    if (end == std::string_view::npos) return values;
    list.remove_prefix(end + kBetween.size());
  }
}

std::map<std::string, std::string> merge_metadata(std::span<const MeasurementTable> tables) {
  std::map<std::string, std::vector<std::string_view>> lists;
  for (const MeasurementTable& table : tables) {
    for (const auto& [key, value] : table.metadata) lists[key];
  }
  std::map<std::string, std::string> merged;
  for (auto& [key, list] : lists) {
    for (const MeasurementTable& table : tables) add_to_list(list, values_of(table, key));
    merged[key] = fmt::format("{}", fmt::join(list, kBetween));
  }
  return merged;
}

}  // namespace kscout
