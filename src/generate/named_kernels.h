#pragma once
/// \file
/// Compiles kernels that are given by name, or those of a rule set, into a kernel library.
///
///     const NamedConfig named = completed(parse_kernel_to_run(name), device);
///     const auto index = compile_kernels({.kernels = {named}, .device = device, .build = {.compiler = "hipcc"}});
///     registry.add_library(index);
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <kscout/device.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "generate/build.h"

namespace kscout {

/// The kernel itself when its name states every axis. Otherwise the first config that agrees with it and that
/// no rule refuses: of rule set `default`, then of the others, smallest first. Throws unsupported when there
/// is none.
NamedConfig completed(const NamedConfig& named, const Device& device);

struct CompileRequest {
  std::vector<NamedConfig> kernels;  ///< complete ones of one provider
  Device device;                     ///< a preset, or a device that was detected
  /// Folder of the generated project; empty: a folder of these kernels in $XDG_CACHE_HOME/kscout/kernels, or
  /// ~/.cache/kscout/kernels.
  std::filesystem::path folder = {};
  BuildRequest build = {};  ///< compiler, flags and jobs; `project` is not read
};

/// Generates, compiles and links the kernels; objects of an earlier call are used again. Returns the index of
/// the library. Throws unsupported with the reason when a kernel has no source or does not compile, and the
/// errors of generate_project and build_project.
std::filesystem::path compile_kernels(const CompileRequest& request);

/// Generates, compiles and links the kernels of a rule set for these signatures into the library `name`, in
/// the folder `build.project`. Kernels that have no source or do not compile are in the result, with the
/// reason, and not in the library. Throws unsupported when none is left, and the errors of generate_project
/// and build_project.
BuildResult compile_rule_set(const FamilyRequest& rules, std::span<const Signature> signatures,
                             const std::string& name, const BuildRequest& build);

}  // namespace kscout
