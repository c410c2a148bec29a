#pragma once
/// \file
/// Operands that a dispatcher packed once for many calls, and where a call's kernel runs.
#include <cstdint>

#include <kscout/dispatcher.h>

#include "arrays.h"
#include "convolution.h"
#include "operands.h"

namespace kscout::python {

/// Where a call's kernel runs: `stream` is a cudaStream_t or hipStream_t, or 0 for the GPU's default queue.
RunOn run_on(std::uintptr_t stream, const MemorySpace& space, const Limits& limits = {});

/// The array for the result: the one given as c, or a new one. Throws for arguments that go only with others.
nanobind::object result_of(const Problem& problem, const ArrayCall& call, const Sizes& shape);

/// A filter that a dispatcher packed for images of one shape. The dispatcher lives as long.
struct PackedConvolution {
  Dispatcher* dispatcher;
  int axes;
  PackedFilter filter;
  MemorySpace space;

  const char* image() const { return filter.problem().op() == Op::conv_fwd ? "x" : "grad_output"; }
};

PackedConvolution pack_convolution(Dispatcher& dispatcher, int axes, const ArrayConvolution& of,
                                   std::uintptr_t stream);

/// A GEMM's B that a dispatcher packed. The dispatcher lives as long.
struct PackedB {
  Dispatcher* dispatcher;
  PackedFilter filter;
};

/// Python's classes PackedConvolution and PackedB.
void bind_packed(nanobind::module_& module);

}  // namespace kscout::python
