#pragma once
/// \file
/// Compiles the sources of a generated project, several at once, and links what compiled; finds CUTLASS's
/// headers.
///
///     const auto result = build_project({.project = "kernels", .compiler = "hipcc", .jobs = 8});
///     for (const auto& one : result.kernels) if (!one.ok) puts(one.message.c_str());
///
/// Each source is a process of its own, so nothing here opens a device. What fails is listed and left out of
/// the library, with the kernels that share its source.
#include <filesystem>
#include <string>
#include <vector>

namespace kscout {

// ---- Where CUTLASS's headers are on this machine. They are found, never brought.

/// The include folder of CUTLASS: below `root` (a checkout, an include folder, or a Python environment or
/// folder with the wheel nvidia-cutlass); without one, below CUTLASS_PATH, the active Python environment, or
/// /usr. Throws not_found with the places that were looked at.
std::filesystem::path find_cutlass(const std::string& root);

struct BuildRequest {
  std::filesystem::path project;
  std::string compiler;            ///< a program's name or path; empty: the emitter's
  std::vector<std::string> flags;  ///< before the project's own: includes of CK, the architecture
  std::size_t jobs = 1;            ///< compilers at once
  bool check_only = false;         ///< -fsyntax-only: no objects, no library
};

struct BuiltKernel {
  std::string name;
  bool ok = false;
  std::string message;  ///< the compiler's first complaint when it failed, or what it warned of
};

struct BuildResult {
  std::vector<BuiltKernel> kernels;      ///< those compiled, in the project's order
  std::filesystem::path library, index;  ///< empty when nothing was linked
  double seconds = 0;                    ///< that compilers and linker took, by the clock
};

/// Objects that are newer than their source and the shared headers are kept. Throws not_found (no project, no
/// such compiler), device_failure (linking failed).
BuildResult build_project(const BuildRequest& request);

}  // namespace kscout
