#pragma once
/// \file
/// Binds problems: the class Problem, and Gemm and Conv, which inherit from it.
#include <string>
#include <variant>

#include <nanobind/nanobind.h>
#include <nanobind/stl/variant.h>

#include <kscout/any_problem.h>

namespace kscout::python {

/// A problem argument: an object of a class of problems, or its one-line form.
using ProblemArgument = std::variant<Problem, std::string>;
Problem problem_of(const ProblemArgument& argument);

/// The problem as an object of the class of its operation.
nanobind::object as_python(const Problem& problem);

void bind_problem(nanobind::module_& module);

}  // namespace kscout::python
