#pragma once
/// \file
/// Problems: the classes Gemm and Conv.
#include <string>
#include <variant>

#include <nanobind/nanobind.h>
#include <nanobind/stl/variant.h>

#include <kscout/any_problem.h>

namespace kscout::python {

/// What functions take for a problem: a Gemm or its one-line form.
using ProblemArgument = std::variant<GemmProblem, std::string>;
GemmProblem problem_of(const ProblemArgument& argument);

/// Where convolutions are taken, too.
using AnyProblemArgument = std::variant<GemmProblem, ConvProblem, std::string>;
Problem any_problem_of(const AnyProblemArgument& argument);

void bind_problem(nanobind::module_& module);

}  // namespace kscout::python
