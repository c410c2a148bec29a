#include "core/name_rules.h"

#include <algorithm>

#include "core/fail.h"
#include "core/printable.h"

namespace kscout {

namespace {
constexpr std::size_t kMaxName = 100, kMaxText = 200;
}

bool is_name(std::string_view text) noexcept {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && text.size() <= kMaxName && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || c == '.' || c == '+' || c == '-'; });
}

void check_name(std::string_view what, std::string_view name) {
  if (is_name(name)) return;
  fail(Errc::invalid_argument,
       "{} '{}': a name has letters, digits and . _ + -, begins with a letter or digit, and has at most {} "
       "characters",
       what, printable_line(name), kMaxName);
}

void check_text(std::string_view what, std::string_view text) {
  if (text.size() <= kMaxText && printable_line(text) == text) return;
  fail(Errc::invalid_argument, "{} '{}': a text without control characters, of at most {} bytes", what,
       printable_line(text), kMaxText);
}

void check_names(const Device& device) {
  check_name("device", device.name);
  for (const std::string_view word : {std::string_view(device.arch), std::string_view(device.isa)}) {
    if (!word.empty()) check_name("architecture", word);
  }
  check_text("vendor", device.vendor);
  check_text("model", device.model);
}

Device device_from_json(const Json& json, std::string_view what) {
  Device device = record_from_json<Device>(json, what);
  try {
    check_names(device);
  } catch (const Error& error) {
    fail(Errc::corrupt_data, "{}: {}", what, error.what());
  }
  return device;
}

}  // namespace kscout
