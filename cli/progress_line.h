#pragma once
/// \file
/// What long work is doing, on stderr: lines on a terminal overwrite each other; elsewhere every tenth one is
/// kept.
///
///     ProgressLine line("train");
///     train(..., [&line](const std::string& text) { line(text); });
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace kscout::cli {

class ProgressLine {
 public:
  /// `verb` opens each line.
  explicit ProgressLine(std::string_view verb) : verb_(verb), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void operator()(const std::string& text) {
    if (!terminal_) {
      if (said_++ % kKeptOutOf == 0) fmt::print(stderr, "kscout {}: {}\n", verb_, text);
      return;
    }
    fmt::print(stderr, "\r\x1b[K{}", text);
    std::fflush(stderr);
    drawn_ = true;
  }

 private:
  static constexpr std::size_t kKeptOutOf = 10;
  std::string_view verb_;
  bool terminal_, drawn_ = false;
  std::size_t said_ = 0;
};

}  // namespace kscout::cli
