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
#include <string_view>

#include <kscout/provider.h>

namespace kscout {

const Provider& miopen_provider();
/// The config of a solver; nothing for a name that is not known.
std::optional<KernelConfig> miopen_config(Op op, std::string_view solver);

}  // namespace kscout
