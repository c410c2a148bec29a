// Reads MIOpen's find databases, the system's and a user's: one line per convolution,
//
//     C-[D-]H-W-FILTER-K-[Do-]Ho-Wo-N-PADS-STRIDES-DILATIONS-BIAS-LAYOUT[-LAYOUT-LAYOUT]-DTYPE-DIRECTION[_gGROUPS]
//     =SOLVER:milliseconds,workspace bytes,algorithm;...
//
// with FILTER, PADS, STRIDES and DILATIONS as one number per spatial axis joined by x. Three layouts are
// those of input, filter and output. One layout of a 3-D line may be NCDHW or NCHW.
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/problem_text.h"
#include "dataset/compressed.h"
#include "import/import.h"
#include "provider/miopen/miopen.h"

namespace kscout {

namespace {

/// Why a line cannot be read.
struct Unreadable {
  std::string reason;
};

[[noreturn]] void refuse(std::string reason) { throw Unreadable{std::move(reason)}; }

std::int64_t whole(std::string_view what, std::string_view text) {
  try {
    return parse_field<std::int64_t>(what, text);
  } catch (const Error& error) {
    refuse(error.what());
  }
}

/// Numbers per spatial axis, d, h, w; `missing` for d in 2-D.
std::array<std::int64_t, 3> per_axis(std::string_view what, std::string_view text, std::size_t axes,
                                     std::int64_t missing) {
  const auto parts = split(text, 'x');
  if (parts.size() != axes) refuse(fmt::format("{} '{}': expected {} numbers", what, text, axes));
  std::array<std::int64_t, 3> values{missing, missing, missing};
  for (std::size_t i = 0; i < axes; ++i) values[3 - axes + i] = whole(what, parts[i]);
  return values;
}

struct DirectionWord {
  std::string_view word;
  Op op;
};
constexpr DirectionWord kDirectionLetters[] = {
    {"F", Op::conv_fwd}, {"B", Op::conv_bwd_data}, {"W", Op::conv_bwd_weight}};

struct TypeWord {
  std::string_view word;
  DType dtype;
};
constexpr TypeWord kTypes[] = {
    {"FP32", DType::fp32}, {"FP16", DType::fp16}, {"BF16", DType::bf16}, {"INT8", DType::int8}};

template <class Table>
const auto& entry_of(const Table& table, std::string_view what, std::string_view word) {
  for (const auto& one : table) {
    if (one.word == word) return one;
  }
  refuse(fmt::format("unknown {} '{}'", what, word));
}

Layout layout_of(std::string_view word, bool three) {
  if (word == "NCHW" || word == "NCDHW") return three ? Layout::ngcdhw : Layout::ngchw;
  if (word == "NHWC" || word == "NDHWC") return three ? Layout::ndhwgc : Layout::nhwgc;
  refuse(fmt::format("layout '{}' has no name here", word));
}

/// Channels and sizes of an image.
struct Image {
  std::int64_t channels;
  std::array<std::int64_t, 3> size;  ///< d, h, w
};

/// The problem of a line's part before '='; nothing when the request is for others.
std::optional<ConvProblem> problem_of_key(std::string_view key, const ImportRequest& request) {
  const auto parts = split(key, '-');
  // The filter is the first part with an x: after C, H, W, or C, D, H, W.
  const bool three = parts.size() > 4 && parts[3].find('x') == std::string_view::npos;
  const std::size_t axes = three ? 3 : 2, plain = 10 + 2 * axes + 1;
  if (parts.size() != plain && parts.size() != plain + 2)
    refuse(fmt::format("{} parts between '-'; a convolution has {} or {}", parts.size(), plain, plain + 2));
  const std::string_view last = parts.back();
  const std::size_t groups = last.find("_g");
  const Op op = entry_of(kDirectionLetters, "direction", last.substr(0, groups)).op;
  const DType dtype = entry_of(kTypes, "type", parts[parts.size() - 2]).dtype;
  const std::size_t layouts = parts.size() - plain == 2 ? 3 : 1, first_layout = parts.size() - 2 - layouts;
  for (std::size_t i = 1; i < layouts; ++i) {
    if (parts[first_layout + i] != parts[first_layout])
      refuse(fmt::format("layouts {}, {} and {} differ", parts[first_layout], parts[first_layout + 1],
                         parts[first_layout + 2]));
  }
  ConvProblem p = make_conv(op, dtype, layout_of(parts[first_layout], three));
  if (op != request.op || (request.only_dtype && dtype != *request.only_dtype) ||
      (request.layout && p.layout != *request.layout))
    return std::nullopt;

  std::size_t at = 0;
  const auto next = [&] { return parts[at++]; };
  const auto image = [&] {
    Image read{whole("channels", next()), {1, 1, 1}};
    for (std::size_t i = 3 - axes; i < 3; ++i) read.size[i] = whole("size", next());
    return read;
  };
  const Image first = image();
  const auto filter = per_axis("filter", next(), axes, 1);
  const Image second = image();
  p.n = whole("images", next());
  const auto pads = per_axis("pads", next(), axes, 0), strides = per_axis("strides", next(), axes, 1),
             dilations = per_axis("dilations", next(), axes, 1);
  if (const std::string_view bias = next(); bias != "0")
    refuse(fmt::format("bias '{}'; only 0 is known", bias));
  if (groups != std::string_view::npos) p.g = whole("groups", last.substr(groups + 2));
  const Image &in = op == Op::conv_fwd ? first : second, &out = op == Op::conv_fwd ? second : first;
  p.c = in.channels, p.k = out.channels;
  p.d = in.size[0], p.h = in.size[1], p.w = in.size[2];
  p.z = filter[0], p.y = filter[1], p.x = filter[2];
  p.left_pad_d = p.right_pad_d = pads[0];
  p.left_pad_h = p.right_pad_h = pads[1];
  p.left_pad_w = p.right_pad_w = pads[2];
  p.stride_d = strides[0], p.stride_h = strides[1], p.stride_w = strides[2];
  p.dilation_d = dilations[0], p.dilation_h = dilations[1], p.dilation_w = dilations[2];
  try {
    check(p);
  } catch (const Error& error) {
    refuse(error.what());
  }
  const ConvOutput follows = output_sizes(p);
  if (out.size != std::array{follows.d, follows.h, follows.w}) {
    refuse(fmt::format("an output of {} does not follow from the other sizes ({}x{}x{})",
                       fmt::join(out.size, "x"), follows.d, follows.h, follows.w));
  }
  return p;
}

/// One solver of a line: "ConvAsm1x1U:0.0213,0,miopenConvolutionFwdAlgoDirect".
struct SolverTime {
  std::string_view solver;
  double ms;
  std::int64_t workspace_bytes;
};

SolverTime solver_time_of(std::string_view entry) {
  const std::size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos)
    refuse(fmt::format("'{}': expected SOLVER:milliseconds,workspace,algorithm", entry));
  const auto parts = split(entry.substr(colon + 1), ',');
  if (parts.size() != 3) refuse(fmt::format("'{}': expected SOLVER:milliseconds,workspace,algorithm", entry));
  try {
    return {entry.substr(0, colon), parse_field<double>("milliseconds", parts[0]),
            parse_field<std::int64_t>("workspace", parts[1])};
  } catch (const Error& error) {
    refuse(error.what());
  }
}

void read_line(std::string_view line, std::size_t number, const ImportRequest& request, ImportTable& to) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) refuse("no '=' between the problem and its solvers");
  const auto problem = problem_of_key(line.substr(0, equals), request);
  if (!problem) return;
  const std::string prefix =
      fmt::format("miopen_{}_{}_{}__", word(problem->op), word(problem->dtype_in), word(problem->layout));
  std::vector<SolverTime> solvers;
  for (const std::string_view entry : split(line.substr(equals + 1), ';'))
    solvers.push_back(solver_time_of(entry));
  for (const SolverTime& measured : solvers) {
    to.add({.problem = *problem,
            .kernel = prefix + std::string(measured.solver),
            .time_us = 1000 * measured.ms,
            .workspace_bytes = static_cast<double>(measured.workspace_bytes),
            .line = number});
  }
}

