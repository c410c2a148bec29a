#pragma once
/// \file
/// Options of verbs that compile kernels: --compiler, --ck-root, --cutlass-root, --jobs.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <kscout/any_problem.h>
#include <kscout/device.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "generate/build.h"

namespace kscout::cli {

struct CompilerOptions {
  void add_to(CLI::App& verb);
  /// Throws invalid_argument when an option is given but nothing compiles; `when` names the flags that
  /// compile.
  void refuse_unless(bool compiles, std::string_view when) const;
  /// How to build a project of a provider. Throws not_found for a compiler or headers that are not here.
  BuildRequest request(const std::string& provider, const Device& device, bool check) const;

  std::string compiler, ck_root, cutlass_root;
  std::size_t jobs = 0;
};

/// Compiles kernels of one provider for this machine's device of that provider, and returns the index of
/// their library. Names that leave axes open are completed first, in `kernels` and with a line on stderr.
/// `folder`: of the sources and the library; empty: in the user's cache. Throws the errors of compile_kernels
/// and completed.
std::filesystem::path compile_here(std::vector<NamedConfig>& kernels, const CompilerOptions& options,
                                   const std::string& folder);

/// Compiles the kernels of a rule set for these problems and this machine's device of the rules' provider
/// into a library in `folder`, and returns its index. Lists kernels that do not compile on stderr. Throws the
/// errors of compile_rule_set, and invalid_argument for problems of several operations.
std::filesystem::path compile_rules_here(FamilyRequest rules, const std::vector<Problem>& problems,
                                         const CompilerOptions& options, const std::filesystem::path& folder);

}  // namespace kscout::cli
