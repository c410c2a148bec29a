#include "dataset/merged_metadata.h"

#include <algorithm>

namespace kscout {

namespace {

constexpr std::string_view kBetween = "; ";

/// Adds those of `values`, which may be a list, that the list lacks.
void add_to_list(std::string& list, std::string_view values) {
  for (const std::string_view value : split_list(values)) {
    const auto known = split_list(list);
    if (std::ranges::find(known, value) != known.end()) continue;
    list.append(kBetween).append(value);
  }
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
  std::map<std::string, std::string> merged;
  for (const MeasurementTable& table : tables) {
    for (const auto& [key, value] : table.metadata) {
      const auto [list, is_new] = merged.try_emplace(key, value);
      if (!is_new) add_to_list(list->second, value);
    }
  }
  return merged;
}

}  // namespace kscout
