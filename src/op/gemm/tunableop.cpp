#include "op/gemm/tunableop.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "core/fail.h"
#include "core/problem_text.h"
#include "op/lines.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

constexpr std::string_view kTunableGemm = "GemmTunableOp_", kTunableBias = "GemmAndBiasTunableOp_",
                           kTunableBatched = "GemmStridedBatchedTunableOp_",
                           kTunableScaled = "ScaledGemmTunableOp_";

/// What a line of an operator has, for errors.
constexpr std::string_view kTunableColumns = "an operator, its parameters and, when tuned, a solution";

struct TunableType {
  std::string_view name;
  std::optional<DType> dtype;  ///< nothing: PyTorch has the type, this program does not
};
constexpr TunableType kTunableTypes[] = {
    {"float", DType::fp32},      {"tf32", DType::tf32},       {"double", DType::fp64},
    {"Half", DType::fp16},       {"BFloat16", DType::bf16},   {"Float8_e4m3fn", DType::fp8},
    {"Float8_e5m2", DType::bf8}, {"Float8_e4m3fnuz", {}},     {"Float8_e5m2fnuz", {}},
    {"Float8_e8m0fnu", {}},      {"c10::complex<float>", {}}, {"c10::complex<double>", {}}};

/// Why a line is no problem here.
struct NotTunable {
  std::string reason;
};

std::string_view type_name(DType dtype) {
  const auto* const found = std::ranges::find(kTunableTypes, dtype, &TunableType::dtype);
  if (found == std::end(kTunableTypes))
    fail(Errc::unsupported, "of type {}, which TunableOp has no name for", word(dtype));
  return found->name;
}

/// Takes a type's name and the '_' behind it from the front of `rest`.
DType take_tunable_type(std::string_view& rest) {
  for (const TunableType& type : kTunableTypes) {
    if (!rest.starts_with(type.name) || rest.substr(type.name.size(), 1) != "_") continue;
    if (!type.dtype) throw NotTunable{fmt::format("of type {}", type.name)};
    rest.remove_prefix(type.name.size() + 1);
    return *type.dtype;
  }
  const std::string_view given = rest.substr(0, rest.rfind('_'));
  std::vector<std::string_view> known;
  for (const TunableType& type : kTunableTypes) known.push_back(type.name);
  fail(Errc::corrupt_data, "unknown element type '{}'; TunableOp has {}", given, fmt::join(known, ", "));
}

/// The parts of the second column between '_', taken from the front.
class TunableParameters {
 public:
  explicit TunableParameters(std::string_view text) : text_(text), parts_(split(text, '_')) {}

  bool done() const { return at_ == parts_.size(); }
  std::string_view next(std::string_view what) {
    if (done()) fail(Errc::corrupt_data, "'{}' ends before its {}", text_, what);
    return parts_[at_++];
  }
  std::int64_t number(std::string_view what, std::int64_t min = 1) {
    const std::string_view text = next(what);
    if (text == "*") throw NotTunable{"with a wildcard"};
    const auto value = parse_field<std::int64_t>(what, text);
    if (value < min) fail(Errc::corrupt_data, "{}={}: must be at least {} in '{}'", what, value, min, text_);
    return value;
  }
  /// Takes a word that may be absent.
  bool take(std::string_view word) {
    if (done() || parts_[at_] != word) return false;
    ++at_;
    return true;
  }
  void finish() const {
    if (!done()) fail(Errc::corrupt_data, "'{}' has an unknown part '{}'", text_, parts_[at_]);
  }

 private:
  std::string_view text_;
  std::vector<std::string_view> parts_;
  std::size_t at_ = 0;
};

/// Reads "_rw_0_bias_None".
void read_tunable_scales(TunableParameters& parameters, GemmProblem& problem) {
  if (!parameters.take("rw")) return;
  if (parameters.number("rw", 0) != 0) throw NotTunable{"with a scale for each row"};
  if (!parameters.take("bias")) return;
  const std::string_view bias = parameters.next("bias");
  if (bias == "None") return;
  if (bias != type_name(problem.dtype_c) && !(bias == "Float" && problem.dtype_c == DType::fp32))
    throw NotTunable{
        fmt::format("with a bias of type {} and a C of type {}", bias, type_name(problem.dtype_c))};
  problem.epilogue = Epilogue::bias;
}

