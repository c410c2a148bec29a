#pragma once
/// \file
/// JSON for people who read files and their differences: a member a line, but a list of numbers or words in
/// one.
///
///     write_file_atomically(path, readable_json(manifest));     // "sizes": [\n  [1,2,3],\n  [4,5,6]\n ]
#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

namespace kscout {

/// Appends `json`; what its members begin on lines of their own is indented by `level` blanks and one more.
/// Bytes that are no UTF-8 are replaced.
template <class Json>
void append_readable_json(const Json& json, std::size_t level, std::string& to) {
  const auto is_structured = [](const Json& member) { return member.is_structured(); };
  const auto text_of = [](const Json& part) {
    return part.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const bool one_line = !json.is_structured() || json.empty() ||
                        (json.is_array() && std::none_of(json.begin(), json.end(), is_structured));
  if (one_line) {
    to += text_of(json);
    return;
  }
  const std::string line = "\n" + std::string(level, ' ');
  const char* before = "";
  to += json.is_array() ? '[' : '{';
  for (const auto& [name, member] : json.items()) {
    to += before + line + ' ';
    before = ",";
    if (json.is_object()) to += text_of(Json(name)) + ": ";
    append_readable_json(member, level + 1, to);
  }
  to += line + (json.is_array() ? ']' : '}');
}

/// The text of a file: ends with a line's end.
template <class Json>
std::string readable_json(const Json& json) {
  std::string text;
  append_readable_json(json, 0, text);
  return text + '\n';
}

}  // namespace kscout
