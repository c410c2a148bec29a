#include "op/skipped_lines.h"

#include <algorithm>

#include <fmt/format.h>

namespace kscout {

void count_skipped(std::vector<SkippedLines>& left_out, SkippedLines one) {
  const auto known = std::ranges::find(left_out, one.reason, &SkippedLines::reason);
  if (known == left_out.end()) {
    left_out.push_back(std::move(one));
  } else {
    ++known->count;
  }
}

std::string skipped_lines_text(std::span<const SkippedLines> left_out) {
  std::string text;
  for (const SkippedLines& one : left_out) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", one.count, one.reason);
    if (one.line != 0) text += fmt::format(" ({}line {})", one.count > 1 ? "first: " : "", one.line);
    if (!one.example.empty()) text += ": " + one.example;
  }
  return text.empty() ? "none" : text;
}

}  // namespace kscout
