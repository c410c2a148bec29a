#pragma once
/// \file
/// Shows the progress of long work on stderr. A terminal shows one line that is overwritten, at most ten
/// times a second; anything else gets a plain line every ten seconds.
///
///     ProgressLine line("train");
///     train(..., [&line](const std::string& text) { line(text); });
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace kscout::cli {

class ProgressLine {
 public:
  /// Each plain line begins with `verb`.
  explicit ProgressLine(std::string_view verb);
  /// Erases the line on a terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether the next text would be shown. Frequent callers check this before they format a text.
  bool due() const;
  /// Shows the text if it is due. `share` of the work done, from 0 to 1, adds a bar on a terminal.
  void operator()(const std::string& text, double share = std::numeric_limits<double>::quiet_NaN());

 private:
  std::string_view verb_;
  bool terminal_, drawn_ = false;
  std::int64_t next_ns_;
};

}  // namespace kscout::cli
