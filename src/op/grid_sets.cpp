#include "op/grid_sets.h"

#include <algorithm>

#include "core/files.h"
#include "core/toml_reader.h"

namespace kscout {

namespace {

/// The lines without comments; a line that ends with "," is joined with the next one.
std::vector<std::string> grids_of(std::string_view text) {
  std::vector<std::string> grids;
  bool open = false;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::string_view content = line.substr(line.find_first_not_of(' '));
    if (open) {
      grids.back() += content;
    } else {
      grids.emplace_back(content);
    }
    open = content.ends_with(',');
  }
  return grids;
}

}  // namespace

GridSets::GridSets(const std::string& file) {
  const TomlReader reader(file);
  const toml::table table = parse_toml(embedded_file(file), file);
  for (const auto& [name, node] : TomlReader::as_written(table)) {
    const toml::table& set = reader.table_of(*node, name);
    reader.check_keys(set, "key of a set", {"help", "op", "sorted", "grids"});
    sets_.push_back({name, set["help"].value_or(std::string()), set["op"].value_or(std::string()),
                     reader.flag(set, "sorted"), grids_of(reader.required_text(set, "grids", name))});
  }
  for (const Set& set : sets_) {
    if (!set.help.empty()) infos_.push_back({set.name, set.help});
  }
}

bool GridSets::has(std::string_view name) const noexcept {
  return std::ranges::find(infos_, name, &ProblemSetInfo::name) != infos_.end();
}

const GridSets::Set& GridSets::named(std::string_view name) const {
  const auto found = std::ranges::find(sets_, name, &Set::name);
  if (found == sets_.end()) fail(Errc::corrupt_data, "no set '{}'", name);
  return *found;
}

}  // namespace kscout
