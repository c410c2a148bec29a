#include "provider/kernel_list.h"

#include <algorithm>
#include <array>

#include "core/csv.h"
#include "core/fail.h"
#include "core/json_fields.h"
#include "core/split.h"

namespace kscout {
namespace {

/// The columns of tables, and the members of a kernel in JSON, that hold its name.
constexpr std::array<std::string_view, 5> kNameColumns = {"kernel", "kernel_name", "config", "name",
                                                          "selected_kernel"};

std::string name_in(const Json& kernel) {
  if (kernel.is_string()) return kernel.get<std::string>();
  for (const char* const member : {"name", "kernel_name"}) {
    if (kernel.is_object() && kernel.contains(member) && kernel[member].is_string())
      return kernel[member].get<std::string>();
  }
  return {};
}

std::vector<ListedKernel> names_in_json(std::string_view text, const std::string& source) {
  const auto json = Json::parse(text, nullptr, false);
  std::vector<ListedKernel> names;
  const bool has_list = !json.is_discarded() && json.contains("kernels") && json["kernels"].is_array();
  bool all_named = has_list;
  if (has_list) {
    for (const Json& kernel : json["kernels"]) {
      names.push_back({name_in(kernel), names.size() + 1});
      all_named = all_named && !names.back().name.empty();
    }
  }
  if (!all_named) {
    fail(Errc::corrupt_data,
         "{}: is no JSON with a list 'kernels' of objects with a 'name'; kscout kernels --export-json writes "
         "one",
         source);
  }
  return names;
}

std::vector<ListedKernel> names_in_csv(std::string_view text, const std::string& source) {
  const CsvSheet sheet = read_csv(text, source);
  const auto at = std::ranges::find_if(sheet.names, is_kernel_column);
  if (at == sheet.names.end()) {
    fail(Errc::corrupt_data, "{}: the table has no column of kernel names ({})", source,
         fmt::join(kNameColumns, ", "));
  }
  const auto column = static_cast<std::size_t>(at - sheet.names.begin());
  std::vector<ListedKernel> names;
  for (std::size_t row = 0; row < sheet.rows.size(); ++row)
    names.push_back({sheet.rows[row][column], row + 1});
  return names;
}

}  // namespace

bool is_kernel_column(std::string_view column) noexcept {
  return std::ranges::find(kNameColumns, column) != kNameColumns.end();
}

std::vector<ListedKernel> listed_kernels(std::string_view text, const std::string& source) {
  if (text.starts_with('{')) return names_in_json(text, source);
  const std::string_view first = trimmed(text.substr(0, text.find('\n')));
  if (!first.starts_with('#') && (first.find(',') != first.npos || is_kernel_column(first)))
    return names_in_csv(text, source);
  std::vector<ListedKernel> names;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::string_view name = trimmed(line.substr(0, line.find('|')));
    if (!name.empty() && !name.starts_with('#')) names.push_back({std::string(name), number});
  }
  return names;
}

}  // namespace kscout
