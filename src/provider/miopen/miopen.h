#pragma once
/// \file
/// Describes the solvers of AMD's MIOpen (provider `miopen`): its convolution kernels, as its find database
/// names them. Needs neither the library nor a GPU; nothing here runs a solver.
///
///     const KernelConfig config = miopen_config(Op::conv_fwd, "GemmFwd1x1_0_1");
///
/// A config is a solver; its algorithm follows from it. A solver chooses tiles of its own for each problem,
/// so that a config has no tile sizes. The library decides which problems a solver takes.
///
/// Names follow this grammar:
///
///     name = "miopen_" op "_" dtype "_" layout "__" solver
///
/// for example miopen_conv_bwd_weight_fp16_nhwgc__ConvAsmImplicitGemmGTCDynamicWrwXdlopsNHWC.
#include <optional>
#include <span>
#include <string_view>

#include <kscout/provider.h>

namespace kscout {

/// A solver, its algorithm as MIOpen's enum names it without "miopenConvolution<direction>Algo", and the
/// directions that it computes.
struct MiopenSolver {
  std::string_view name, algorithm;
  bool forward, backward_data, backward_weight;

  bool computes(Op op) const noexcept {
    return op == Op::conv_fwd        ? forward
           : op == Op::conv_bwd_data ? backward_data
                                     : op == Op::conv_bwd_weight && backward_weight;
  }
};

/// Every solver that this version knows, in the order of axis `solver`.
std::span<const MiopenSolver> miopen_solvers() noexcept;

const Provider& miopen_provider();
/// The config of a solver; nothing for a name that is not known.
std::optional<KernelConfig> miopen_config(Op op, std::string_view solver);

}  // namespace kscout
