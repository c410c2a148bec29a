/// \file
/// Fuzzes TOML with any text: each is read, or rejected as corrupt data, and no table is nested so deep that
/// its reader or its destructor runs out of stack.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <kscout/error.h>

#include "core/toml_reader.h"

namespace {

/// Lists and inline tables may be nested 256 times, each with a key of 16 parts.
constexpr std::size_t kMaxDepth = 257 * 17;

std::size_t depth_of(const toml::node& node) {
  std::size_t deepest = 0;
  if (const auto* const table = node.as_table()) {
    for (const auto& [key, value] : *table) deepest = std::max(deepest, depth_of(value));
  } else if (const auto* const array = node.as_array()) {
    for (const toml::node& value : *array) deepest = std::max(deepest, depth_of(value));
  }
  return deepest + 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const toml::table table = kscout::parse_toml({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
    if (depth_of(table) > kMaxDepth) std::abort();
  } catch (const kscout::Error& error) {
    if (error.code() != kscout::Errc::corrupt_data) throw;
  }
  return 0;
}
