#include "arrays.h"

#include <optional>
#include <string>
#include <utility>

#include <kscout/error.h>

namespace nb = nanobind;

namespace kscout::python {

namespace {

struct ElementType {
  DType dtype;
  nb::dlpack::dtype_code code;
  std::uint8_t bits;
};

/// DLPack's code of each type. tf32 and int4 have no array type.
constexpr ElementType kElementTypes[] = {
    {DType::fp64, nb::dlpack::dtype_code::Float, 64},
    {DType::fp32, nb::dlpack::dtype_code::Float, 32},
    {DType::fp16, nb::dlpack::dtype_code::Float, 16},
    {DType::bf16, nb::dlpack::dtype_code::Bfloat, 16},
    {DType::fp8, nb::dlpack::dtype_code::Float8_E4M3FN, 8},
    {DType::bf8, nb::dlpack::dtype_code::Float8_E5M2, 8},
    {DType::int32, nb::dlpack::dtype_code::Int, 32},
    {DType::int8, nb::dlpack::dtype_code::Int, 8},
};

struct DeviceType {
  int dlpack;
  MemoryKind kind;
};
/// DLPack's device numbers; memory that host and GPU share counts as the GPU's.
constexpr DeviceType kDeviceTypes[] = {
    {1, MemoryKind::host},   // kDLCPU
    {2, MemoryKind::cuda},   // kDLCUDA
    {3, MemoryKind::host},   // kDLCUDAHost: pinned
    {10, MemoryKind::hip},   // kDLROCM
    {11, MemoryKind::host},  // kDLROCMHost
    {13, MemoryKind::cuda},  // kDLCUDAManaged
};

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw Error(Errc::invalid_argument, "array " + std::string(name) + " " + why);
}
[[noreturn]] void refuse(const Operand& operand, const std::string& why) { refuse(operand.name, why); }

std::string text(std::int64_t value) { return std::to_string(value); }

/// "int64"; for a kind that has no name here, its DLPack code and its bits.
std::string type_text(const nb::dlpack::dtype& dtype) {
  using Code = nb::dlpack::dtype_code;
  for (const auto& [code, name] : {std::pair{Code::Int, "int"}, std::pair{Code::UInt, "uint"},
                                   std::pair{Code::Float, "float"}, std::pair{Code::Complex, "complex"}}) {
    if (dtype.code == static_cast<std::uint8_t>(code)) return name + text(dtype.bits);
  }
  if (dtype.code == static_cast<std::uint8_t>(Code::Bool)) return "bool";
  return "elements of DLPack code " + text(dtype.code) + " and " + text(dtype.bits) + " bits";
}

std::string shape_text(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool batched) {
  return "(" + (batched ? text(batch) + ", " : "") + text(rows) + ", " + text(columns) + ")";
}

std::string shape_text(const Operand& o) { return shape_text(o.batch, o.rows, o.columns, o.batch != 1); }

std::string strides_text(const Operand& o) {
  return "strides of " + (o.batch > 1 ? text(o.batch_stride) + ", " : "") + text(o.row_stride) + ", " +
         text(o.column_stride) + " elements";
}

/// The operand's lines in memory: rows when row-major, columns otherwise.
struct Lines {
  std::int64_t count, length, line_stride, element_stride;
};
Lines lines_of(const Operand& o, bool row_major) {
  return row_major ? Lines{o.rows, o.columns, o.row_stride, o.column_stride}
                   : Lines{o.columns, o.rows, o.column_stride, o.row_stride};
}

/// Packages give arrays without elements arbitrary strides, which must be ignored.
bool is_empty(const Operand& o) { return o.rows == 0 || o.columns == 0 || o.batch == 0; }

/// The leading dimension if the operand has this order, else nothing. A stride along a dimension of one
/// element means nothing.
std::optional<std::int64_t> leading_dimension(const Operand& o, bool row_major) {
  const Lines lines = lines_of(o, row_major);
  if (is_empty(o)) return lines.length;
  if (lines.length > 1 && lines.element_stride != 1) return std::nullopt;
  std::int64_t leading = lines.count > 1 ? lines.line_stride : lines.length;
  if (lines.count == 1 && o.batch > 1) leading = o.batch_stride;
  if (leading < lines.length) return std::nullopt;
  if (o.batch > 1 && o.batch_stride != lines.count * leading) return std::nullopt;
  return leading;
}

struct Order {
  bool row_major;
  std::int64_t leading;  ///< 0 = packed
};

/// Row-major when both orders match, unless only column-major is packed.
Order order_of(const Operand& o) {
  const auto rows = leading_dimension(o, true), columns = leading_dimension(o, false);
  if (!rows && !columns) {
    refuse(
        o,
        "has shape " + shape_text(o) + " and " + strides_text(o) +
            "; elements of a row or of a column must follow each other, and so must the matrices of a batch: "
            "copy it first");
  }
  const bool column_major = !rows || (columns && *columns == o.rows && *rows != o.columns);
  const std::int64_t leading = column_major ? *columns : *rows;
  return {!column_major, leading == (column_major ? o.rows : o.columns) ? 0 : leading};
}

Layout layout_of(bool a_row_major, bool b_row_major) {
  if (a_row_major) return b_row_major ? Layout::rrr : Layout::rcr;
  return b_row_major ? Layout::crr : Layout::ccr;
}

/// The part of the problem that describes one operand.
struct Stated {
  DType dtype;
  std::int64_t rows, columns, leading;
  bool row_major;
};

void check_operand(const GemmProblem& problem, const Operand& o, const Stated& stated) {
  const DType stored = stated.dtype == DType::tf32 ? DType::fp32 : stated.dtype;
  const std::string of = "; " + print(problem) + " ";
  if (o.dtype != stored) {
    refuse(o, "holds " + std::string(word(o.dtype)) + of + "takes " + std::string(word(stored)) +
                  convert_to(stored));
  }
  if (o.rows != stated.rows || o.columns != stated.columns || o.batch != problem.batch) {
    refuse(o, "has shape " + shape_text(o) + of + "takes " +
                  shape_text(problem.batch, stated.rows, stated.columns, problem.batch != 1));
  }
  if (is_empty(o)) return;
  const auto leading = leading_dimension(o, stated.row_major);
  const bool single_line = lines_of(o, stated.row_major).count <= 1 && o.batch <= 1;
  if (!leading || (!single_line && *leading != stated.leading)) {
    refuse(o, "has " + strides_text(o) + of + "takes a " + (stated.row_major ? "row" : "column") +
                  "-major one with " + text(stated.leading) + " elements between " +
                  (stated.row_major ? "rows" : "columns") +
                  "; problem_of(a, b) reads the layout from the arrays");
  }
}

}  // namespace