GemmProblem tunable_problem(std::string_view op, std::string_view text) {
  constexpr std::array kKinds{kTunableGemm, kTunableBias, kTunableBatched, kTunableScaled};
  const auto* const found =
      std::ranges::find_if(kKinds, [&](std::string_view one) { return op.starts_with(one); });
  if (found == kKinds.end()) {
    if (op.find("TunableOp") != std::string_view::npos)
      throw NotTunable{fmt::format("of operator {}", op.substr(0, op.find('_')))};
    fail(Errc::corrupt_data, "'{}' is no operator of TunableOp, such as {}BFloat16_TN", op, kTunableGemm);
  }
  std::string_view types = op.substr(found->size());
  const DType first = take_tunable_type(types);
  DType second = first, result = make_gemm(1, 1, 1, first).dtype_c;
  if (*found == kTunableScaled) second = take_tunable_type(types), result = take_tunable_type(types);
  if (*found == kTunableBatched && types.size() > 2) result = take_tunable_type(types);

  const auto transposed = [&](char letter) {
    if (letter == 'T' || letter == 'N') return letter == 'T';
    fail(Errc::corrupt_data, "'{}' does not end in NN, NT, TN or TT", op);
  };
  if (types.size() != 2) fail(Errc::corrupt_data, "'{}' does not end in NN, NT, TN or TT", op);
  const bool transposed_a = transposed(types[0]), transposed_b = transposed(types[1]);
  TunableParameters parameters(text);
  const std::string_view letters = parameters.next("transposes");
  if (letters.size() != 2 || letters[0] != types[0] - 'A' + 'a' || letters[1] != types[1] - 'A' + 'a')
    fail(Errc::corrupt_data, "'{}' begins with other transposes than '{}' ends with", text, op);

  // PyTorch's m, n and k.
  const std::int64_t m = parameters.number("m"), n = parameters.number("n"), k = parameters.number("k");
  GemmProblem p = make_gemm(n, m, k, second, tunableop_layout(transposed_a, transposed_b));
  p.dtype_b = first, p.dtype_c = result;
  if (*found == kTunableBias) p.epilogue = Epilogue::bias;
  if (*found == kTunableBatched) {
    if (!parameters.take("B")) fail(Errc::corrupt_data, "'{}' has no batch: expected _B_ and a number", text);
    p.batch = parameters.number("batch");
  }
  if (parameters.take("ld")) {  // files of old releases have no leading dimensions
    p.ldb = parameters.number("lda", transposed_a ? k : m);
    p.lda = parameters.number("ldb", transposed_b ? n : k);
    p.ldc = parameters.number("ldc", m);
  }
  if (*found == kTunableScaled) read_tunable_scales(parameters, p);
  parameters.finish();
  check(p);
  return without_packed_dimensions(p);
}

}  // namespace

Layout tunableop_layout(bool transposed_a, bool transposed_b) noexcept {
  if (transposed_a) return transposed_b ? Layout::ccr : Layout::rcr;
  return transposed_b ? Layout::crr : Layout::rrr;
}

GemmProblem without_packed_dimensions(GemmProblem p) noexcept {
  GemmProblem packed = p;
  packed.lda = packed.ldb = packed.ldc = 0;
  const LeadingDimensions plain = leading_dimensions(packed);
  if (p.lda == plain.a) p.lda = 0;
  if (p.ldb == plain.b) p.ldb = 0;
  if (p.ldc == plain.c) p.ldc = 0;
  return p;
}

