#pragma once
/// \file
/// Runs fp32 GEMMs with a BLAS that is found when the program runs: what an application without KernelScout
/// does, for comparisons.
///
///     Backend& openblas = blas_backend("openblas");             // or "onednn"
///     openblas.prepare(problem, {})->run({.a = a, .b = b, .c = c}, nullptr);
///
/// A bias is copied into C first, and relu is a pass over C, as applications without fused kernels do.
/// OpenBLAS and oneDNN take the file that KSCOUT_OPENBLAS or KSCOUT_ONEDNN names, else the installed library.
/// The file may be the OpenBLAS of NumPy's or SciPy's wheel, whose functions have other names. versions()
/// names what was loaded: `file` (symbolic links followed), `release`, and `kernels`, the CPU whose kernels
/// OpenBLAS chose, or the instruction set that oneDNN uses. Facts that a library does not report are missing.
#include <string_view>

#include <kscout/backend.h>

namespace kscout {

/// The backend of a library; it has no configs of its own and ignores those that it is given. Loads the
/// library at its first use. Throws unsupported, naming files and package, when the library is missing, and
/// invalid_argument for an unknown name.
Backend& blas_backend(std::string_view library);

}  // namespace kscout
