/// \file
/// Fuzzes indexes of kernel libraries with any text: each is read, or rejected.
#include "backend/library/library_index.h"

#include <cstddef>
#include <cstdint>

#include <kscout/error.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    kscout::parse_library_index({reinterpret_cast<const char*>(data), size}, "fuzz/index.json");
  } catch (const kscout::Error&) {
  }
  return 0;
}