/// Throws invalid_argument when the file's name says that another GPU was measured.
void check_measured_arch(const std::filesystem::path& file, const Device& device) {
  const std::string name = file.filename().string();
  if (!name.starts_with("gfx") || name.starts_with(device.arch)) return;
  fail(Errc::invalid_argument,
       "{}: the name says that a GPU '{}' was measured, which device '{}' is not; name that GPU with "
       "--device, "
       "or rename the file",
       file.string(), name.substr(0, name.find_first_of("._:")), device.name);
}

/// Compute units that a database's file name states behind the architecture.
std::optional<int> find_db_cores(const std::filesystem::path& file, std::string_view arch) {
  const std::string name = file.filename().string();
  if (!name.starts_with(arch) || arch.empty()) return std::nullopt;
  std::string_view rest = std::string_view(name).substr(arch.size());
  // MIOpen writes up to 64 compute units as _60, and more in hexadecimal digits.
  const bool decimal = rest.starts_with('_');
  if (decimal) rest.remove_prefix(1);
  rest = rest.substr(0, rest.find('.'));
  int cores = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), cores, decimal ? 10 : 16);
  if (error != std::errc() || end != rest.data() + rest.size() || cores < 1) return std::nullopt;
  return cores;
}

}  // namespace

void read_miopen_find_db(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to) {
  check_measured_arch(file, request.device);
  if (const auto cores = find_db_cores(file, request.device.arch)) to.fact(&Device::cores, *cores);
  const std::string text = read_text(file);
  for_each_log_line(text, [&](const LogLine& line) {
    try {
      if (!line.ended) refuse(kNoLineEnd);
      read_line(line.text, line.number, request, to);
    } catch (const Unreadable& why) {
      to.skip(line.number, why.reason);
    }
  });
}

}  // namespace kscout
