#pragma once
/// \file
/// Rule sets that list their configs, as text: what `kscout harvest` and `kscout prune` write, and
/// `--rules FILE.toml` reads (docs/formats/family.md).
///
///     const std::string text = rule_sets_text("cublaslt", Op::gemm, {{"pruned", "help", "tiny", {block}}});
#include <string>
#include <string_view>
#include <vector>

#include <kscout/config.h>
#include <kscout/problem.h>

namespace kscout {

/// Configs of one space that exist for one signature.
struct ListedBlock {
  Signature signature;
  std::vector<KernelConfig> configs;
};

struct ListedRuleSet {
  std::string name, help;
  std::string extends;              ///< a set of the family or one before this; empty: none
  std::vector<ListedBlock> blocks;  ///< those without configs are left out
};

/// Axes on which all configs of a block agree are written once; the others as rows. A block holds where
/// dtypes, layout and epilogue are those of its signature. Throws invalid_argument: an axis without a value.
std::string rule_sets_text(std::string_view provider, Op op, const std::vector<ListedRuleSet>& sets);

}  // namespace kscout
