#pragma once
/// \file
/// Lists the readers of the formats that read_call_log() knows, one source file each.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "logs/call_log.h"
#include "op/skipped_lines.h"

namespace kscout {

/// Thrown by readers: why a call is no problem of this program ("of type R_4F_E2M1").
struct NotRead {
  std::string reason;
};

/// Reads one format line by line.
class LineReader {
 public:
  LineReader() = default;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  virtual ~LineReader() = default;
  virtual std::string_view format() const = 0;
  /// Takes a line of its format, and adds the call that it tells of; false for other lines. Throws
  /// NotRead, also for a line that may have lost its end, and Error when the call's sizes are no problem.
  virtual bool take(const LogLine& line, CallLog& log) = 0;
  /// Adds a call whose lines end with the text. Throws as take() does.
  virtual void finish(CallLog& /*log*/) {}

 protected:
  /// Throws NotRead for a line that may have lost its end; `is_whole`: it shows its format's last field.
  static void require_end(bool is_whole) {
    if (!is_whole) throw NotRead{std::string(kCutShort)};
  }
};

/// "kscout: PROBLEM -> CONFIG (...)": one line for each decision that was not cached.
std::unique_ptr<LineReader> kscout_log_reader();
/// Lines of CUBLASLT_LOG_LEVEL and HIPBLASLT_LOG_LEVEL, of which "[Trace]" lines tell of products.
std::unique_ptr<LineReader> cublaslt_log_reader();
/// Blocks of lines of CUDNN_LOGLEVEL_DBG and CUDNN_LOGINFO_DBG: convolutions of cudnnBackendExecute and of
/// the older functions.
std::unique_ptr<LineReader> cudnn_log_reader();
/// "onednn_verbose,...,exec,...": primitives matmul and convolution.
std::unique_ptr<LineReader> onednn_log_reader();
/// Command lines of MIOpenDriver (MIOPEN_ENABLE_LOGGING_CMD).
std::unique_ptr<LineReader> miopen_log_reader();
/// Command lines of hipblaslt-bench and rocblas-bench, as both libraries log them.
std::unique_ptr<LineReader> rocm_bench_log_reader();
/// Lines of PyTorch's TunableOp, untuned or tuned.
std::unique_ptr<LineReader> tunableop_log_reader();

inline constexpr std::string_view kProfilerFormat = "a trace of PyTorch's profiler";
/// Whether a text begins as JSON and not as a line of a log.
bool looks_like_json(std::string_view text) noexcept;
/// Reads Chrome's trace events, which PyTorch's profiler writes with record_shapes=True. In a damaged or cut
/// trace, the events that can be read count, and the others are left out. Throws corrupt_data for JSON
/// without events.
void read_profiler_trace(std::string_view text, std::string_view source, CallLog& log);

}  // namespace kscout
