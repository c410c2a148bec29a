#include "dataset/listed_values.h"

#include <algorithm>

namespace kscout {

namespace {

constexpr std::string_view kBetween = "; ";

}  // namespace

std::vector<std::string_view> listed_values(std::string_view list) {
  std::vector<std::string_view> values;
  for (;;) {
    const std::size_t end = list.find(kBetween);
    values.push_back(list.substr(0, end));
    if (end == std::string_view::npos) return values;
    list.remove_prefix(end + kBetween.size());
  }
}

void list_values(std::string& list, std::string_view values) {
  for (const std::string_view value : listed_values(values)) {
    const auto known = listed_values(list);
    if (std::ranges::find(known, value) != known.end()) continue;
    list.append(kBetween).append(value);
  }
}

}  // namespace kscout
