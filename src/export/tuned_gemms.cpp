#include "export/tuned_gemms.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/fail.h"
#include "core/problem_text.h"
#include "op/lines.h"

namespace kscout {

namespace {

constexpr std::string_view kHipblasltSolution = "Gemm_Hipblaslt_",
                           kGitVersion = "Git Version:", kHipblasltVersion = "HIPBLASLT_VERSION,";

struct HipType {
  std::string_view name;
  DType dtype;
};
constexpr HipType kHipTypes[] = {{"f32_r", DType::fp32},  {"f64_r", DType::fp64}, {"f16_r", DType::fp16},
                                 {"bf16_r", DType::bf16}, {"f8_r", DType::fp8},   {"bf8_r", DType::bf8},
                                 {"i8_r", DType::int8},   {"i32_r", DType::int32}};

struct HipEpilogue {
  std::string_view activation;
  bool bias;
  Epilogue epilogue;
};
constexpr HipEpilogue kHipEpilogues[] = {
    {"none", false, Epilogue::none},     {"none", true, Epilogue::bias},
    {"relu", false, Epilogue::relu},     {"gelu", false, Epilogue::gelu},
    {"relu", true, Epilogue::bias_relu}, {"gelu", true, Epilogue::bias_gelu}};

/// Why a row is left out.
struct NotTuned {
  std::string reason;
};

DType hip_type(std::string_view what, std::string_view name) {
  for (const HipType& type : kHipTypes) {
    if (type.name == name) return type.dtype;
  }
  throw NotTuned{fmt::format("with {} {}", what, name)};
}

std::string_view hip_type_name(DType dtype) {
  for (const HipType& type : kHipTypes) {
    if (type.dtype == dtype) return type.name;
  }
  throw NotTuned{fmt::format("of type {}", word(dtype))};
}

/// Type of the sums of a row of hipBLASLt.
std::string_view hip_compute(DType dtype) {
  return dtype == DType::tf32   ? "xf32_r"
         : dtype == DType::fp64 ? "f64_r"
         : dtype == DType::int8 ? "i32_r"
                                : "f32_r";
}

/// The cells of a row, by the names in its header.
class HipRow {
 public:
  HipRow(std::string_view header, std::string_view values) {
    const auto names = cells_of(header), cells = cells_of(values);
    if (names.size() != cells.size())
      fail(Errc::corrupt_data, "{} values under {} columns", cells.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) cells_.emplace(names[i], cells[i]);
  }

  /// Empty when the column is absent.
  std::string_view optional(std::string_view name) const {
    const auto found = cells_.find(name);
    return found == cells_.end() ? std::string_view() : found->second;
  }
  std::string_view text(std::string_view name) const {
    const std::string_view cell = optional(name);
    if (cell.empty()) fail(Errc::corrupt_data, "column '{}' is missing or empty", name);
    return cell;
  }
  std::int64_t number(std::string_view name, std::int64_t min) const {
    const auto value = parse_field<std::int64_t>(name, text(name));
    if (value < min) fail(Errc::corrupt_data, "{}={}: must be at least {}", name, value, min);
    return value;
  }
  bool transposed(std::string_view name) const {
    const std::string_view cell = text(name);
    if (cell != "N" && cell != "T") fail(Errc::corrupt_data, "{}='{}': must be N or T", name, cell);
    return cell == "T";
  }

