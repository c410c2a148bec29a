#include "problem.h"

#include <algorithm>

#include "fields.h"

namespace kscout::python {

namespace {

/// The arguments in a stub, "bach=2, ...": every field except those in `skip`. Defaults that depend on the
/// type are `...`.
template <class P>
std::string keyword_fields(const P& plain, std::initializer_list<std::string_view> skip) {
  std::string text;
  for_each_field<P>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    if (std::ranges::find(skip, field.name) != skip.end()) return;
    text += ", " + std::string(field.name) + ": " + python_type<V>();
    // The element types of the other operands follow dtype.
    text += std::is_same_v<V, DType> ? std::string(" = ...")
                                     : " = " + std::string(nb::repr(to_python(plain.*field.member)).c_str());
  });
  return text;
}

std::string word_arguments(const char* layout) {
  return "dtype: " + python_type<DType>() + " = 'fp32', layout: " + python_type<Layout>() + " = '" + layout +
         "', *";
}

/// The general names of a convolution, in a stub.
std::string general_arguments(const char* value) {
  std::string text;
  for (const char* const name : {"stride", "dilation", "pad"})
    text += ", " + std::string(name) + ": int | typing.Sequence[int]" + value;
  for (const char* const name : {"pad_d", "pad_h", "pad_w"})
    text += ", " + std::string(name) + ": int" + value;
  return text;
}

template <class P>
std::string fields_signature(const char* name, const char* result) {
  std::string text = "def " + std::string(name) + "(self, *, dtype: " + python_type<DType>() + " = ...";
  if constexpr (std::is_same_v<P, ConvProblem>) text += general_arguments(" = ...");
  for_each_field<P>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    text += ", " + std::string(field.name) + ": " + python_type<V>() + " = ...";
  });
  return text + ") -> " + result;
}

template <class P>
P checked(P problem, const nb::kwargs& fields) {
  set_keywords(problem, fields);
  check(problem);
  return problem;
}

GemmProblem parsed(std::string_view text, const GemmProblem* /*kind*/) { return parse_problem(text); }
ConvProblem parsed(std::string_view text, const ConvProblem* /*kind*/) { return parse_conv_problem(text); }

/// The methods that the classes of problems share.
template <class P>
void bind_problem_class(nb::class_<P>& type, const char* name) {
  type.def(
      "__init__",
      [](P* self, std::string_view text) { new (self) P(parsed(text, static_cast<P*>(nullptr))); },
      nb::arg("text"), nb::sig("def __init__(self, text: str) -> None"));
  bind_fields<P>(type, false);
  const std::string replace = fields_signature<P>("replace", name);
  type.def(
      "replace", [](const P& problem, const nb::kwargs& fields) { return checked(problem, fields); },
      nb::arg("fields"), nb::sig(replace.c_str()),
      "The same problem with other values in some fields; general names, such as dtype, as in the "
      "constructor.");
  type.def("as_dict", &fields_dict<P>, nb::sig("def as_dict(self) -> dict[str, typing.Any]"),
           "Every field by name.");
  type.def(
      "__eq__", [](const P& a, const P& b) { return a == b; }, nb::is_operator(),
      nb::sig("def __eq__(self, other: object, /) -> bool"));
  type.def("__hash__", [](const P& p) { return fields_hash(p); });
  type.def("__str__", [](const P& p) { return print(p); });
  type.def("__repr__", [quoted = std::string(name) + "('"](const P& p) { return quoted + print(p) + "')"; });
  type.def("__getstate__", [](const P& p) { return print(p); });
  type.def("__setstate__",
           [](P& p, std::string_view text) { new (&p) P(parsed(text, static_cast<P*>(nullptr))); });
}

