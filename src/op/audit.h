#pragma once
/// \file
/// What an audit of a library needs to know of an operation (Operation::run_properties, Operation::pytorch).
#include <string>
#include <vector>

#include "op/operation.h"

namespace kscout {

std::vector<RunProperty> gemm_run_properties();
std::vector<RunProperty> conv_run_properties();
std::string pytorch_of(const GemmProblem& problem);
std::string pytorch_of(const ConvProblem& problem);

}  // namespace kscout
