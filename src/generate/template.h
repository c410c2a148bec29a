#pragma once
/// \file
/// Writes a kernel library to begin from: a source, the family that declares its axes, and the header of the
/// interface.
///
///     write_template("mine", "mine", Op::gemm);   // mine/mine.c, mine/mine.kscout-family.toml, mine/kscout/kernel_library.h
#include <filesystem>
#include <string>
#include <vector>

#include <kscout/types.h>

namespace kscout {

/// Returns the files. `name`: of the provider and the source. Throws invalid_argument for a name that no
/// provider may have or a file that exists, unsupported for an operation without a template (gemm and
/// conv_fwd have one).
std::vector<std::filesystem::path> write_template(const std::filesystem::path& folder,
                                                  const std::string& name, Op op);

}  // namespace kscout
