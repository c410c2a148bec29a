#include "core/hash.h"

#include <zlib.h>

namespace kscout {

std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before) noexcept {
  if (bytes.empty()) return before;  // zlib takes a null pointer for the start of a new sum
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<std::uint32_t>(crc32_z(before, data, bytes.size()));
}

}  // namespace kscout
