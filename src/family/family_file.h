#pragma once
/// \file
/// A family as data: rules, and rule sets made of blocks of axis values. Grammar: docs/formats/family.md.
///
///     const FamilyFile& file = family_file("native", Op::gemm);   // parsed once, kept
///     const RuleSet& set = file.rule_set("default");
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/config.h>
#include <kscout/family.h>
#include <kscout/problem.h>

#include "expr/expr.h"

namespace kscout {

/// A value that an axis takes in a block: a number (or the position of a word), or a formula over c., d., s.
struct AxisValue {
  std::int32_t number = 0;
  std::string formula;  ///< when not empty, decides the number for each candidate
};

/// A product of value lists, one list per axis of the space; or explicit rows over some axes (`rows`), each
/// with the product of the others.
struct ConfigBlock {
  std::vector<std::vector<AxisValue>> values;   ///< of an axis of `row_axes`: empty
  std::vector<std::size_t> row_axes;            ///< ascending
  std::vector<std::vector<std::int32_t>> rows;  ///< one value per axis of row_axes
  std::string when;   ///< formula over d. and s.: the block exists where it holds; empty: everywhere
  std::string where;  ///< "families/native_gemm.toml:12"
};

/// A rule set made of a part of another, drawn over all signatures that are asked for at once.
struct RuleSetSample {
  std::string of;         ///< the other set
  std::string by;         ///< formula: configs of equal value are one group
  std::size_t every = 0;  ///< of each group, those at positions every, 2 * every, ...; the first of a smaller
                          ///< group. 0: the first of each group
  std::string represent;  ///< formula: the first config of each value that is not in yet is added
  std::string round;      ///< formula: while fewer than `least` are in, the next config of each of its values
  std::size_t least = 0;
};

struct RuleSet {
  std::string name;
  std::string help;
  std::vector<ConfigBlock> blocks;          ///< those of the extended set first; behind its list
  std::vector<std::string> default_config;  ///< formulas by preference: the first config for which one holds
  std::string from;      ///< name of a list that a program makes (generated_list), own or of the extended set
  RuleSetSample sample;  ///< `of` is not empty: instead of blocks
  std::vector<std::string> without;  ///< rules this set skips; the build or the run step checks them
};

/// Numbers by a text key, and the formula that looks a config's number up there.
struct FactTable {
  std::string name;
  std::vector<std::pair<std::string, std::vector<double>>> rows;

  /// The numbers of a key; none when it has no row.
  std::span<const double> row(std::string_view key) const noexcept;
};

struct FamilyFile {
  const ConfigSpace* space = nullptr;
  std::string name;  ///< of the file, for messages
  std::vector<expr::Formula> formulas;
  std::vector<Rule> rules;
  std::vector<FactTable> tables;
  std::vector<RuleSet> rule_sets;     ///< as written
  std::vector<Signature> signatures;  ///< that the file is meant for, when it says so: ops, layouts, types

