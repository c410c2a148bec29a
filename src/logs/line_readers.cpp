// Reads the formats of which a line is a whole call, and which other code knows: KSCOUT_LOG, MIOpen,
// TunableOp.
#include <utility>
#include <variant>

#include "core/fail.h"
#include "logs/log_formats.h"
#include "op/conv/conv_sets.h"
#include "op/gemm/tunableop.h"

namespace kscout {

namespace {

class KscoutLogReader : public LineReader {
 public:
  std::string_view format() const override { return "KSCOUT_LOG"; }
  bool take(std::string_view line, std::size_t /*number*/, CallLog& log) override {
    constexpr std::string_view kPrefix = "kscout: ", kArrow = " -> ";
    if (!line.starts_with(kPrefix)) return false;
    const std::size_t arrow = line.find(kArrow);
    const std::string_view problem = line.substr(0, arrow).substr(kPrefix.size());
    if (arrow == std::string_view::npos || problem.find(' ') != std::string_view::npos) return true;
    log.add(parse_any_problem(problem));
    return true;
  }
};

class MiopenLogReader : public LineReader {
 public:
  std::string_view format() const override { return "MIOpen's commands"; }
  bool take(std::string_view line, std::size_t number, CallLog& log) override {
    if (line.find("MIOpenDriver ") == std::string_view::npos) return false;
    if (line.find("LogCmdFind") != std::string_view::npos) {
      log.leave_out("of searches for a kernel (LogCmdFindConvolution)", number);
      return true;
    }
    MiopenLine found = read_miopen_line(line);
    for (const ConvProblem& problem : found.problems) log.add(problem);
    if (found.fault) log.leave_out(std::move(found.fault->reason), number, std::move(found.fault->example));
    return true;
  }
};

class TunableOpLogReader : public LineReader {
 public:
  std::string_view format() const override { return "TunableOp"; }
  bool take(std::string_view line, std::size_t number, CallLog& log) override {
    if (line.starts_with("Validator,")) return true;
    const std::string_view op = line.substr(0, line.find(','));
    if (op.size() == line.size() || op.find("TunableOp_") == std::string_view::npos ||
        op.find(' ') != std::string_view::npos)
      return false;
    const auto found = read_tunableop_line(line);
    if (const auto* const problem = std::get_if<GemmProblem>(&found)) {
      log.add(*problem);
    } else {
      log.leave_out(std::get<std::string>(found), number);
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<LineReader> kscout_log_reader() { return std::make_unique<KscoutLogReader>(); }
std::unique_ptr<LineReader> miopen_log_reader() { return std::make_unique<MiopenLogReader>(); }
std::unique_ptr<LineReader> tunableop_log_reader() { return std::make_unique<TunableOpLogReader>(); }

}  // namespace kscout
