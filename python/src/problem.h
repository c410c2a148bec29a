#pragma once
/// \file
/// Problems: the class Gemm.
#include <string>
#include <variant>

#include <nanobind/nanobind.h>
#include <nanobind/stl/variant.h>

#include <kscout/problem.h>

namespace kscout::python {

/// What functions take for a problem: a Gemm or its one-line form.
using ProblemArgument = std::variant<GemmProblem, std::string>;
GemmProblem problem_of(const ProblemArgument& argument);

void bind_problem(nanobind::module_& module);

}  // namespace kscout::python
