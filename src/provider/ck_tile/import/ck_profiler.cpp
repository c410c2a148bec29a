/// \file
/// Reads logs of ckProfiler: lines `Perf: <ms> ms, [<x> TFlops, <y> GB/s,] <kernel>` below problem texts.
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/numbers.h"
#include "import/import.h"
#include "op/given_fields.h"
#include "op/lines.h"

namespace kscout {
namespace {

/// A kernel as a log names it: `<name>[, SplitK <n>][ (instance <n>)]`.
struct LoggedKernel {
  std::string name;    ///< with the split-K slices as a suffix
  std::string reason;  ///< why the text names no kernel; empty when it does
};

/// Removes ` (instance <n>)`, which counts the kernels of a run.
std::string_view without_instance(std::string_view text) {
  const std::size_t at = text.rfind(" (instance ");
  return text.ends_with(')') && at != std::string_view::npos ? text.substr(0, at) : text;
}

LoggedKernel logged_kernel(std::string_view text) {
  text = without_instance(trimmed(text));
  // Template names contain commas. No kernel name here does, so such a text is one unreadable name.
  const std::size_t comma =
      text.find('<') == std::string_view::npos ? text.find(',') : std::string_view::npos;
  LoggedKernel kernel{std::string(trimmed(text.substr(0, comma))), {}};
  if (kernel.name.empty()) kernel.reason = "no kernel behind the time";
  if (comma == std::string_view::npos) return kernel;
  const std::string_view more = trimmed(text.substr(comma + 1));
  for (const std::string_view word : {"SplitK ", "KBatch "}) {
    if (!more.starts_with(word)) continue;
    const std::string_view digits = trimmed(more.substr(word.size()));
    const auto slices = number_in<int>(digits);
    if (!slices || *slices < 1) continue;
    if (*slices > 1) kernel.name += fmt::format("_splitk{}", *slices);
    return kernel;
  }
  kernel.reason = fmt::format("'{}' after the kernel's name is not 'SplitK <number>'", more);
  return kernel;
}

/// Reads a log line by line. A measurement is added when the next one begins, because the lines between them
/// say whether its result was wrong.
class ProfilerLog {
 public:
  ProfilerLog(const ImportRequest& request, ImportTable& to) : to_(to), problem_(request.problem) {}

  void line(std::string_view whole, std::size_t number) {
    const std::string_view text = trimmed(whole);
    if (line_op(text)) return problem(text, number);
    if (const std::size_t at = text.find("Perf:"); at != std::string_view::npos)
      return time(trimmed(text.substr(at + 5)), number);
    for (const std::string_view word : kFailed) {
      if (text.starts_with(word)) return failed(text.substr(word.size()), number);
    }
    if (text.ends_with(kUnsupported))
      return failed(text.substr(0, text.size() - kUnsupported.size()), number);
    for (const std::string_view word : kWrong) {
      if (pending_ && text.starts_with(word)) pending_->valid = false;
    }
  }

  /// Adds the measurement that no further line can change.
  void flush() {
    if (!pending_) return;
    pending_->kernel = name_;
    to_.add(*pending_);
    pending_.reset();
  }

 private:
  /// Lines of kernels without a time.
  static constexpr std::array<std::string_view, 3> kFailed = {"[Not supported] ", "[Exception] ", "[Error] "};
  static constexpr std::string_view kUnsupported = " does not support this problem";
  /// Lines that follow the time of a kernel with wrong results.
  static constexpr std::array<std::string_view, 3> kWrong = {
      "Number of incorrect values:", "Fail info:", "Error: Incorrect results"};

  void problem(std::string_view text, std::size_t number) {
    flush();
    try {
      problem_ = parse_any_problem(text);
    } catch (const Error& error) {
      problem_.reset();
      to_.skip(number, error.what());
    }
  }

  void time(std::string_view text, std::size_t number) {
    flush();
    double ms = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
    std::string_view rest(end, text.data() + text.size());
    if (error != std::errc() || !rest.starts_with(" ms,"))
      return to_.skip(number, "a line that is not 'Perf: <ms> ms, <kernel>'");
    rest.remove_prefix(4);
    for (std::size_t comma = rest.find(','); comma != std::string_view::npos; comma = rest.find(',')) {
      const std::string_view part = trimmed(rest.substr(0, comma));
      if (!part.ends_with(" TFlops") && !part.ends_with(" GB/s")) break;
      rest.remove_prefix(comma + 1);
    }
    keep(rest, {.time_us = 1000 * ms, .valid = ms > 0, .line = number});
  }

  /// `[Exception] <kernel> : <why>` and the like.
  void failed(std::string_view text, std::size_t number) {
    flush();
    if (problem_) keep(text.substr(0, text.find(" : ")), {.valid = false, .line = number});
  }

  void keep(std::string_view kernel_text, ForeignRow row) {
    if (!problem_) return to_.skip(row.line, "no problem line before it: give --problem");
    LoggedKernel kernel = logged_kernel(kernel_text);
    if (!kernel.reason.empty()) return to_.skip(row.line, std::move(kernel.reason));
    name_ = std::move(kernel.name);
    row.problem = *problem_;
    pending_ = row;
  }

  ImportTable& to_;
  std::optional<Problem> problem_;
  std::optional<ForeignRow> pending_;
  std::string name_;  ///< of the pending row's kernel
};

}  // namespace

void read_ck_profiler(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to) {
  ProfilerLog log(request, to);
  each_line(file, [&](const LogLine& line) {
    line.ended ? log.line(line.text, line.number) : to.skip(line.number, kNoLineEnd);
  });
  log.flush();
}

}  // namespace kscout
