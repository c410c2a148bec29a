#include "dataset/merged_metadata.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace kscout {

namespace {

constexpr std::string_view kBetween = "; ", kTo = " to ";

std::vector<std::string_view> split(std::string_view text, std::string_view between) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(between);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + between.size());
  }
}

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

/// The number that the text begins with.
double number_or(std::string_view text, double otherwise) {
  std::from_chars(text.data(), text.data() + text.size(), otherwise);  // stays where there is none
  return otherwise;
}

/// From the first of all times to the last; each value is a time or "first to last".
std::string time_span(std::span<const std::string_view> values) {
  std::vector<std::string_view> times;
  for (const std::string_view value : values) add_to_list(times, split(value, kTo));
  const auto [first, last] = std::ranges::minmax(times);  // ISO 8601 in UTC sorts as text
  return first == last ? std::string(first) : fmt::format("{}{}{}", first, kTo, last);
}

/// What the values say together: a list, except where one value or a span tells as much.
std::string one_text(std::string_view key, std::span<const std::string_view> values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto or_infinity = [](std::string_view text) { return number_or(text, kInfinity); };
  const auto or_less = [](std::string_view text) { return number_or(text, -kInfinity); };
  if (key == "clock_mhz_min") return std::string(std::ranges::min(values, {}, or_infinity));
  if (key == "clock_mhz_max") return std::string(std::ranges::max(values, {}, or_less));
  if (key == "created") return time_span(values);
  return fmt::format("{}", fmt::join(values, kBetween));
}

}  // namespace

std::vector<std::string_view> split_list(std::string_view list) { return split(list, kBetween); }

std::map<std::string, std::string> merge_metadata(std::span<const MeasurementTable> tables) {
  std::map<std::string, std::vector<std::string_view>> lists;
  for (const MeasurementTable& table : tables) {
    for (const auto& [key, value] : table.metadata) lists[key];
  }
  std::map<std::string, std::string> merged;
  for (auto& [key, list] : lists) {
    for (const MeasurementTable& table : tables) add_to_list(list, values_of(table, key));
    merged[key] = one_text(key, list);
  }
  return merged;
}

}  // namespace kscout
