#pragma once
/// \file
/// Compiles the sources of a generated project in parallel and links those that compiled. Finds CUTLASS's
/// headers.
///
///     const auto result = build_project({.project = "kernels", .compiler = "hipcc", .jobs = 8});
///     for (const auto& one : result.kernels) if (!one.ok) puts(one.message.c_str());
///
/// Each compilation is a separate process, so nothing here opens a device. Kernels of a source that fails are
/// listed and left out of the library.
#include <filesystem>
#include <string>
#include <vector>

namespace kscout {

// ---- Finds CUTLASS's headers on this machine. Nothing is downloaded.

/// The include folder of CUTLASS below `root`: a checkout, an include folder, or a Python environment or
/// folder with the wheel nvidia-cutlass. An empty `root` means CUTLASS_PATH, the active Python environment,
/// or /usr. Throws not_found, listing the searched places.
std::filesystem::path find_cutlass(const std::string& root);

struct BuildRequest {
  std::filesystem::path project;
  std::string compiler;            ///< a program's name or path; empty: the emitter's default
  std::vector<std::string> flags;  ///< come before the project's own: include paths of CK, the architecture
  std::size_t jobs = 1;            ///< compilers that run at the same time
  bool check_only = false;         ///< -fsyntax-only: makes no objects and no library
};

struct BuiltKernel {
  std::string name;
  bool ok = false;
  /// The first error message when compilation failed, or a warning that the emitter marks as important.
  std::string message;
};

struct BuildResult {
  std::vector<BuiltKernel> kernels;      ///< kernels of all compiled sources, in the project's order
  std::filesystem::path library, index;  ///< empty when nothing was linked
  double seconds = 0;                    ///< wall time of compilers and linker
};

/// Keeps objects that are newer than their source and the shared headers. Throws not_found (no project, no
/// such compiler), device_failure (linking failed).
BuildResult build_project(const BuildRequest& request);

}  // namespace kscout
