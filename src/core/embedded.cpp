#include "core/embedded.h"

#include <span>

#include "core/fail.h"
#include "core/names.h"

namespace kscout {

// Defined by the generated file of cmake/KscoutEmbed.cmake.
extern const EmbeddedFile kEmbeddedFiles[];
extern const std::size_t kEmbeddedFiles_count;

namespace {
std::span<const EmbeddedFile> files() { return {kEmbeddedFiles, kEmbeddedFiles_count}; }
}  // namespace

std::string_view embedded_file(std::string_view name) {
  for (const auto& file : files()) {
    if (file.name == name) return file.bytes;
  }
  throw Error(Errc::not_found, unknown_name_message("embedded file", name, embedded_file_names("")));
}

std::vector<std::string_view> embedded_file_names(std::string_view prefix) {
  std::vector<std::string_view> names;
  for (const auto& file : files()) {
    if (file.name.starts_with(prefix)) names.push_back(file.name);
  }
  return names;
}

}  // namespace kscout
