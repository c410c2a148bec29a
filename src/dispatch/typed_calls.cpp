// Implements the functions of Dispatcher for GEMMs and convolutions.
#include <kscout/dispatcher.h>

#include "core/fail.h"
#include "op/operation.h"

namespace kscout {

namespace {

/// The tensors of a convolution as operands.
Buffers buffers_of(const ConvProblem& problem, const ConvTensors& tensors) {
  check(problem);
  return operands_of(problem.op, tensors);
}

[[noreturn]] void refuse_packed(const PackedFilter& packed, std::string_view given) {
  fail(Errc::invalid_argument, "{} was packed: a run of it takes no {}", print(packed.problem()), given);
}

}  // namespace

Solution Dispatcher::run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on) {
  return run(ProblemRef(problem), Buffers(buffers), on);
}
Solution Dispatcher::run(const ConvProblem& problem, const ConvTensors& tensors, const RunOn& on) {
  return run(ProblemRef(problem), buffers_of(problem, tensors), on);
}

void Dispatcher::run_explicit(const GemmProblem& problem, const KernelConfig& config,
                              const GemmBuffers& buffers, const RunOn& on) {
  run_explicit(ProblemRef(problem), config, Buffers(buffers), on);
}
void Dispatcher::run_explicit(const ConvProblem& problem, const KernelConfig& config,
                              const ConvTensors& tensors, const RunOn& on) {
  run_explicit(ProblemRef(problem), config, buffers_of(problem, tensors), on);
}

PackedFilter Dispatcher::pack_filter(const ConvProblem& problem, const ConvTensors& tensors, Stream stream) {
  check(problem);
  ConvProblem packed = problem;
  packed.prepacked = true;
  check(packed);
  return pack(packed, operands_of(packed.op, tensors), stream);
}
PackedFilter Dispatcher::pack_b(const GemmProblem& problem, const GemmBuffers& b, Stream stream) {
  check(problem);
  if (operation(Op::gemm).is_empty(problem))
    fail(Errc::invalid_argument, "{}: C is empty, so there is no B to pack", print(problem));
  return pack(problem, b, stream);
}

Solution Dispatcher::run(const PackedFilter& filter, const ConvTensors& tensors, const RunOn& on) {
  if (!filter.problem().is<ConvProblem>()) refuse_packed(filter, "tensors of a convolution");
  return run_packed(filter, operands_of(filter.problem().op(), tensors), on);
}
Solution Dispatcher::run(const PackedFilter& b, const GemmBuffers& buffers, const RunOn& on) {
  if (!b.problem().is<GemmProblem>()) refuse_packed(b, "operands of a GEMM");
  return run_packed(b, buffers, on);
}

}  // namespace kscout
