#include "logs/call_log.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/split.h"
#include "logs/log_formats.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

constexpr std::string_view kRecordFormat = "a record of kscout exec";

/// What a file may be, for errors.
constexpr std::string_view kKnownFormats =
    "a record of kscout exec, a trace of PyTorch's profiler (record_shapes=True), lines of KSCOUT_LOG, "
    "CUBLASLT_LOG_LEVEL=2, HIPBLASLT_LOG_LEVEL=2, CUDNN_LOGLEVEL_DBG=3 (before cuDNN 9 CUDNN_LOGINFO_DBG=1), "
    "ONEDNN_VERBOSE=1, MIOPEN_ENABLE_LOGGING_CMD=1, HIPBLASLT_LOG_MASK=32 and ROCBLAS_LAYER=2, and PyTorch's "
    "lists of TunableOp";

void read_record(std::string_view text, std::string_view source, CallLog& log) {
  log.found(kRecordFormat);
  // A process that ends while it writes cuts the last row.
  std::string_view whole = text;
  for_each_log_line(text, [&](const LogLine& line) {
    if (line.ended || split(line.text, ',').size() == split(kRecordHeader, ',').size()) return;
    log.leave_out(std::string(kCutShort), line.number);
    whole.remove_suffix(line.text.size());
  });
  for (const Problem& problem : parse_any_problems(lines_of_record(std::string(whole), source), source))
    log.add(problem, problem.weight());
}

void read_lines(std::string_view text, CallLog& log) {
  const std::array readers{kscout_log_reader(),   cublaslt_log_reader(), cudnn_log_reader(),
                           onednn_log_reader(),   miopen_log_reader(),   rocm_bench_log_reader(),
                           tunableop_log_reader()};
  LogLine line;
  const auto guarded = [&](const auto& work) {
    try {
      return work();
    } catch (NotRead& why) {
      log.leave_out(std::move(why.reason), line.number);
    } catch (const Error& error) {
      log.leave_out("that are no valid problem", line.number, error.what());
    }
    return true;
  };
  for_each_log_line(text, [&](const LogLine& one) {
    line = one;
    const auto reader = std::ranges::find_if(
        readers, [&](const auto& taker) { return guarded([&] { return taker->take(line, log); }); });
    if (reader == readers.end()) {
      ++log.unknown;
    } else {
      log.found((*reader)->format());
    }
  });
  for (const auto& reader : readers) guarded([&] { return reader->finish(log), true; });
}

}  // namespace

void CallLog::add(Problem problem, double calls) {
  problem.set_weight(calls);
  const auto [place, is_new] = places_.try_emplace(problem, problems.size());
  if (is_new) {
    problems.push_back(std::move(problem));
  } else {
    add_weight(problems[place->second], calls);
  }
}

void CallLog::leave_out(std::string reason, std::size_t line, std::string example) {
  count_skipped(left_out, {std::move(reason), 1, line, std::move(example)});
}

void CallLog::found(std::string_view format) {
  if (std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
}

double CallLog::calls() const {
  double sum = 0;
  for (const Problem& problem : problems) sum += problem.weight();
  return sum;
}

std::string CallLog::summary() const {
  std::string text = fmt::format("{}: {} call{} of {} problem{}", fmt::join(formats, ", "), calls(),
                                 calls() == 1 ? "" : "s", problems.size(), problems.size() == 1 ? "" : "s");
  if (!left_out.empty()) text += "; calls left out: " + skipped_lines_text(left_out);
  if (unknown != 0) text += fmt::format("; {} line{} of other text", unknown, unknown == 1 ? "" : "s");
  return text;
}

CallLog read_call_log(std::string_view text, std::string_view source) {
  text = without_byte_order_mark(text);
  CallLog log;
  if (looks_like_json(text)) {
    read_profiler_trace(text, source, log);
  } else if (trimmed(text.substr(0, text.find('\n'))) == kRecordHeader) {
    read_record(text, source, log);
  } else {
    read_lines(text, log);
  }
  if (log.formats.empty())
    fail(Errc::corrupt_data,
         "{}: none of its {} lines is of a known log; --from-log reads {}; a list of problems is read by "
         "--file",
         source, log.unknown, kKnownFormats);
  if (log.problems.empty())
    fail(Errc::corrupt_data, "{}: {}; no call is a problem of this program", source, log.summary());
  return log;
}

CallLog read_call_log_file(const std::filesystem::path& file) {
  bool cut = false;
  CallLog log = read_call_log(read_maybe_gzip(file, &cut), file.string());
  if (cut) log.leave_out("of a gzip file that is cut short", 0);
  return log;
}

}  // namespace kscout
