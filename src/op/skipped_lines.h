#pragma once
/// \file
/// Counts what a reader of foreign files leaves out, by reason.
///
///     std::vector<SkippedLines> left_out;
///     for_each_log_line(text, [&](const LogLine& line) {
///       if (!line.ended) count_skipped(left_out, {.reason = std::string(kCutShort), .line = line.number});
///     });
///     count_skipped(left_out, {.reason = "with a wildcard", .line = 7});
///     skipped_lines_text(left_out);        // "1 with a wildcard (line 7)"
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/split.h"

namespace kscout {

/// Lines or problems that were left out for one reason.
struct SkippedLines {
  std::string reason;
  std::size_t count = 1;
  std::size_t line = 0;      ///< number of the first such line; 0: a problem, which no line shows
  std::string example = {};  ///< what is wrong with that line, if `reason` does not say it
};

/// Reason of a line that lost its end while it was written: what it has left may read as another problem.
inline constexpr std::string_view kCutShort = "of lines that are cut short";

/// A line with content.
struct LogLine {
  std::string_view text;   ///< without the line end
  std::size_t number = 0;  ///< in its file, from 1
  bool ended = true;       ///< a line end follows it
};

/// Calls use(LogLine) for each line with content.
template <class F>
void for_each_log_line(std::string_view text, const F& use) {
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    const bool ended = line.data() + line.size() != text.data() + text.size();
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!trimmed(line).empty()) use(LogLine{line, number, ended});
  }
}

/// Adds one to the entry of the reason, or appends `one`.
void count_skipped(std::vector<SkippedLines>& left_out, SkippedLines one);

/// "1 repeated; 2 without --fil_h (-y) (first: line 7)"; "none" when nothing was left out.
std::string skipped_lines_text(std::span<const SkippedLines> left_out);

}  // namespace kscout