 private:
  std::unordered_map<std::string_view, std::string_view> cells_;
};

TunedGemm hip_gemm(const HipRow& row) {
  const bool ta = row.transposed("transA"), tb = row.transposed("transB");
  const std::int64_t m = row.number("m", 1), n = row.number("n", 1), k = row.number("k", 1);
  const std::int64_t batch = row.number("batch_count", 1), index = row.number("solution_index", 0);
  // The library's matrices are column-major: its A is B here.
  DType a = hip_type("b_type", row.text("b_type"));
  const DType b = hip_type("a_type", row.text("a_type")), c = hip_type("c_type", row.text("c_type"));
  const std::string_view compute = row.text("compute_type");
  if (a == DType::fp32 && compute == "xf32_r") a = DType::tf32;
  if (compute != hip_compute(a) || (a == DType::tf32 && (b != DType::fp32 || c != DType::fp32)))
    throw NotTuned{fmt::format("with compute_type {}", compute)};
  GemmProblem p = make_gemm(n, m, k, a, tunableop_layout(ta, tb));
  p.batch = batch;
  if (a != DType::tf32) p.dtype_b = b, p.dtype_c = c;
  if (!row.optional("lda").empty()) p.ldb = row.number("lda", ta ? k : m);
  if (!row.optional("ldb").empty()) p.lda = row.number("ldb", tb ? n : k);
  if (!row.optional("ldc").empty()) p.ldc = row.number("ldc", m);
  const std::string_view activation = row.optional("activation_type"), bias = row.optional("bias_vector");
  const auto* const epilogue = std::ranges::find_if(kHipEpilogues, [&](const HipEpilogue& one) {
    return one.activation == (activation.empty() ? "none" : activation) &&
           one.bias == !(bias.empty() || bias == "0");
  });
  if (epilogue == std::end(kHipEpilogues)) throw NotTuned{fmt::format("with activation {}", activation)};
  p.epilogue = epilogue->epilogue;
  check(p);
  return {without_packed_dimensions(p), fmt::format("{}{}", kHipblasltSolution, index)};
}

TunedGemms read_hipblaslt(std::string_view text, std::string_view source) {
  TunedGemms tuned;
  std::string_view header;
  for_each_log_line(text, [&](const LogLine& one) {
    const std::string_view line = trimmed(one.text);
    if (line.starts_with(kGitVersion)) {
      tuned.git_version = trimmed(line.substr(kGitVersion.size()));
    } else if (line.find("transA") != std::string_view::npos) {
      header = line;
    } else if (line.find(',') != std::string_view::npos) {
      try {
        if (header.empty())
          fail(Errc::corrupt_data, "values without a line of names such as transA,transB,... above them");
        TunedGemm row = hip_gemm(HipRow(std::exchange(header, {}), line));
        if (!one.ended) throw NotTuned{std::string(kCutShort)};
        tuned.rows.push_back(std::move(row));
      } catch (NotTuned& why) {
        count_skipped(tuned.left_out, {.reason = std::move(why.reason), .line = one.number});
      } catch (const Error& error) {
        fail(Errc::corrupt_data, "{}:{}: {}", source, one.number, error.what());
      }
    }
  });
  return tuned;
}

/// The number in "Gemm_Hipblaslt_7".
std::string hip_index(std::string_view solution) {
  const std::string_view digits =
      solution.starts_with(kHipblasltSolution) ? solution.substr(kHipblasltSolution.size()) : "";
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos ||
      digits.size() > 18)
    throw NotTuned{fmt::format("with solution {}", solution.substr(0, solution.find_last_of('_')))};
  return std::string(digits);
}

/// The git version at the end of TunableOp's "HIPBLASLT_VERSION,100202-dabb6df2b9".
std::string git_version_of(std::span<const std::string> validators) {
  for (const std::string_view one : validators) {
    const std::size_t dash = one.find('-');
    if (one.starts_with(kHipblasltVersion) && dash != std::string_view::npos)
      return std::string(one.substr(dash + 1));
  }
  return {};
}

}  // namespace

TunedGemms read_tuned_gemms(std::string_view text, std::string_view source) {
  if (text.find("transA") != std::string_view::npos || text.find(kGitVersion) != std::string_view::npos)
    return read_hipblaslt(text, source);
  TunableOpFile file = read_tunableop(text, source);
  TunedGemms tuned{.rows = std::move(file.tuned),
                   .validators = tunableop_validators(text),
                   .git_version = {},
                   .left_out = std::move(file.left_out)};
  tuned.git_version = git_version_of(tuned.validators);
  return tuned;
}

TunedTable tuned_for_tunableop(std::span<const TunedGemm> rows, std::span<const std::string> validators) {
  TunedTable table;
  for (const std::string& validator : validators) table.text += fmt::format("Validator,{}\n", validator);
  std::unordered_set<std::string> known;
  for (const TunedGemm& row : rows) {
    try {
      const std::string key = tunableop_key(row.problem).text();
      if (!known.insert(key).second) throw NotTuned{"of a name that is written already"};
      table.text += fmt::format("{},{}\n", key, row.solution);
      ++table.written;
    } catch (NotTuned& why) {
      count_skipped(table.left_out, {.reason = std::move(why.reason)});
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      count_skipped(table.left_out, {.reason = error.what()});
    }
  }
  return table;
}

TunedTable tuned_for_hipblaslt(std::span<const TunedGemm> rows, std::string_view git_version) {
  TunedTable table{.text = fmt::format("{} {}\n", kGitVersion, git_version), .written = 0, .left_out = {}};
  std::unordered_set<std::string> known;
  for (const TunedGemm& row : rows) {
    const GemmProblem& p = row.problem;
    try {
      const std::string index = hip_index(row.solution);
      const DType a = p.dtype_a == DType::tf32 ? DType::fp32 : p.dtype_a,
                  b = p.dtype_b == DType::tf32 ? DType::fp32 : p.dtype_b,
                  c = p.dtype_c == DType::tf32 ? DType::fp32 : p.dtype_c;
      const auto* const epilogue = std::ranges::find(kHipEpilogues, p.epilogue, &HipEpilogue::epilogue);
      const LeadingDimensions leading = leading_dimensions(p);
      const char transposed[] = {'T', 'N'};
      // Leading dimensions are no part of the library's key.
      const std::string key = fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{}", transposed[row_major_b(p.layout)],
          transposed[row_major_a(p.layout)], p.batch, p.n, p.m, p.k, hip_type_name(b), hip_type_name(a),
          hip_type_name(c), hip_compute(p.dtype_a), epilogue->activation, static_cast<int>(epilogue->bias));
      if (!known.insert(key).second) throw NotTuned{"of a problem that is written already"};
      table.text += fmt::format(
          "transA,transB,batch_count,m,n,k,a_type,b_type,c_type,compute_type,activation_type,bias_vector,"
          "bias_type,lda,ldb,ldc,solution_index\n{},{},{},{},{},{}\n",
          key, hip_type_name(c), leading.b, leading.a, leading.c, index);
      ++table.written;
    } catch (NotTuned& why) {
      count_skipped(table.left_out, {.reason = std::move(why.reason)});
    }
  }
  return table;
}

}  // namespace kscout
