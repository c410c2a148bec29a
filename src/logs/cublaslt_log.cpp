// Reads the products of cuBLASLt's and hipBLASLt's logs.
//
// A line of level "Trace" names both operands as they lie in memory, column-major, and what is done with
// them:
//
//     [..][cublasLt][7][Trace][cublasLtMatmul] A=0X1 Adesc=[type=R_16BF rows=48 cols=96 ld=48] B=... Ddesc=[..]
//         computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T epilogue=EPILOGUE_BIAS] ... beta=0 ...
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/numbers.h"
#include "core/split.h"
#include "logs/log_formats.h"
#include "op/gemm/strided_gemm.h"

namespace kscout {

namespace {

struct CublasType {
  std::string_view name;
  DType dtype;
};
constexpr CublasType kCublasTypes[] = {
    {"R_32F", DType::fp32}, {"R_64F", DType::fp64},    {"R_16F", DType::fp16},    {"R_16BF", DType::bf16},
    {"R_8I", DType::int8},  {"R_8F_E4M3", DType::fp8}, {"R_8F_E5M2", DType::bf8}, {"R_32I", DType::int32},
};

struct CublasEpilogue {
  std::string_view name;
  Epilogue epilogue;
};
constexpr CublasEpilogue kCublasEpilogues[] = {
    {"", Epilogue::none},
    {"EPILOGUE_DEFAULT", Epilogue::none},
    {"EPILOGUE_BIAS", Epilogue::bias},
    {"EPILOGUE_RELU", Epilogue::relu},
    {"EPILOGUE_GELU", Epilogue::gelu},
    {"EPILOGUE_RELU_BIAS", Epilogue::bias_relu},
    {"EPILOGUE_GELU_BIAS", Epilogue::bias_gelu},
};

/// "name=value" parts between blanks.
class Attributes {
 public:
  explicit Attributes(std::string_view text) : parts_(parts_in(text, " ")) {}
  /// The text in the brackets of "NAME=[...]" in a line. Throws NotRead.
  static Attributes of(std::string_view line, std::string_view name) {
    const std::string opening = fmt::format("{}=[", name);
    const std::size_t begin = line.find(opening), from = begin + opening.size();
    const std::size_t end = begin == std::string_view::npos ? begin : line.find(']', from);
    if (end == std::string_view::npos) throw NotRead{std::string(kCutShort)};
    return Attributes(line.substr(from, end - from));
  }

  /// Empty where there is none. cuBLASLt writes transa, hipBLASLt transA.
  std::string_view text(std::string_view name) const {
    for (const std::string_view part : parts_) {
      const std::size_t equals = part.find('=');
      if (equals != std::string_view::npos && same_letters(part.substr(0, equals), name))
        return part.substr(equals + 1);
    }
    return {};
  }
  std::int64_t number(std::string_view name, std::optional<std::int64_t> otherwise = {}) const {
    const std::string_view given = text(name);
    if (given.empty() && otherwise) return *otherwise;
    const auto value = number_in<std::int64_t>(given);
    if (!value) throw NotRead{fmt::format("without a number after {}", name)};
    return *value;
  }

