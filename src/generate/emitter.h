#pragma once
/// \file
/// What is particular to the sources of one provider's kernels. Everything else of a generated project is the
/// same: files, table, index, build (project.h, build.h).
///
///     const Emitter& emitter = emitter_of("cutlass");
///     const std::string text = emitter.unit(group, {{emitter.kernel(named)}});
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <kscout/device.h>
#include <kscout/provider.h>

namespace kscout {

struct Emitter {
  std::string_view provider;
  std::string_view title;     ///< for people
  std::string_view backend;   ///< whose memory and streams the kernels take
  std::string_view compiler;  ///< unless another one is named
  /// Files that every project has besides the ABI: where they stand in it, and whence they come.
  std::span<const std::pair<std::string_view, std::string_view>> shared;
  std::size_t most_in_unit;  ///< kernels that share a source, at most, by their group
  /// The rules about problems go into the library's index.
  bool states_serves;

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

}  // namespace kscout
