/// \file
/// Fuzzes journals with any bytes: they parse or are rejected with an error. A parsed journal stays the same
/// when its torn tail is cut.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <kscout/error.h>

#include "sweep/journal_file.h"

namespace {

kscout::JournalContents parse(std::string_view bytes) {
  return kscout::parse_journal(bytes, "fuzz", "0123456789abcdef", {10, 100, kscout::CacheState::warm},
                               "boot-2");
}

/// Random bytes never have a right checksum: every line is given one, so that the payloads are what is
/// tested.
std::string with_checksums(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out += kscout::journal_line(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view raw{reinterpret_cast<const char*>(data), size};
  for (const std::string& bytes : {std::string(raw), with_checksums(raw)}) {
    try {
      const auto contents = parse(bytes);
      if (parse(std::string_view(bytes).substr(0, contents.good_bytes)).rows.size() != contents.rows.size()) {
        std::fprintf(stderr, "cutting the torn tail changed the rows\n");
        std::abort();
      }
    } catch (const kscout::Error&) {
    }
  }
  return 0;
}
