/// \file
/// Fuzzes schemas with any text, as a damaged model file may hold them: what parses writes a text that parses
/// to the same.
#include "features/schema.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <kscout/error.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto schema = kscout::Schema::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (kscout::Schema::parse(schema.text(), "text") == schema) return 0;
  } catch (const kscout::Error& error) {
    if (std::string_view(error.what()).starts_with("fuzz")) return 0;
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fprintf(stderr, "a schema does not read back from its own text\n");
  std::abort();
}