MemorySpace space_of(std::string_view name, const InputArray& array) {
  for (const DeviceType& known : kDeviceTypes) {
    if (known.dlpack != array.device_type()) continue;
    const bool host = known.kind == MemoryKind::host;
    return {known.kind, host ? 0 : static_cast<std::int32_t>(array.device_id())};
  }
  refuse(name, "is in the memory of DLPack device type " + text(array.device_type()) +
                   "; kernels of this version run in the memory of the CPU or of a GPU under CUDA or ROCm");
}

OutputArray writable(std::string_view name, const nb::object& array) {
  OutputArray result;
  if (nb::try_cast(array, result, false)) return result;
  const std::string why =
      std::string(name) + " must be an array that can be written to, of NumPy or with __dlpack__";
  throw nb::type_error(why.c_str());
}

DType element_type(std::string_view name, const InputArray& array) {
  const auto dtype = array.dtype();
  for (const ElementType& known : kElementTypes) {
    if (dtype.code == static_cast<std::uint8_t>(known.code) && dtype.bits == known.bits && dtype.lanes == 1)
      return known.dtype;
  }
  refuse(name,
         "holds " + type_text(dtype) +
             ", which no kernel computes with: convert to float32, with x.astype('float32') in NumPy or "
             "x.float() in PyTorch");
}

