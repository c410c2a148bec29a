/// \file
/// Fuzzes gzip with any bytes: each is decompressed within the limit, or rejected as corrupt data; and what
/// can be read of cut data is the beginning of the whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <kscout/error.h>

#include "core/files.h"

namespace {

/// False where it is refused.
bool unpack(std::string_view bytes, bool* cut, std::string& text) {
  try {
    text = kscout::gunzip(bytes, "fuzz", cut);
  } catch (const kscout::Error& error) {
    if (error.code() != kscout::Errc::corrupt_data) throw;
    return false;
  }
  if (text.size() > std::max(kscout::kSafeBytes, bytes.size() * kscout::kMaxRatio)) std::abort();
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string whole, begin;
  bool cut = false;
  if (!unpack(bytes, &cut, whole)) return 0;
  if (!cut && (!unpack(bytes, nullptr, begin) || begin != whole)) std::abort();
  if (unpack(bytes.substr(0, size / 2), &cut, begin) && !whole.starts_with(begin)) std::abort();
  return 0;
}