void bind_gemm(nb::module_& module) {
  nb::class_<GemmProblem> gemm(
      module, "Gemm",
      "C(m,n) = alpha * A(m,k) * B(k,n) + beta * C, `batch` times. Immutable, fit as a "
      "dict's key.\n\n"
      "    Gemm(16, 4096, 4096)                          # fp32, rcr\n"
      "    Gemm(16, 4096, 4096, 'bf16', 'rrr', batch=2)\n"
      "    Gemm('gemm:16x4096x4096:bf16:rrr:batch=2')    # its one-line form: str(problem)");
  const std::string constructor = "def __init__(self, m: int, n: int, k: int, " + word_arguments("rcr") +
                                  keyword_fields(GemmProblem{}, {"m", "n", "k", "layout"}) + ") -> None";
  gemm.def(
      "__init__",
      [](GemmProblem* self, std::int64_t m, std::int64_t n, std::int64_t k, std::string_view dtype,
         std::string_view layout, const nb::kwargs& fields) {
        new (self)
            GemmProblem(checked(make_gemm(m, n, k, parse<DType>(dtype), parse<Layout>(layout)), fields));
      },
      nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::arg("dtype") = "fp32", nb::arg("layout") = "rcr",
      nb::arg("fields"), nb::sig(constructor.c_str()));
  bind_problem_class(gemm, "Gemm");
  gemm.def_prop_ro(
      "flops", [](const GemmProblem& p) { return flop_count(p); }, "Operations: 2 m n k batch.");
  gemm.def_prop_ro(
      "min_bytes", [](const GemmProblem& p) { return min_bytes(p); },
      "Bytes moved at least: A and B read once, C written once.");
}

void bind_conv(nb::module_& module) {
  nb::class_<ConvProblem> conv(
      module, "Conv",
      "A grouped convolution of any direction; c and k count the channels of all groups together. "
      "Immutable, fit as a dict's key.\n\n"
      "    Conv(8, 64, 128, 28, 28, 3, 3, 'bf16', pad=1)          # conv_fwd, nhwgc\n"
      "    Conv(8, 64, 128, 28, 28, 3, 3, 'bf16', op='conv_bwd_data', stride=2, pad=1)\n"
      "    Conv('conv_fwd:8x64x28x28:128x3x3:bf16:nhwgc:pad=1')  # its one-line form: str(problem)\n\n"
      "`pad`, `stride` and `dilation` stand for all axes: a number, or one per axis (pad=(0, 3) is height "
      "and width); `pad_h`, `pad_w`, `pad_d` for both sides. A specific field wins: pad=1, left_pad_h=3.");
  const std::string constructor =
      "def __init__(self, n: int, c: int, k: int, h: int, w: int, y: int = 1, x: int = 1, " +
      word_arguments("nhwgc") + general_arguments(" = ...") +
      keyword_fields(ConvProblem{}, {"n", "c", "k", "h", "w", "y", "x", "layout"}) + ") -> None";
  conv.def(
      "__init__",
      [](ConvProblem* self, std::int64_t n, std::int64_t c, std::int64_t k, std::int64_t h, std::int64_t w,
         std::int64_t y, std::int64_t x, std::string_view dtype, std::string_view layout,
         const nb::kwargs& fields) {
        ConvProblem problem = make_conv(Op::conv_fwd, parse<DType>(dtype), parse<Layout>(layout));
        problem.n = n, problem.c = c, problem.k = k, problem.h = h, problem.w = w, problem.y = y,
        problem.x = x;
        new (self) ConvProblem(checked(problem, fields));
      },
      nb::arg("n"), nb::arg("c"), nb::arg("k"), nb::arg("h"), nb::arg("w"), nb::arg("y") = 1,
      nb::arg("x") = 1, nb::arg("dtype") = "fp32", nb::arg("layout") = "nhwgc", nb::arg("fields"),
      nb::sig(constructor.c_str()));
  bind_problem_class(conv, "Conv");
  conv.def_prop_ro(
      "flops", [](const ConvProblem& p) { return flop_count(p); },
      "Operations: 2 n k outputs c/g filter, the same for all directions.");
  conv.def_prop_ro(
      "min_bytes", [](const ConvProblem& p) { return min_bytes(p); },
      "Bytes moved at least: each of the three tensors once.");
}

}  // namespace

GemmProblem problem_of(const ProblemArgument& argument) {
  if (const auto* text = std::get_if<std::string>(&argument)) return parse_problem(*text);
  return std::get<GemmProblem>(argument);
}

Problem any_problem_of(const AnyProblemArgument& argument) {
  if (const auto* text = std::get_if<std::string>(&argument)) return parse_any_problem(*text);
  if (const auto* conv = std::get_if<ConvProblem>(&argument)) return *conv;
  return std::get<GemmProblem>(argument);
}

void bind_problem(nb::module_& module) {
  bind_gemm(module);
  bind_conv(module);
}

}  // namespace kscout::python
