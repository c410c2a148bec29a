/// \file
/// Fuzzes device presets with any text: the result is a list of devices or an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <kscout/error.h>

#include "core/device_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    kscout::parse_device_presets({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const kscout::Error&) {
  }
  return 0;
}
