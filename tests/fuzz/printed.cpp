/// \file
/// Fuzzes what is printed of texts from elsewhere: no control character, no bytes but UTF-8, the same text
/// when it comes in parts, and bounded messages.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/json_fields.h"
#include "core/printable.h"

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

bool is_harmless(const std::string& text, bool single_line) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && (single_line || (byte != '\n' && byte != '\t'))) || byte == 0x7f) return false;
    if (byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) return false;  // C1
    if (text.compare(i, 2, "\xe2\x80") == 0 && static_cast<unsigned char>(text[i + 2]) >= 0xa8 &&
        static_cast<unsigned char>(text[i + 2]) <= 0xae)
      return false;  // bidirectional overrides
  }
  (void)kscout::Json(text).dump();  // throws where it is no UTF-8
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kscout;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string printed = printable(text), line = printable_line(text);
  expect(is_harmless(printed, false), "printable() is harmless");
  expect(is_harmless(line, true), "printable_line() is harmless");
  expect(printable(printed) == printed, "printed text stays as it is");

  // As a stream prints it: in parts that end anywhere.
  std::string in_parts, begun;
  for (std::size_t at = 0; at < size;) {
    const std::size_t bytes = 1 + data[at] % 7;
    std::string part = begun + text.substr(at, bytes);
    begun = part.substr(part.size() - cut_character_bytes(part));
    in_parts += printable(part.substr(0, part.size() - begun.size()));
    at += bytes;
  }
  expect(in_parts + printable(begun) == printed, "parts give the whole");

  const std::string message = shortened(text);
  expect(message.size() <= 4003, "messages are bounded");
  if (printed == text) expect(printable(message) == message, "no character is cut");
  return 0;
}
