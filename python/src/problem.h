#pragma once
/// \file
/// Binds problems: the classes Gemm and Conv.
#include <string>
#include <variant>

#include <nanobind/nanobind.h>
#include <nanobind/stl/variant.h>

#include <kscout/any_problem.h>

namespace kscout::python {

/// A problem argument: a Gemm or its text.
using ProblemArgument = std::variant<GemmProblem, std::string>;
GemmProblem problem_of(const ProblemArgument& argument);

/// A problem argument of functions that also accept convolutions.
using AnyProblemArgument = std::variant<GemmProblem, ConvProblem, std::string>;
Problem any_problem_of(const AnyProblemArgument& argument);

/// Calls use(problem) with the problem as its class in Python.
template <class F>
decltype(auto) with_class(const Problem& problem, F&& use) {
  if (problem.is<GemmProblem>()) return use(problem.as<GemmProblem>());
  return use(problem.as<ConvProblem>());
}

void bind_problem(nanobind::module_& module);

}  // namespace kscout::python