 private:
  static bool same_letters(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::ranges::equal(a, b, {}, lower, lower);
  }
  std::vector<std::string_view> parts_;
};

/// A matrix of the library.
struct CublasMatrix {
  DType dtype;
  StridedMatrix matrix;
  bool row_major;
  std::int64_t batch, item_stride;
};

CublasMatrix matrix_of(std::string_view line, std::string_view name) {
  const Attributes from = Attributes::of(line, name);
  const std::string_view type = from.text("type"), order = from.text("order");
  const auto* const known = std::ranges::find(kCublasTypes, type, &CublasType::name);
  if (known == std::end(kCublasTypes)) throw NotRead{fmt::format("of type {}", type)};
  const bool rows_first = order == "ORDER_ROW";
  if (!rows_first && !order.empty() && order != "ORDER_COL") throw NotRead{fmt::format("with {}", order)};
  const std::int64_t rows = from.number("rows"), columns = from.number("cols"), leading = from.number("ld");
  return {known->dtype,
          {rows, columns, rows_first ? leading : 1, rows_first ? 1 : leading},
          rows_first,
          from.number("batchCount", 1),
          from.number("stridedBatchOffset", 0)};
}

bool is_transposed(const Attributes& compute, std::string_view name) {
  const std::string_view op = compute.text(name);
  if (op.empty() || op == "OP_N") return false;
  if (op == "OP_T" || op == "OP_C") return true;
  throw NotRead{fmt::format("with {}", op)};
}

void set_types(GemmProblem& p, std::string_view compute) {
  const bool fp32 = p.dtype_a == DType::fp32 && p.dtype_b == DType::fp32 && p.dtype_c == DType::fp32;
  constexpr std::string_view kPedantic = "_PEDANTIC";
  std::string_view plain = compute;
  if (plain.ends_with(kPedantic)) plain.remove_suffix(kPedantic.size());
  if (plain == "COMPUTE_16F") {
    p.dtype_acc = DType::fp16;
  } else if (plain == "COMPUTE_64F") {
    p.dtype_acc = DType::fp64;
  } else if (plain == "COMPUTE_32I") {
    p.dtype_acc = DType::int32;
  } else if (plain == "COMPUTE_32F" || (plain == "COMPUTE_32F_FAST_TF32" && !fp32)) {
    p.dtype_acc = DType::fp32;
  } else if (plain == "COMPUTE_32F_FAST_TF32") {
    p.dtype_acc = DType::fp32;
    p.dtype_a = p.dtype_b = p.dtype_c = DType::tf32;
  } else {
    throw NotRead{fmt::format("with {}", compute)};
  }
}

/// The text after "NAME=" up to the next blank; nothing where there is none.
std::optional<std::string_view> word_after(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name), from = at + name.size();
  const std::size_t end = at == std::string_view::npos ? at : line.find(' ', from);
  if (end == std::string_view::npos) return std::nullopt;
  return line.substr(from, end - from);
}

GemmProblem product_of(std::string_view line) {
  CublasMatrix a = matrix_of(line, "Adesc"), b = matrix_of(line, "Bdesc"), d = matrix_of(line, "Ddesc");
  const Attributes compute = Attributes::of(line, "computeDesc");
  if (is_transposed(compute, "transa")) a.matrix = a.matrix.transposed();
  if (is_transposed(compute, "transb")) b.matrix = b.matrix.transposed();
  // The buffer of a column-major D is a row-major matrix with the other's sizes: D^T = B^T A^T.
  if (!d.row_major) {
    std::swap(a, b);
    for (CublasMatrix* const one : {&a, &b, &d}) one->matrix = one->matrix.transposed();
  }
  GemmProblem p;
  p.dtype_a = a.dtype, p.dtype_b = b.dtype, p.dtype_c = d.dtype;
  set_types(p, compute.text("computeType"));
  p.batch = d.batch;
  if (p.batch > 1 && (a.item_stride == 0 || b.item_stride == 0))
    throw NotRead{"of batches whose items share an operand"};
  const auto* const epilogue =
      std::ranges::find(kCublasEpilogues, compute.text("epilogue"), &CublasEpilogue::name);
  if (epilogue == std::end(kCublasEpilogues)) throw NotRead{fmt::format("with {}", compute.text("epilogue"))};
  p.epilogue = epilogue->epilogue;
  // Both libraries write beta behind the descriptors, and the stream behind beta.
  const auto beta = word_after(line, " beta=");
  if (!beta) throw NotRead{std::string(kCutShort)};
  p.accumulate = *beta != "0";
  set_matrices(p, a.matrix, b.matrix, d.matrix.row_stride);
  if (p.m != d.matrix.rows || p.n != d.matrix.columns) throw NotRead{"whose sizes contradict each other"};
  return p;
}

class CublasltLogReader : public LineReader {
 public:
  std::string_view format() const override { return "cuBLASLt's log"; }
  bool take(const LogLine& whole, CallLog& log) override {
    const std::string_view line = whole.text;
    if (line.find("[cublasLt][") == std::string_view::npos &&
        line.find("[HIPBLASLT][") == std::string_view::npos)
      return false;
    constexpr std::string_view kTrace = "[Trace][";
    const std::size_t trace = line.find(kTrace);
    if (trace == std::string_view::npos) return true;
    const std::string_view rest = line.substr(trace + kTrace.size()),
                           function = rest.substr(0, rest.find(']'));
    // cublasLtMatmul, cublasLtTSTMatmul and so on by the types, rocblaslt_matmul.
    if (!function.ends_with("Matmul") && !function.ends_with("_matmul")) return true;
    log.add(product_of(line));
    return true;
  }
};

}  // namespace

std::unique_ptr<LineReader> cublaslt_log_reader() { return std::make_unique<CublasltLogReader>(); }

}  // namespace kscout
