#include "progress_line.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "measure/timing.h"
#include "safe_streams.h"

namespace kscout::cli {

namespace {

constexpr std::int64_t kTerminalNs = 100'000'000, kPlainNs = 10'000'000'000;
constexpr int kBarWidth = 24;
constexpr std::string_view kEraseLine = "\r\x1b[K";

std::string bar(double share) {
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  return fmt::format("[{:#<{}}{:.<{}}] ", "", full, "", kBarWidth - full);
}

}  // namespace

ProgressLine::ProgressLine(std::string_view verb)
    : verb_(verb), terminal_(isatty(STDERR_FILENO) != 0), next_ns_(now_ns() + (terminal_ ? 0 : kPlainNs)) {}

ProgressLine::~ProgressLine() {
  if (drawn_) write_control(kEraseLine);
}

bool ProgressLine::due() const { return now_ns() >= next_ns_; }

void ProgressLine::operator()(const std::string& text, double share) {
  if (!due()) return;
  next_ns_ = now_ns() + (terminal_ ? kTerminalNs : kPlainNs);
  if (!terminal_) {
    fmt::print(stderr, "kscout {}: {}\n", verb_, text);
    return;
  }
  write_control(kEraseLine);
  fmt::print(stderr, "{}{}", share == share ? bar(share) : "", text);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace kscout::cli