  /// Throws invalid_argument naming the nearest rule set.
  const RuleSet& rule_set(std::string_view wanted) const;
  /// Throws corrupt_data when the file has no such table.
  const FactTable& table(std::string_view wanted) const;
};

/// What formulas of a family may use: c. (axes), d. (device), s. (signature) and `formulas`; `for_problems`
/// adds p. (problem) and t. (traits), which only `applicability` rules see.
expr::Scope family_scope(const ConfigSpace& space, std::span<const expr::Formula> formulas,
                         bool for_problems);

/// Reads a family. Throws corrupt_data with file and line: no TOML, an unknown key, axis, word, a wrong type,
/// a formula that does not compile, a block that leaves an axis out.
FamilyFile parse_family(std::string_view toml, std::string_view file, const ConfigSpace& space);

/// The embedded file of a provider and op. Throws unsupported when there is none.
const FamilyFile& family_file(std::string_view provider, Op op);

/// The same with further rule sets from a file that holds nothing else (besides `provider` and `op`); they
/// may extend those of the family. Throws as parse_family.
FamilyFile add_rule_sets(const FamilyFile& family, std::string_view toml, std::string_view file);

/// What a request's `rules` names: a rule set of the embedded family; or FILE.toml, the last rule set of a
/// file for add_rule_sets, or FILE.toml:SET.
struct RuleSource {
  std::shared_ptr<const FamilyFile> file;
  std::string set;
};
/// Throws invalid_argument naming the nearest rule set, not_found for a file.
RuleSource find_rules(std::string_view provider, Op op, std::string_view rules);

/// The same as metadata tell it: of a file its name, as its folder is one machine's.
std::string rules_name(std::string_view rules);

/// enumerate() on a given file: what tests call with families of their own. `request.provider` is not read.
ConfigTable enumerate_configs(const FamilyFile& file, const FamilyRequest& request,
                              EnumerationReport* report);
/// Of a list of configs, those that the rules of `request.rules` and the filter admit, each once.
ConfigTable admitted_configs(const FamilyFile& file, const FamilyRequest& request,
                             const ConfigTable& configs);

/// What a rule set holds for one signature.
struct SignatureConfigs {
  Signature signature;
  ConfigTable configs;
};
/// A rule set over several signatures of one provider and device at once, in their order: what a set that
/// samples another one has to see. `request.signature` is not read; a filter leaves out configs at the end.
std::vector<SignatureConfigs> enumerate_signatures(const FamilyRequest& request,
                                                   std::span<const Signature> signatures);

/// The signatures that the families of a provider are meant for, over all its ops, as the files say.
std::vector<Signature> family_signatures(std::string_view provider);

/// The sample of `set` among `full`, what its `sample.of` holds; by signature, in order. Part of enumerate.
std::vector<SignatureConfigs> sample_rule_set(const FamilyFile& file, const RuleSet& set,
                                              const Device& device,
                                              const std::vector<SignatureConfigs>& full);

/// For each config: why a legal or worth rule refuses it, also one that the rule set leaves to others to ask
/// ("lds-fits: ..."); empty when none does.
std::vector<std::string> refusals_of_all_rules(const FamilyFile& file, const FamilyRequest& request,
                                               const ConfigTable& configs);

/// why_not() on a given file.
std::vector<Rule> why_not_in(const FamilyFile& file, const FamilyRequest& request,
                             const KernelConfig& config);

// ---- Generated lists: rule sets made by a program, because tables that refer to each other decide and not a
// product of axes.
//
//     ConfigTable configs = generated_list("curated-conv", file, signature, device);

/// What the list called `name` (a rule set's `from`) holds for a signature and device, in its order, before
/// any rule is asked. Throws corrupt_data for an unknown list.
ConfigTable generated_list(std::string_view name, const FamilyFile& file, const Signature& signature,
                           const Device& device);

/// CK Tile's curated grouped convolutions, from families/ck_tile_conv_lists.toml.
ConfigTable curated_conv(const FamilyFile& file, const Signature& signature, const Device& device);

// ---- why_not_in() with how far away the config is, for who compares answers.

/// Why a rule set does not have a config.
struct WhyNot {
  std::vector<Rule> refusing;  ///< none: it has it
  /// On how many axes the config differs from the nearest block; the largest number when there is none.
  std::size_t axes_outside = std::numeric_limits<std::size_t>::max();
};

WhyNot why_not(const FamilyFile& file, const FamilyRequest& request, const KernelConfig& config);

// ---- A joint family's members: what their rule sets hold, and their rules about problems, in the joint
// space.

/// A list "members: PROVIDER SET, PROVIDER SET": the configs of each member in turn. A member that has none
/// for the signature and device adds nothing. Throws corrupt_data for a list of another form.
ConfigTable members_of(std::string_view list, const FamilyFile& file, const Signature& signature,
                       const Device& device);

/// why_not() of a joint config and such a list: the answer of its member's rule set.
WhyNot why_not_members(std::string_view list, const FamilyFile& file, const FamilyRequest& request,
                       const KernelConfig& config);

/// The members' applicability rules, each asked of the configs of its member; none when the provider is not a
/// joint one.
std::vector<Rule> members_applicability_rules(std::string_view provider, Op op);

/// Rule set of measurements whose configs come from no rules (imports, kernel libraries, CK Tile's
/// benchmarks): a model of them chooses among what was measured.
inline constexpr std::string_view kMeasuredRules = "measured";

inline constexpr std::string_view kMembersList = "members:";

// ---- Rule sets that list their configs, as text: what `kscout harvest` and `kscout prune` write, and
// `--rules FILE.toml` reads (docs/formats/family.md).
//
//     const std::string text = rule_sets_text("cublaslt", Op::gemm, {{"pruned", "help", "tiny", {block}}});

/// Configs of one space that exist for one signature.
struct ExplicitBlock {
  Signature signature;
  std::vector<KernelConfig> configs;
};

struct ExplicitRuleSet {
  std::string name, help;
  std::string extends;                ///< a set of the family or one before this; empty: none
  std::vector<ExplicitBlock> blocks;  ///< those without configs are left out
};

/// Axes on which all configs of a block agree are written once; the others as rows. A block holds where
/// dtypes, layout and epilogue are those of its signature. Throws invalid_argument: an axis without a value.
std::string rule_sets_text(std::string_view provider, Op op, const std::vector<ExplicitRuleSet>& sets);

}  // namespace kscout
