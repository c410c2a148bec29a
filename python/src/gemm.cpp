#include "gemm.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <kscout/error.h>

namespace nb = nanobind;

namespace kscout::python {

namespace {

/// An array of two dimensions, or of three when the problem is batched, with its strides.
struct Operand {
  std::string_view name;  ///< "a", "b" or "c", for messages
  MemorySpace space;
  DType dtype;
  std::int64_t batch, rows, columns;
  std::int64_t batch_stride, row_stride, column_stride;  ///< elements
};

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw Error(Errc::invalid_argument, "array " + std::string(name) + " " + why);
}
[[noreturn]] void refuse(const Operand& operand, const std::string& why) { refuse(operand.name, why); }

std::string text(std::int64_t value) { return std::to_string(value); }

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

/// Throws as space_of and element_type, and invalid_argument, naming the array, unless it has 2 or 3
/// dimensions.
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

/// The strides of all rows of an array of three dimensions as one matrix; throws as with_joined_rows.
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

/// A view of an array (batch, rows, columns) as one matrix of all rows. Throws invalid_argument, naming the
/// array, when the rows of all matrices are not equally far apart.
template <class Array>
Array with_joined_rows(std::string_view name, const Array& array) {
  const std::array<std::int64_t, 2> strides = joined_row_strides(name, InputArray(array));
  const std::array<std::size_t, 2> shape = {array.shape(0) * array.shape(1), array.shape(2)};
  return Array(array.data(), shape.size(), shape.data(), nb::handle(), strides.data(), array.dtype(),
               array.device_type(), array.device_id());
}

/// Throws invalid_argument unless all arrays are in the same memory and match the problem: types, sizes,
/// layout, leading dimensions.
void check_operands(const GemmProblem& p, const Operand& a, const Operand* b, const Operand& c) {
  for (const Operand* other : {b, &c}) {
    if (!other || other->space == a.space) continue;
    refuse(*other, "is in memory " + print(other->space) + ", in another memory than a (" + print(a.space) +
                       "); move one of them");
  }
  const LeadingDimensions leading = leading_dimensions(p);
  check_operand(p, a, {p.dtype_a, p.m, p.k, leading.a, row_major_a(p.layout)});
  if (b) check_operand(p, *b, {p.dtype_b, p.k, p.n, leading.b, row_major_b(p.layout)});
  check_operand(p, c, {p.dtype_c, p.m, p.n, leading.c, true});
}

/// The problem C = A * B. `c` is null when the result will be a new, packed array.
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
    check_operands(problem, a, &b, *c);
  }
  check(problem);
  return problem;
}

Buffers matrix_buffers(const Problem& of, const ArrayCall& call, const OutputArray& c) {
  const GemmProblem problem = of.gemm();
  const Operand a = operand_of("a", call.a);
  std::optional<Operand> b;
  if (!call.b_is_packed) b = operand_of("b", call.second(of));
  check_operands(problem, a, b ? &*b : nullptr, operand_of("c", InputArray(c)));
  GemmBuffers buffers{.a = call.a.data(),
                      .b = call.b_is_packed ? nullptr : call.second(of).data(),
                      .c = c.data(),
                      .alpha = call.alpha,
                      .beta = call.beta,
                      .space = a.space};
  ArrayCall rest = call;
  // Without an epilogue that adds one, the dispatcher refuses it and says which epilogue does.
  const auto bias = rest.further.find("bias");
  if (bias != rest.further.end() && !has_bias(problem.epilogue)) {
    buffers.bias = bias->second.data();
    rest.further.erase(bias);
  }
  Buffers all = buffers;
  set_further_operands(of, rest, all);
  return all;
}

Sizes matrix_result(const Problem& of) {
  const GemmProblem problem = of.gemm();
  if (problem.batch == 1) return {problem.m, problem.n};
  return {problem.batch, problem.m, problem.n};
}

/// Whether a batch of matrices is multiplied with one matrix, which is one product of all their rows.
bool joins_rows(const InputArray& a, const InputArray& b) { return a.ndim() == 3 && b.ndim() == 2; }

}  // namespace

const ArrayOperands& gemm_operands() noexcept {
  static constexpr ArrayOperands kMatrices{matrix_buffers, matrix_result};
  return kMatrices;
}

OutputArray ArrayProduct::result(const OutputArray& c) const {
  if (!joined) return c;
  if (c.ndim() != 3) {
    throw Error(Errc::invalid_argument, "array c has " + std::to_string(c.ndim()) +
                                            " dimensions; a batch of matrices times one matrix has 3");
  }
  return with_joined_rows("c", c);
}

GemmBuffers operand_b(const Problem& problem, const InputArray& b) {
  const GemmProblem p = problem.gemm();
  const Operand operand = operand_of("b", b);
  check_operand(p, operand, {p.dtype_b, p.k, p.n, leading_dimensions(p).b, row_major_b(p.layout)});
  return {.b = b.data(), .space = operand.space};
}

ArrayProduct product_of_arrays(const ArrayCall& call) {
  const bool joined = joins_rows(call.a, *call.b);
  const auto operand = [&](const char* name, const InputArray& array) {
    return operand_of(name, joined && array.ndim() == 3 ? with_joined_rows(name, array) : array);
  };
  const Operand first = operand("a", call.a), second = operand_of("b", *call.b);
  std::optional<Operand> third;
  if (!call.c.is_none()) third = operand("c", InputArray(writable("c", call.c)));
  GemmProblem problem = problem_of_operands(first, second, third ? &*third : nullptr);
  problem.accumulate = call.beta != 0;
  ArrayProduct product{problem, call, matrix_result(problem), joined};
  if (joined) {
    product.call.a = with_joined_rows("a", call.a);
    product.result_shape = {static_cast<std::int64_t>(call.a.shape(0)),
                            static_cast<std::int64_t>(call.a.shape(1)), problem.n};
  }
  return product;
}

}  // namespace kscout::python
