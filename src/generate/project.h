#pragma once
/// \file
/// A CMake project of kernels from a rule set: sources, a table, an index of the sources. What is particular
/// to a provider stands in its emitter (emitter.h).
///
///     auto report = generate_project({.family = {.provider = "ck_tile", .device = device_preset("gfx942"),
///                                                .rules = "tiny"},
///                                     .signatures = family_signatures("ck_tile"), .out = "kernels"});
///
/// Deterministic: equal requests give equal bytes. Incremental: a file whose text has not changed is not
/// written, so that it keeps its time; sources of kernels that are no longer in the set are removed.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <kscout/family.h>

namespace kscout {

struct GenerateRequest {
  FamilyRequest family;               ///< rule set, device, filter; its signature is not read
  std::vector<Signature> signatures;  ///< what to generate for
  std::filesystem::path out;
  std::string name;  ///< of the library; empty: the provider's
};

struct GeneratedKernel {
  std::string name;    ///< of a config that it runs, as its provider prints it
  std::string kernel;  ///< in its library; configs that differ in launch axes may share one
  std::string symbol;  ///< its entry of the library's table
  std::string file;    ///< its source, relative to the project; kernels may share one
};

struct LeftOut {
  std::string kernel;
  std::string because;
};

struct GenerateReport {
  std::vector<GeneratedKernel> kernels;  ///< one per config
  std::vector<LeftOut> left_out;         ///< in the rule set, but cannot be built or is known to be wrong
  std::size_t written = 0, unchanged = 0, removed = 0;  ///< files

  std::size_t compiled() const;  ///< different kernels
};

/// Throws unsupported when nothing of the rule set can be generated, device_failure when a file cannot be
/// written, corrupt_data when `out` holds an index of sources that is none.
GenerateReport generate_project(const GenerateRequest& request);

/// What a project's index of sources (sources.json) says. Throws not_found, corrupt_data.
struct Project {
  std::string name, provider, device;
  std::vector<GeneratedKernel> kernels;
};
Project read_project(const std::filesystem::path& folder);

/// The table of a library that holds these kernels, as C++; `backend`: whose memory they take.
std::string library_source(const std::vector<GeneratedKernel>& kernels, std::string_view backend);

/// Writes the library's index (docs/formats/kernel-library.md) for a shared object that was built from the
/// project, with its checksum. `kernels`: those that it holds. Returns the index' path.
std::filesystem::path write_library_index(const std::filesystem::path& folder,
                                          const std::filesystem::path& library,
                                          const std::vector<GeneratedKernel>& kernels);

}  // namespace kscout
