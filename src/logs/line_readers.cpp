// Reads the formats of which a line is a whole call, and which other code knows: KSCOUT_LOG, MIOpen,
// TunableOp.
#include <utility>
#include <variant>

#include "logs/log_formats.h"
#include "op/conv/conv_sets.h"
#include "op/gemm/tunableop.h"

namespace kscout {

namespace {

class KscoutLogReader : public LineReader {
 public:
  std::string_view format() const override { return "KSCOUT_LOG"; }
  bool take(const LogLine& whole, CallLog& log) override {
    constexpr std::string_view kPrefix = "kscout: ", kArrow = " -> ";
    if (!whole.text.starts_with(kPrefix)) return false;
    const std::string_view line = whole.text.substr(kPrefix.size());
    const std::size_t arrow = line.find(kArrow);
    const std::string_view problem = line.substr(0, arrow);
    if (arrow == std::string_view::npos) require_end(whole.ended);
    if (arrow == std::string_view::npos || problem.find(' ') != std::string_view::npos) return true;
    log.add(parse_any_problem(problem));
    return true;
  }
};

class MiopenLogReader : public LineReader {
 public:
  std::string_view format() const override { return "MIOpen's commands"; }
  bool take(const LogLine& line, CallLog& log) override {
    if (line.text.find("MIOpenDriver ") == std::string_view::npos) return false;
    if (line.text.find("LogCmdFind") != std::string_view::npos) {
      log.leave_out("of searches for a kernel (LogCmdFindConvolution)", line.number);
      return true;
    }
    MiopenLine found = read_miopen_line(line);
    for (const ProblemRef problem : found.problems) log.add(problem.value());
    if (found.fault)
      log.leave_out(std::move(found.fault->reason), line.number, std::move(found.fault->example));
    return true;
  }
};

class TunableOpLogReader : public LineReader {
 public:
  std::string_view format() const override { return "TunableOp"; }
  bool take(const LogLine& whole, CallLog& log) override {
    const std::string_view line = whole.text;
    if (line.starts_with("Validator,")) return true;
    const std::string_view op = line.substr(0, line.find(','));
    if (op.size() == line.size() || op.find("TunableOp_") == std::string_view::npos ||
        op.find(' ') != std::string_view::npos)
      return false;
    const auto found = read_tunableop_line(whole);
    if (const auto* const problem = std::get_if<Problem>(&found)) {
      log.add(*problem);
    } else {
      log.leave_out(std::get<std::string>(found), whole.number);
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<LineReader> kscout_log_reader() { return std::make_unique<KscoutLogReader>(); }
std::unique_ptr<LineReader> miopen_log_reader() { return std::make_unique<MiopenLogReader>(); }
std::unique_ptr<LineReader> tunableop_log_reader() { return std::make_unique<TunableOpLogReader>(); }

}  // namespace kscout
