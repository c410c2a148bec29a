#pragma once
/// \file
/// Reads which problems an application computed, and how often, from its logs (docs/your_shapes.md).
///
///     const CallLog log = read_call_log_file("trace.json.gz");
///     log.problems;       // each problem once; its weight is the number of calls
///     log.summary();      // "a trace of PyTorch's profiler: 40 calls of 3 problems"
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <kscout/any_problem.h>

#include "op/skipped_lines.h"

namespace kscout {

/// Collects calls in the order of their problems' first appearance.
class CallLog {
 public:
  /// Adds to the calls of a problem, whose own weight does not count.
  void add(Problem problem, double calls = 1);
  /// Counts a call that is no problem of this program. `line` 0: no line shows it.
  void leave_out(std::string reason, std::size_t line, std::string example = {});
  /// Notes that a format was recognised.
  void found(std::string_view format);

  std::vector<Problem> problems;
  std::vector<std::string_view> formats;  ///< names of what was recognised, in order of appearance
  std::size_t unknown = 0;                ///< lines with content of no known format
  std::vector<SkippedLines> left_out;

  double calls() const;
  /// One line for people.
  std::string summary() const;

 private:
  std::unordered_map<Problem, std::size_t> places_;
};

/// Recognises the format by the content: the record of `kscout exec`, a trace of PyTorch's profiler, or lines
/// of KSCOUT_LOG, cuBLASLt, hipBLASLt, rocBLAS, cuDNN, oneDNN, MIOpen and PyTorch's TunableOp, also several
/// of them in one text. Throws corrupt_data that names the formats when nothing is recognised, when no call
/// is a problem of this program, and for damaged records. `source` names the text in errors.
CallLog read_call_log(std::string_view text, std::string_view source);
/// The same of a file, also of gzip. Of a cut gzip file, the calls that can be read count, and one is left
/// out.
CallLog read_call_log_file(const std::filesystem::path& file);

}  // namespace kscout
