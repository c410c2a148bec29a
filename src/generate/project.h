#pragma once
/// \file
/// A CMake project of kernels from a rule set: sources, a table, an index of the sources. What is particular
/// to a provider stands in its emitter.
///
///     auto report = generate_project({.family = {.provider = "ck_tile", .device = device_preset("gfx942"),
///                                                .rules = "tiny"},
///                                     .signatures = family_signatures("ck_tile"), .out = "kernels"});
///
/// Deterministic: equal requests give equal bytes. Incremental: a file whose text has not changed is not
/// written, so that it keeps its time; sources of kernels that are no longer in the set are removed.
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

namespace kscout {

// ---- What is particular to the sources of one provider's kernels. Everything else of a generated project is
// the same: files, table, index, build (project.h, build.h).
//
//     const Emitter& emitter = emitter_of("cutlass");
//     const std::string text = emitter.unit(group, {{emitter.kernel(named)}});

struct Emitter {
  std::string_view provider;
  std::string_view title;     ///< for people
  std::string_view backend;   ///< whose memory and streams the kernels take
  std::string_view compiler;  ///< unless another one is named
  /// Files that every project has besides the ABI: where they stand in it, and whence they come.
  std::span<const std::pair<std::string_view, std::string_view>> shared;
  std::size_t max_in_unit;  ///< kernels that share a source, at most, by their group
  /// The rules about problems go into the library's index.
  bool states_applicability;

  /// What a kernel is called in its library; configs that differ in launch axes may share one.
  std::string (*kernel_name)(const NamedConfig& kernel);
  /// Kernels of one group may stand in one source; names its file.
  std::string (*group)(const NamedConfig& kernel);
  std::string_view extension;
  /// The definition of one kernel: its config and its entry of the table. Throws unsupported when no source
  /// can be written.
  std::string (*kernel)(const NamedConfig& kernel);
  /// The whole source of a group's kernels.
  std::string (*unit)(std::string_view group, std::span<const std::string> kernels);

  /// Of the compiler: for every source, and for linking.
  std::vector<std::string> (*compile_flags)(const Device& device);
  std::vector<std::string> link_flags;
  /// A word in the compiler's output that is no error but has to be told; empty: none.
  std::string_view warning;

  // CMakeLists.txt
  std::string_view languages, root_variable, root_help;
  std::string (*cmake_target)(std::string_view target);  ///< lines about the library's target
};

/// Throws unsupported when sources of the provider cannot be written.
const Emitter& emitter_of(std::string_view provider);

const Emitter& ck_tile_emitter();
const Emitter& cutlass_emitter();

/// The C++ identifier of a kernel in its library: "k_" and the hash of its name there.
std::string kernel_symbol(std::string_view kernel_name);

// ---- The members of a generated struct that holds a kernel's config.

/// Lines of a struct, one member each.
class Members {
 public:
  /// `index`: the type of whole numbers.
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
