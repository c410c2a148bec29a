#pragma once
/// \file
/// Counts what a reader of foreign files leaves out, by reason.
///
///     std::vector<SkippedLines> left_out;
///     count_skipped(left_out, {.reason = "with a wildcard", .line = 7});
///     skipped_lines_text(left_out);        // "1 with a wildcard (line 7)"
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kscout {

/// Lines or problems that were left out for one reason.
struct SkippedLines {
  std::string reason;
  std::size_t count = 1;
  std::size_t line = 0;      ///< number of the first such line; 0: a problem, which no line shows
  std::string example = {};  ///< what is wrong with that line, if `reason` does not say it
};

/// Adds one to the entry of the reason, or appends `one`.
void count_skipped(std::vector<SkippedLines>& left_out, SkippedLines one);

/// "1 repeated; 2 without --fil_h (-y) (first: line 7)"; "none" when nothing was left out.
std::string skipped_lines_text(std::span<const SkippedLines> left_out);

}  // namespace kscout
