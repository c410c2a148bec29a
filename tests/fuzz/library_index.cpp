/// \file
/// Indexes of kernel libraries from any text: each is read, or refused.
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