TunableOpKey tunableop_key(const GemmProblem& p) {
  check(p);
  if (p.m == 0 || p.n == 0 || p.k == 0) fail(Errc::unsupported, "without elements");
  const bool scaled = p.dtype_a == DType::fp8 || p.dtype_a == DType::bf8;
  const bool biased = p.epilogue == Epilogue::bias;
  if (!biased && p.epilogue != Epilogue::none)
    fail(Errc::unsupported, "with epilogue {}, which TunableOp has no name for", word(p.epilogue));
  if (p.batch > 1 && (biased || scaled))
    fail(Errc::unsupported, "of a batch with {}, which TunableOp has no name for",
         biased ? "a bias" : "8-bit floats");
  const GemmProblem usual = make_gemm(1, 1, 1, p.dtype_a);
  if (!scaled && (p.dtype_b != p.dtype_a || p.dtype_c != usual.dtype_c))
    fail(Errc::unsupported, "of mixed types, which TunableOp has no name for");

  const char a = row_major_b(p.layout) ? 'n' : 't', b = row_major_a(p.layout) ? 'n' : 't';
  const LeadingDimensions leading = leading_dimensions(p);
  TunableOpKey key;
  key.op = std::string(scaled        ? kTunableScaled
                       : p.batch > 1 ? kTunableBatched
                       : biased      ? kTunableBias
                                     : kTunableGemm);
  key.op += type_name(scaled ? p.dtype_b : p.dtype_a);
  if (scaled) key.op += fmt::format("_{}_{}", type_name(p.dtype_a), type_name(p.dtype_c));
  key.op += fmt::format("_{}{}", static_cast<char>(a - 'a' + 'A'), static_cast<char>(b - 'a' + 'A'));
  key.parameters = fmt::format("{}{}_{}_{}_{}", a, b, p.n, p.m, p.k);
  if (p.batch > 1) key.parameters += fmt::format("_B_{}", p.batch);
  key.parameters += fmt::format("_ld_{}_{}_{}", leading.b, leading.a, leading.c);
  if (scaled) {
    key.parameters += fmt::format("_rw_0_bias_{}", !biased                    ? "None"
                                                   : p.dtype_c == DType::fp32 ? "Float"
                                                                              : type_name(p.dtype_c));
  }
  return key;
}

std::vector<std::string> tunableop_validators(std::string_view text) {
  constexpr std::string_view kValidator = "Validator,";
  std::vector<std::string> validators;
  for (const std::string_view whole : split(text, '\n')) {
    const std::string_view line = trimmed(whole);
    if (line.starts_with(kValidator)) validators.emplace_back(line.substr(kValidator.size()));
  }
  return validators;
}

std::variant<Problem, std::string> read_tunableop_line(const LogLine& line) {
  const auto columns = split(line.text, ',');
  if (!line.ended && columns.size() < 3) return std::string(kCutShort);
  if (columns.size() < 2)
    fail(Errc::corrupt_data, "{} columns; a line has {}", columns.size(), kTunableColumns);
  try {
    return tunable_problem(trimmed(columns[0]), trimmed(columns[1]));
  } catch (NotTunable& why) {
    return std::move(why.reason);
  }
}

TunableOpFile read_tunableop(std::string_view text, std::string_view source) {
  TunableOpFile file;
  for_each_log_line(text, [&](const LogLine& line) {
    const auto columns = split(trimmed(line.text), ',');
    if (columns[0] == "Validator") {
      if (columns.size() < 3 && line.ended)
        fail(Errc::corrupt_data, "{}:{}: {} columns; a line has Validator,NAME,VALUE", source, line.number,
             columns.size());
      return;
    }
    ++file.lines;
    try {
      auto found = read_tunableop_line(line);
      if (auto* const reason = std::get_if<std::string>(&found)) {
        count_skipped(file.left_out, {.reason = std::move(*reason), .line = line.number});
        return;
      }
      const GemmProblem& problem = file.problems.emplace_back(std::get<Problem>(found).gemm());
      // A log of the call may follow the parameters instead.
      const bool has_solution = columns.size() > (line.ended ? 2 : 3);
      if (has_solution && columns[2].find('{') == std::string_view::npos)
        file.tuned.push_back({problem, std::string(trimmed(columns[2]))});
    } catch (const Error& error) {
      fail(Errc::corrupt_data, "{}:{}: {}", source, line.number, error.what());
    }
  });
  file.problems = merge_equal(file.problems);
  if (file.problems.empty())
    fail(Errc::corrupt_data, "{}: no GEMM in {} lines; left out: {}", source, file.lines,
         skipped_lines_text(file.left_out));
  return file;
}

}  // namespace kscout
