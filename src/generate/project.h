#pragma once
/// \file
/// Generates a CMake project of kernels from a rule set: sources, a table, an index of the sources. Each
/// provider has an emitter for its own code.
///
///     auto report = generate_project({.family = {.provider = "ck_tile", .device = device_preset("gfx942"),
///                                                .rules = "tiny"},
///                                     .signatures = family_signatures("ck_tile"), .out = "kernels"});
///
/// Deterministic: equal requests give equal bytes. Incremental: unchanged files are not written, so their
/// modification times stay; sources of kernels that are no longer in the set are removed.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <kscout/device.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/files.h"
#include "family/family_file.h"

namespace kscout {

// ---- Describes the sources of one provider's kernels. All other parts of a generated project are the same
// for every provider: files, table, index, build (project.h, build.h).
//
//     const Emitter& emitter = emitter_of("cutlass");
//     const std::string text = emitter.unit(group, {{emitter.kernel(named)}});

/// Sources that projects and templates share, by their paths in KernelScout's source tree.
extern const std::span<const EmbeddedFile> kGeneratedFiles;

struct Emitter {
  std::string_view provider;
  std::string_view title;     ///< for messages
  std::string_view backend;   ///< backend whose memory and streams the kernels use
  std::string_view compiler;  ///< default compiler
  /// Files that every project contains besides the ABI: path in the project, and path of the original in
  /// KernelScout's source tree.
  std::span<const std::pair<std::string_view, std::string_view>> shared;
  std::size_t max_in_unit;  ///< max kernels of a group in one source

  /// Name of a kernel in its library; configs that differ in launch axes only may share one.
  std::string (*kernel_name)(const NamedConfig& kernel);
  /// Name of a kernel's group. Kernels of one group may share a source, whose file name contains the group.
  std::string (*group)(const NamedConfig& kernel);
  std::string_view extension;
  /// The definition of one kernel: its config and its entry of the table. Throws unsupported when no source
  /// can be written.
  std::string (*kernel)(const NamedConfig& kernel);
  /// The complete source of a group's kernels.
  std::string (*unit)(std::string_view group, std::span<const std::string> kernels);

  /// Compiler flags for every source, and for linking.
  std::vector<std::string> (*compile_flags)(const Device& device);
  std::vector<std::string> link_flags;
  /// A word that marks, in the compiler's output, the warnings that must be reported; empty: none.
  std::string_view warning;

  // Texts for CMakeLists.txt.
  std::string_view languages, root_variable, root_help;
  std::string (*cmake_target)(std::string_view target);  ///< lines that configure the library's target
};

/// Throws unsupported for a provider without generated sources.
const Emitter& emitter_of(std::string_view provider);

const Emitter& ck_tile_emitter();
const Emitter& cutlass_emitter();

/// The C++ identifier of a kernel in its library: "k_" and the hash of its name.
std::string kernel_symbol(std::string_view kernel_name);

// ---- Collects the members of a generated struct that holds a kernel's config.

/// Builds the lines of a struct, one member each.
class Members {
 public:
  /// `index`: the C++ type of integer members.
  explicit Members(std::string_view index) : index_(index) {}

  Members& type(std::string_view name, std::string_view value) {
    text_ += fmt::format("  using {} = {};\n", name, value);
    return *this;
  }
  Members& number(std::string_view name, std::int64_t value) {
    text_ += fmt::format("  static constexpr {} {} = {};\n", index_, name, value);
    return *this;
  }
  Members& flag(std::string_view name, bool value) {
    text_ += fmt::format("  static constexpr bool {} = {};\n", name, value);
    return *this;
  }
  Members& constant(std::string_view name, std::string_view value) {
    text_ += fmt::format("  static constexpr auto {} = {};\n", name, value);
    return *this;
  }
  Members& alias(std::string_view parameters, std::string_view name, std::string_view value) {
    text_ += fmt::format("  template <{}>\n  using {} = {};\n", parameters, name, value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string_view index_;
  std::string text_;
};

struct GenerateRequest {
  FamilyRequest family;               ///< rule set, device, filter; its signature is ignored
  std::vector<Signature> signatures;  ///< signatures to generate kernels for
  std::filesystem::path out;
  std::string name;  ///< of the library; empty: the provider's name
  /// Configs to generate instead of those of a rule set, which family.rules then names.
  std::vector<SignatureConfigs> configs = {};
  std::size_t max_kernels = kMaxKernels;  ///< more are refused before any file is written

  static constexpr std::size_t kMaxKernels = 20000;
};

struct GeneratedKernel {
  std::string name;  ///< of a config, as its provider prints it
  /// Name of its kernel in the library; configs that differ in launch axes only may share one.
  std::string kernel;
  std::string symbol;  ///< its entry in the library's table
  std::string file;    ///< its source, relative to the project; kernels may share one
};

struct LeftOut {
  std::string kernel;
  std::string because;
};

struct GenerateReport {
  std::vector<GeneratedKernel> kernels;  ///< one per config
  /// Configs of the rule set that cannot be built or are known to be wrong.
  std::vector<LeftOut> left_out;
  std::size_t written = 0, unchanged = 0, removed = 0;  ///< numbers of files

  std::size_t compiled() const;  ///< number of distinct kernels
};

/// Writes the index of sources first, so that an interrupted run can be repeated. Throws unsupported when
/// nothing of the rule set can be generated, invalid_argument for more than max_kernels, device_failure when
/// a file cannot be written, corrupt_data when `out` holds an invalid index of sources.
GenerateReport generate_project(const GenerateRequest& request);

/// The contents of a project's index of sources (sources.json). Throws not_found, corrupt_data.
struct Project {
  std::string name, provider, device;
  std::vector<GeneratedKernel> kernels;
};
Project read_project(const std::filesystem::path& folder);

/// C++ source of the table of a library with these kernels; `backend`: whose memory the kernels use.
std::string library_source(const std::vector<GeneratedKernel>& kernels, std::string_view backend);

/// Writes the library's index (docs/formats/kernel-library.md) for a shared object built from the project,
/// with the object's checksum. `kernels`: those in the shared object. Returns the path of the index.
std::filesystem::path write_library_index(const std::filesystem::path& folder,
                                          const std::filesystem::path& library,
                                          const std::vector<GeneratedKernel>& kernels);

}  // namespace kscout
