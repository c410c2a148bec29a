// Reads convolutions from the command lines of MIOpen's driver.
#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "core/fail.h"
#include "core/numbers.h"
#include "core/problem_text.h"
#include "op/conv/conv_sets.h"

namespace kscout {
namespace {

/// A flag of MIOpenDriver, `--name` or `-letter`, and the fields that it sets. Where a flag that need not be
/// given is not, fields keep their defaults, which are the driver's.
struct DriverFlag {
  std::string_view name;
  char letter;
  std::vector<std::int64_t ConvProblem::*> fields;
  bool needed = false;
  bool of_depth = false;  ///< has no effect in 2-D

  std::string text() const { return fmt::format("--{} (-{})", name, letter); }
};

std::span<const DriverFlag> driver_flags() {
  using C = ConvProblem;
  static const DriverFlag flags[] = {
      {"batchsize", 'n', {&C::n}, true},
      {"in_channels", 'c', {&C::c}, true},
      {"in_d", '!', {&C::d}, true, true},
      {"in_h", 'H', {&C::h}, true},
      {"in_w", 'W', {&C::w}, true},
      {"out_channels", 'k', {&C::k}, true},
      {"fil_d", '@', {&C::z}, true, true},
      {"fil_h", 'y', {&C::y}, true},
      {"fil_w", 'x', {&C::x}, true},
      {"group_count", 'g', {&C::g}},
      {"conv_stride_d", '#', {&C::stride_d}, false, true},
      {"conv_stride_h", 'u', {&C::stride_h}},
      {"conv_stride_w", 'v', {&C::stride_w}},
      {"pad_d", '$', {&C::left_pad_d, &C::right_pad_d}, false, true},
      {"pad_h", 'p', {&C::left_pad_h, &C::right_pad_h}},
      {"pad_w", 'q', {&C::left_pad_w, &C::right_pad_w}},
      {"dilation_d", '^', {&C::dilation_d}, false, true},
      {"dilation_h", 'l', {&C::dilation_h}},
      {"dilation_w", 'j', {&C::dilation_w}},
  };
  return flags;
}

struct DriverOperation {
  std::string_view word;
  DType dtype;
};
constexpr DriverOperation kDriverOperations[] = {{"conv", DType::fp32},      {"convfp16", DType::fp16},
                                                 {"convbfp16", DType::bf16}, {"convint8", DType::int8},
                                                 {"convfp8", DType::fp8},    {"convbfp8", DType::bf8}};

std::vector<std::string_view> words_of_line(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; (begin = line.find_first_not_of(" \t\r", begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

/// Why a line is left out.
struct LineFault {
  std::string reason, example = {};
};

/// One command line: its operation, and the words after it.
struct DriverCommand {
  std::string_view operation = "conv";
  std::span<const std::string_view> words = {};
};

/// Nothing when the line has no command line: one follows MIOpenDriver, or begins with an operation of
/// convolutions or with a flag.
std::optional<DriverCommand> command_of(std::span<const std::string_view> words) {
  const auto driver =
      std::ranges::find_if(words, [](std::string_view word) { return word.ends_with("MIOpenDriver"); });
  const bool named = driver != words.end();
  if (named) words = words.subspan(static_cast<std::size_t>(driver - words.begin()) + 1);
  if (words.empty()) return std::nullopt;
  if (words.front().starts_with("-")) return DriverCommand{.words = words};
  if (!named && !words.front().starts_with("conv")) return std::nullopt;
  return DriverCommand{.operation = words.front(), .words = words.subspan(1)};
}

/// The value of a flag: the next word, or the text after '='. Nothing when the command lacks the flag.
std::optional<std::string_view> value_of(const DriverCommand& command, std::string_view name, char letter) {
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string_view word = command.words[i], flag = word.substr(0, word.find('='));
    const bool is_long = flag.starts_with("--") && flag.substr(2) == name;
    const bool is_short = flag.size() == 2 && flag[0] == '-' && flag[1] == letter;
    if (!is_long && !is_short) continue;
    if (flag.size() < word.size()) return word.substr(flag.size() + 1);
    return i + 1 < command.words.size() ? command.words[i + 1] : std::string_view();
  }
  return std::nullopt;
}

/// Whether a line may have lost its end: MIOpen writes --time (-t) last, people end their lines.
bool is_cut_short(const LogLine& line, const DriverCommand& command) {
  const bool of_log = line.text.find("[LogCmd") != std::string_view::npos;
  if (line.ended) return of_log && value_of(command, "time", 't').value_or("").empty();
  const auto last = command.words.last(std::min<std::size_t>(command.words.size(), 2));
  return last.size() < 2 || (last[0] != "-t" && last[0] != "--time") || (last[1] != "0" && last[1] != "1");
}

/// Whether a command is of a 3-D convolution.
bool has_depth(const DriverCommand& command) {
  return value_of(command, "spatial_dim", '_').value_or("2") == "3";
}

/// The convolution of a command line, in the direction of the request and channels last, or why there is
/// none.
std::variant<ConvProblem, LineFault> convolution_of(const LogLine& line, const DriverCommand& command,
                                                    const MiopenRequest& request) {
  if (is_cut_short(line, command)) return LineFault{std::string(kCutShort)};
  const auto operation = std::ranges::find(kDriverOperations, command.operation, &DriverOperation::word);
  if (operation == std::end(kDriverOperations))
    return LineFault{fmt::format("of operation '{}'", command.operation)};
  if (const auto mode = value_of(command, "mode", 'm'); mode && *mode != "conv")
    return LineFault{fmt::format("with --mode {}", *mode)};
  if (const auto mode = value_of(command, "pad_mode", 'z'); mode && *mode != "default" && *mode != "conv")
    return LineFault{fmt::format("with --pad_mode {}", *mode)};
  const bool three = has_depth(command);
  ConvProblem problem =
      make_conv(request.op, request.dtype.value_or(operation->dtype), three ? Layout::ndhwgc : Layout::nhwgc);
  for (const DriverFlag& flag : driver_flags()) {
    if (flag.of_depth && !three) continue;
    const auto value = value_of(command, flag.name, flag.letter);
    if (!value && flag.needed) return LineFault{"without " + flag.text()};
    if (!value) continue;
    const auto number = number_in<std::int64_t>(*value);
    if (!number) return LineFault{"without a whole number after " + flag.text()};
    for (const auto field : flag.fields) problem.*field = *number;
  }
  try {
    check(problem);
  } catch (const Error& error) {
    return LineFault{"that are no valid convolution", error.what()};
  }
  return problem;
}

}  // namespace

MiopenProblems read_miopen_log(std::string_view text, const MiopenRequest& request) {
  MiopenProblems log;
  for_each_log_line(text, [&](const LogLine& line) {
    const auto words = words_of_line(line.text);
    ++log.lines;
    const auto command = command_of(words);
    auto found = command ? convolution_of(line, *command, request)
                         : LineFault{"without a command line of MIOpenDriver"};
    if (const auto* problem = std::get_if<ConvProblem>(&found)) {
      log.problems.push_back(*problem);
    } else {
      LineFault& fault = std::get<LineFault>(found);
      count_skipped(log.left_out, {std::move(fault.reason), 1, line.number, std::move(fault.example)});
    }
  });
  if (!log.problems.empty()) return log;
  std::vector<std::string> needed;
  for (const DriverFlag& flag : driver_flags()) {
    if (flag.needed && !flag.of_depth) needed.push_back(flag.text());
  }
  fail(Errc::corrupt_data, "no convolution in {} lines; a line of MIOpenDriver must have {}; left out: {}",
       log.lines, fmt::join(needed, ", "), skipped_lines_text(log.left_out));
}

MiopenLine read_miopen_line(const LogLine& line) {
  const auto words = words_of_line(line.text);
  const auto fault = [](LineFault one) {
    return MiopenLine{{}, SkippedLines{std::move(one.reason), 1, 0, std::move(one.example)}};
  };
  const auto command = command_of(words);
  if (!command) return fault({"without a command line of MIOpenDriver"});
  auto found = convolution_of(line, *command, {});
  if (auto* const why = std::get_if<LineFault>(&found)) return fault(std::move(*why));
  ConvProblem problem = std::get<ConvProblem>(found);
  const bool three = has_depth(*command);
  const std::string_view layout = value_of(*command, "in_layout", 'I').value_or(three ? "NCDHW" : "NCHW");
  if (layout == (three ? "NCDHW" : "NCHW")) {
    problem.layout = three ? Layout::ngcdhw : Layout::ngchw;
  } else if (layout != (three ? "NDHWC" : "NHWC")) {
    return fault({fmt::format("with --in_layout {}", layout)});
  }
  const auto directions = number_in<unsigned>(value_of(*command, "forw", 'F').value_or("0"));
  constexpr unsigned kAll = 7;
  if (!directions || *directions > kAll) return fault({"with an unknown --forw (-F)"});
  MiopenLine done;
  for (const auto& [bit, op] :
       {std::pair{1u, Op::conv_fwd}, {2u, Op::conv_bwd_data}, {4u, Op::conv_bwd_weight}}) {
    if (((*directions == 0 ? kAll : *directions) & bit) == 0) continue;
    problem.op = op;
    done.problems.push_back(problem);
  }
  return done;
}

}  // namespace kscout
