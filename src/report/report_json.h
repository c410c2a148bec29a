#pragma once
/// \file
/// Writes the JSON of a report and the numbers in its sentences. Include it in .cpp files only.
#include <string>

#include "core/json_fields.h"

namespace kscout {

/// Bytes that are not UTF-8, as a file's name may have, become a replacement character.
inline std::string report_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// 1234567 as "1,234,567".
inline std::string with_commas(std::size_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

/// "1 problem", "2,000 problems".
inline std::string counted(std::size_t count, const std::string& noun) {
  return with_commas(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace kscout
