#include "problem.h"

#include "fields.h"

namespace kscout::python {

namespace {

/// The constructor's signature for stubs: sizes, the types that all operands share, then every other field.
std::string constructor_signature() {
  std::string text = "def __init__(self, m: int, n: int, k: int, dtype: " + python_type<DType>() +
                     " = 'fp32', layout: " + python_type<Layout>() + " = 'rcr', *";
  const GemmProblem plain;
  std::size_t index = 0;
  for_each_field<GemmProblem>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    if (++index <= 3 || field.name == "layout") return;
    text += ", " + std::string(field.name) + ": " + python_type<V>();
    // The element types of B, C and the accumulator follow dtype.
    text += std::is_same_v<V, DType> ? std::string(" = ...")
                                     : " = " + std::string(nb::repr(to_python(plain.*field.member)).c_str());
  });
  return text + ") -> None";
}

std::string fields_signature(const char* name, const char* result) {
  std::string text = "def " + std::string(name) + "(self, *";
  for_each_field<GemmProblem>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    text += ", " + std::string(field.name) + ": " + python_type<V>() + " = ...";
  });
  return text + ") -> " + result;
}

GemmProblem checked(GemmProblem problem, const nb::kwargs& fields) {
  set_fields(problem, fields);
  check(problem);
  return problem;
}

}  // namespace

GemmProblem problem_of(const ProblemArgument& argument) {
  if (const auto* text = std::get_if<std::string>(&argument)) return parse_problem(*text);
  return std::get<GemmProblem>(argument);
}

void bind_problem(nb::module_& module) {
  nb::class_<GemmProblem> gemm(
      module, "Gemm",
      "C(m,n) = alpha * A(m,k) * B(k,n) + beta * C, `batch` times. Immutable, fit as a "
      "dict's key.\n\n"
      "    Gemm(16, 4096, 4096)                          # fp32, rcr\n"
      "    Gemm(16, 4096, 4096, 'bf16', 'rrr', batch=2)\n"
      "    Gemm('gemm:16x4096x4096:bf16:rrr:batch=2')    # its one-line form: str(problem)");
  const std::string constructor = constructor_signature();
  gemm.def(
      "__init__",
      [](GemmProblem* self, std::int64_t m, std::int64_t n, std::int64_t k, std::string_view dtype,
         std::string_view layout, const nb::kwargs& fields) {
        new (self)
            GemmProblem(checked(make_gemm(m, n, k, parse<DType>(dtype), parse<Layout>(layout)), fields));
      },
      nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::arg("dtype") = "fp32", nb::arg("layout") = "rcr",
      nb::arg("fields"), nb::sig(constructor.c_str()));
  gemm.def(
      "__init__",
      [](GemmProblem* self, std::string_view text) { new (self) GemmProblem(parse_problem(text)); },
      nb::arg("text"), nb::sig("def __init__(self, text: str) -> None"));
  bind_fields<GemmProblem>(gemm, false);

  const std::string replace = fields_signature("replace", "Gemm");
  gemm.def(
      "replace",
      [](const GemmProblem& problem, const nb::kwargs& fields) { return checked(problem, fields); },
      nb::arg("fields"), nb::sig(replace.c_str()), "The same problem with other values in some fields.");
  gemm.def("as_dict", &fields_dict<GemmProblem>, nb::sig("def as_dict(self) -> dict[str, typing.Any]"),
           "Every field by name.");
  gemm.def_prop_ro("flops", &flop_count, "Operations: 2 m n k batch.");
  gemm.def_prop_ro("least_bytes", &least_bytes, "Bytes moved at least: A and B read once, C written once.");
  gemm.def(
      "__eq__", [](const GemmProblem& a, const GemmProblem& b) { return a == b; }, nb::is_operator(),
      nb::sig("def __eq__(self, other: object, /) -> bool"));
  gemm.def("__hash__", [](const GemmProblem& p) { return fields_hash(p); });
  gemm.def("__str__", [](const GemmProblem& p) { return print(p); });
  gemm.def("__repr__", [](const GemmProblem& p) { return "Gemm('" + print(p) + "')"; });
  gemm.def("__getstate__", [](const GemmProblem& p) { return print(p); });
  gemm.def("__setstate__",
           [](GemmProblem& p, std::string_view text) { new (&p) GemmProblem(parse_problem(text)); });
}

}  // namespace kscout::python
