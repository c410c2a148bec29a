// Reads the products of command lines that hipBLASLt and rocBLAS log for their benchmark programs
// (HIPBLASLT_LOG_MASK=32, ROCBLAS_LAYER=2):
//
//     hipblaslt-bench ... -m 4096 -n 64 -k 1024 --lda 1024 ... --transA T --a_type f16_r ... --bias_vector
//     rocblas-bench -f gemm_ex --transposeA N --transposeB N -m 1 -n 16192 -k 16192 --a_type f16_r --lda 1 ...
//
// Matrices are column-major.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/numbers.h"
#include "logs/log_formats.h"
#include "op/gemm/strided_gemm.h"

namespace kscout {

namespace {

struct RocmType {
  std::string_view name;
  DType dtype;
};
constexpr RocmType kRocmTypes[] = {
    {"f32_r", DType::fp32}, {"f64_r", DType::fp64}, {"f16_r", DType::fp16}, {"bf16_r", DType::bf16},
    {"i8_r", DType::int8},  {"f8_r", DType::fp8},   {"bf8_r", DType::bf8},  {"i32_r", DType::int32},
};

DType dtype_named(std::string_view name) {
  const auto* const known = std::ranges::find(kRocmTypes, name, &RocmType::name);
  if (known == std::end(kRocmTypes)) throw NotRead{fmt::format("of type {}", name)};
  return known->dtype;
}

/// The words behind the name of the program: "--flag value", and flags without a value.
class BenchFlags {
 public:
  explicit BenchFlags(std::string_view text) : words_(parts_in(text, " \t")) {}

  bool has(std::string_view flag) const { return std::ranges::find(words_, flag) != words_.end(); }
  std::optional<std::string_view> find(std::string_view flag) const {
    const auto found = std::ranges::find(words_, flag);
    if (found == words_.end() || found + 1 == words_.end()) return std::nullopt;
    return *(found + 1);
  }
  std::string_view text(std::string_view flag) const {
    const auto value = find(flag);
    if (!value) throw NotRead{fmt::format("without {}", flag)};
    return *value;
  }
  std::int64_t number(std::string_view flag, std::optional<std::int64_t> otherwise = {}) const {
    if (otherwise && !find(flag)) return *otherwise;
    const auto value = number_in<std::int64_t>(text(flag));
    if (!value) throw NotRead{fmt::format("without a number after {}", flag)};
    return *value;
  }
  bool is_zero(std::string_view flag) const {
    const auto value = number_in<double>(find(flag).value_or("0"));
    if (!value) throw NotRead{fmt::format("without a number after {}", flag)};
    return *value == 0;
  }

 private:
  std::vector<std::string_view> words_;
};

/// An operand with these sizes after it was transposed or not.
StridedMatrix operand(const BenchFlags& flags, std::string_view transpose, std::string_view leading,
                      std::int64_t rows, std::int64_t columns) {
  const std::string_view letter = flags.text(transpose);
  const bool transposed = letter == "T" || letter == "C";
  if (!transposed && letter != "N") throw NotRead{fmt::format("with {} {}", transpose, letter)};
  const std::int64_t step = flags.number(leading);
  if (step < (transposed ? columns : rows)) throw NotRead{"whose sizes contradict each other"};
  return transposed ? StridedMatrix{rows, columns, step, 1} : StridedMatrix{rows, columns, 1, step};
}

void set_types(GemmProblem& p, const BenchFlags& flags) {
  const auto all = flags.find("-r");  // of rocblas-bench: one type for everything
  const auto type = [&](std::string_view flag) { return dtype_named(all ? *all : flags.text(flag)); };
  const DType a = type("--a_type"), b = type("--b_type"), c = type("--c_type");
  if (!all && type("--d_type") != c) throw NotRead{"whose C and D differ in type"};
  p = make_gemm(0, 0, 0, b);  // A and B change places
  p.dtype_b = a, p.dtype_c = c;
  p.dtype_acc = all ? p.dtype_acc : dtype_named(flags.text("--compute_type"));
}

void set_epilogue(GemmProblem& p, const BenchFlags& flags) {
  const bool bias = flags.has("--bias_vector");
  const std::string_view activation = flags.find("--activation_type").value_or("none");
  if (activation == "relu") {
    p.epilogue = bias ? Epilogue::bias_relu : Epilogue::relu;
  } else if (activation == "gelu") {
    p.epilogue = bias ? Epilogue::bias_gelu : Epilogue::gelu;
  } else if (activation == "none") {
    p.epilogue = bias ? Epilogue::bias : Epilogue::none;
  } else {
    throw NotRead{fmt::format("with --activation_type {}", activation)};
  }
}

GemmProblem product_of(const BenchFlags& flags, bool is_rocblas) {
  const std::string_view prefix = is_rocblas ? "--transpose" : "--trans";
  const std::int64_t m = flags.number("-m"), n = flags.number("-n"), k = flags.number("-k");
  const StridedMatrix a = operand(flags, fmt::format("{}A", prefix), "--lda", m, k),
                      b = operand(flags, fmt::format("{}B", prefix), "--ldb", k, n);
  GemmProblem p;
  set_types(p, flags);
  set_epilogue(p, flags);
  p.accumulate = !flags.is_zero("--beta");
  p.batch = flags.number("--batch_count", 1);
  if (p.batch > 1 && (flags.number("--stride_a", 0) == 0 || flags.number("--stride_b", 0) == 0))
    throw NotRead{"of batches whose items share an operand"};
  // The buffer of a column-major D is a row-major matrix with the other's sizes: D^T = B^T A^T.
  const std::int64_t leading = flags.number(flags.find("--ldd") ? "--ldd" : "--ldc");
  if (leading < m) throw NotRead{"whose sizes contradict each other"};
  set_matrices(p, b.transposed(), a.transposed(), leading);
  return p;
}

class RocmBenchLogReader : public LineReader {
 public:
  std::string_view format() const override { return "hipBLASLt's and rocBLAS's benchmark commands"; }
  bool take(const LogLine& line, CallLog& log) override {
    constexpr std::string_view kHipblaslt = "hipblaslt-bench ", kRocblas = "rocblas-bench ";
    const std::size_t hipblaslt = line.text.find(kHipblaslt), rocblas = line.text.find(kRocblas);
    const std::size_t begin = std::min(hipblaslt, rocblas);
    if (begin == std::string_view::npos) return false;
    // No flag of either program is the last one in every line.
    require_end(line.ended);
    const bool is_rocblas = begin == rocblas;
    const BenchFlags flags(line.text.substr(begin));
    if (is_rocblas) {
      constexpr std::string_view kFunctions[] = {"gemm", "gemm_ex", "gemm_strided_batched",
                                                 "gemm_strided_batched_ex"};
      const std::string_view function = flags.text("-f");
      if (std::ranges::find(kFunctions, function) == std::end(kFunctions))
        throw NotRead{fmt::format("of function {}", function)};
    }
    log.add(product_of(flags, is_rocblas));
    return true;
  }
};

}  // namespace

std::unique_ptr<LineReader> rocm_bench_log_reader() { return std::make_unique<RocmBenchLogReader>(); }

}  // namespace kscout