std::string convert_to(DType dtype) {
  return dtype == DType::fp32 ? ": convert to float32" : ": convert it to " + std::string(word(dtype));
}

Operand operand_of(std::string_view name, const InputArray& array) {
  Operand o{};
  o.name = name;
  o.space = space_of(name, array);
  o.dtype = element_type(name, array);
  if (array.ndim() != 2 && array.ndim() != 3) {
    refuse(o, "has " + text(static_cast<std::int64_t>(array.ndim())) +
                  " dimensions; a matrix has 2, a batch of matrices 3");
  }
  const std::size_t first = array.ndim() - 2;
  o.batch = first ? static_cast<std::int64_t>(array.shape(0)) : 1;
  o.rows = static_cast<std::int64_t>(array.shape(first));
  o.columns = static_cast<std::int64_t>(array.shape(first + 1));
  o.batch_stride = first ? array.stride(0) : 0;
  o.row_stride = array.stride(first);
  o.column_stride = array.stride(first + 1);
  return o;
}

std::array<std::int64_t, 2> joined_row_strides(std::string_view name, const InputArray& array) {
  const Operand o = operand_of(name, array);
  if (is_empty(o)) return {o.columns, 1};
  if (o.batch == 1) return {o.row_stride, o.column_stride};
  if (o.rows == 1) return {o.batch_stride, o.column_stride};
  if (o.batch_stride == o.rows * o.row_stride) return {o.row_stride, o.column_stride};
  refuse(o, "has shape " + shape_text(o) + " and " + strides_text(o) +
                "; a batch of matrices times one matrix is computed as one product, so all rows must be "
                "equally far apart: copy it first, with x.contiguous() in PyTorch or "
                "numpy.ascontiguousarray(x)");
}

GemmProblem problem_of_operands(const Operand& a, const Operand& b, const Operand* c) {
  if (a.columns != b.rows || a.batch != b.batch) {
    const bool one_times_batch = a.batch == 1 && b.batch > 1 && a.columns == b.rows;
    refuse(b, "has shape " + shape_text(b) + ", which does not fit a's " + shape_text(a) +
                  (one_times_batch ? "; repeat a for each matrix of b, with numpy.repeat(a[None], " +
                                         text(b.batch) + ", axis=0)"
                                   : std::string()));
  }
  const Order order_a = order_of(a), order_b = order_of(b);
  GemmProblem problem =
      make_gemm(a.rows, b.columns, a.columns, a.dtype, layout_of(order_a.row_major, order_b.row_major));
  problem.batch = a.batch;
  problem.lda = order_a.leading;
  problem.ldb = order_b.leading;
  problem.dtype_b = b.dtype;
  if (c) {
    problem.dtype_c = c->dtype;
    const auto leading = leading_dimension(*c, true);
    if (!leading) refuse(*c, "has " + strides_text(*c) + "; results are stored row-major");
    problem.ldc = *leading == c->columns ? 0 : *leading;
    check_operands(problem, a, b, *c);
  }
  check(problem);
  return problem;
}

void check_operands(const GemmProblem& p, const Operand& a, const Operand& b, const Operand& c) {
  for (const Operand* other : {&b, &c}) {
    if (other->space == a.space) continue;
    refuse(*other, "is in memory " + print(other->space) + ", in another memory than a (" + print(a.space) +
                       "); move one of them");
  }
  const LeadingDimensions leading = leading_dimensions(p);
  check_operand(p, a, {p.dtype_a, p.m, p.k, leading.a, row_major_a(p.layout)});
  check_operand(p, b, {p.dtype_b, p.k, p.n, leading.b, row_major_b(p.layout)});
  check_operand(p, c, {p.dtype_c, p.m, p.n, leading.c, true});
}

}  // namespace kscout::python
