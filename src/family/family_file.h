#pragma once
/// \file
/// Reads a family from data: rules, and rule sets made of blocks of axis values. Grammar:
/// docs/formats/family.md.
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

/// A value of an axis in a block: a number (or the position of a word), or a formula over c., d., s.
struct AxisValue {
  std::int32_t number = 0;
  std::string formula;  ///< when not empty, computes the number for each candidate
};

/// A product of value lists, one list per axis of the space; or explicit rows over some axes (`rows`), each
/// combined with the product of the other axes. Formulas of a row read only axes outside `row_axes`.
struct ConfigBlock {
  std::vector<std::vector<AxisValue>> values;  ///< empty for the axes of `row_axes`
  std::vector<std::size_t> row_axes;           ///< ascending
  std::vector<std::vector<AxisValue>> rows;    ///< one value per axis of row_axes
  std::string when;   ///< formula over d. and s.: the block exists where it is true; empty: everywhere
  std::string where;  ///< "families/native_gemm.toml:12"
};

/// A sample of another rule set, drawn over all requested signatures at once.
struct RuleSetSample {
  std::string of;         ///< the sampled set
  std::string by;         ///< formula: configs with equal values form one group
  std::size_t every = 0;  ///< takes positions `every`, 2 * `every`, ... of each group, and the first config
                          ///< of a smaller group. 0: the first of each group
  std::string represent;  ///< formula: adds the first config of each of its values that the sample lacks
  std::string round;  ///< formula: while the sample has fewer than `least` configs, adds the next config of
                      ///< each value
  std::size_t least = 0;
};

struct RuleSet {
  std::string name;
  std::string help;
  std::vector<ConfigBlock> blocks;  ///< in order: blocks of the extended set, then own blocks
  /// Formulas in order of preference: the first config that satisfies one.
  std::vector<std::string> default_config;
  std::string from;      ///< generated list (generated_list), own or of the extended set; precedes the blocks
  RuleSetSample sample;  ///< used instead of blocks when `of` is not empty
  std::vector<std::string> without;  ///< rules this set skips; the build or the run step checks them
};

/// Lists of numbers, each under a text key. A family also gets a formula with the table's name: whether a
/// config's number is in the list of the config's key.
struct FactTable {
  std::string name;
  std::vector<std::pair<std::string, std::vector<double>>> rows;

  /// The numbers of a key; empty when the key has no row.
  std::span<const double> row(std::string_view key) const noexcept;
};

struct FamilyFile {
  const ConfigSpace* space = nullptr;
  std::string name;  ///< name of the file, for messages
  std::vector<expr::Formula> formulas;
  std::vector<Rule> rules;
  std::vector<FactTable> tables;
  std::vector<RuleSet> rule_sets;     ///< in the order of the file
  std::vector<Signature> signatures;  ///< signatures that the file declares: ops, layouts, types
  /// Releases of the provider's library (axis `version`) that the rules were measured with; empty where the
  /// axis is absent or does not matter.
  std::vector<std::int32_t> releases = {};
  /// Formula over c., d., s., p., t. and `formulas`: whether a config computes equal bits in every run.
  /// Empty: not known of any config.
  std::string deterministic = {};
  /// Such a formula: bytes of workspace that a config needs at most. Empty: not known.
  std::string workspace_bytes = {};
  /// The headers with which a compiler accepted generated kernels, and a formula over c., d., s. for their
  /// kinds. Empty: the provider's kernels are not generated as source.
  std::string compiled_against = {}, compiled_where = {};

  /// Throws invalid_argument naming the nearest rule set.
  const RuleSet& rule_set(std::string_view wanted) const;
  /// Throws corrupt_data when the file does not contain the table.
  const FactTable& table(std::string_view wanted) const;
};

/// The names that formulas of a family may use: c. (axes), d. (device), s. (signature) and `formulas`;
/// `for_problems` adds p. (problem) and t. (traits), which only `applicability` rules may read.
expr::Scope family_scope(const ConfigSpace& space, std::span<const expr::Formula> formulas,
                         bool for_problems);

/// Reads a family. Throws corrupt_data with file and line: invalid TOML, an unknown key, axis or word, a
/// wrong type, a formula that does not compile, a block that omits an axis.
FamilyFile parse_family(std::string_view toml, std::string_view file, const ConfigSpace& space);

/// Reads the terms and rules of a text that parse_family accepts, without its rule sets: these take longer.
FamilyFile parse_family_rules(std::string_view toml, std::string_view file, const ConfigSpace& space);

/// The embedded file of a provider and op. Throws unsupported when there is none.
const FamilyFile& family_file(std::string_view provider, Op op);
/// Reads only the terms and rules of that file; none of a joint family's members.
FamilyFile family_rules(const ConfigSpace& space);

/// A family with additional rule sets from a file that contains only rule sets (besides `provider` and `op`).
/// They may extend those of the family. Throws the errors of parse_family.
FamilyFile add_rule_sets(const FamilyFile& family, std::string_view toml, std::string_view file);

/// The rule set that a request's `rules` names: a rule set of the embedded family, FILE.toml (the last rule
/// set of a file for add_rule_sets), or FILE.toml:SET.
struct RuleSource {
  std::shared_ptr<const FamilyFile> file;
  std::string set;
};
/// Throws invalid_argument naming the nearest rule set, not_found for a file.
RuleSource find_rules(std::string_view provider, Op op, std::string_view rules);

/// The name of `rules` in metadata. For a file, this is the name without the folder, because the folder
/// exists only on one machine.
std::string rules_name(std::string_view rules);

/// enumerate() on a given file, for tests with families of their own. `request.provider` is not read.
ConfigTable enumerate_configs(const FamilyFile& file, const FamilyRequest& request,
                              EnumerationReport* report);
/// Returns the elements of `configs` that the rules of `request.rules` and the filter admit, each once.
ConfigTable admitted_configs(const FamilyFile& file, const FamilyRequest& request,
                             const ConfigTable& configs);

/// The configs of a rule set for one signature.
struct SignatureConfigs {
  Signature signature;
  ConfigTable configs;
};
/// Enumerates a rule set over several signatures of one provider and device at once, in their order, because
/// a set that samples another one needs all of them. `request.signature` is not read; a filter is applied
/// last.
std::vector<SignatureConfigs> enumerate_signatures(const FamilyRequest& request,
                                                   std::span<const Signature> signatures);

/// The signatures that the family files of a provider state, over all its ops.
std::vector<Signature> family_signatures(std::string_view provider);

/// Draws the sample of `set` from `full`: the configs of rule set `sample.of`, per signature, in order.
/// Enumeration calls it.
std::vector<SignatureConfigs> sample_rule_set(const FamilyFile& file, const RuleSet& set,
                                              const Device& device,
                                              const std::vector<SignatureConfigs>& full);

/// For each config, the reason why a `legal` or `worth` rule refuses it ("lds-fits: ..."), including rules
/// that the rule set skips; empty when no rule refuses it.
std::vector<std::string> refusals_of_all_rules(const FamilyFile& file, const FamilyRequest& request,
                                               const ConfigTable& configs);

/// What is known of each config's generated source: "compiled against REVISION" for configs of a kind that a
/// compiler accepted, "described, not compiled" for all others. Empty when the file states no `[compiled]`.
std::vector<std::string> states_of_sources(const FamilyFile& file, const FamilyRequest& request,
                                           const ConfigTable& configs);

/// why_not() on a given file.
std::vector<Rule> why_not_in(const FamilyFile& file, const FamilyRequest& request,
                             const KernelConfig& config);

// ---- Generates lists of configs in code, for rule sets that are no product of axes: tables that refer to
// each other, or the members of a joint family.
//
//     ConfigTable configs = generated_list("curated-conv", file, signature, device);

/// The configs of list `name` (a rule set's `from`) for a signature and device, in its order, before any rule
/// is applied. Throws corrupt_data for an unknown list.
ConfigTable generated_list(std::string_view name, const FamilyFile& file, const Signature& signature,
                           const Device& device);

/// A list that a provider generates.
struct GeneratedList {
  std::string_view name;
  std::span<const Op> ops;
  ConfigTable (*make)(const FamilyFile& file, const Signature& signature, const Device& device);
};

// ---- Explains like why_not_in() and adds the distance of the config, for callers that compare explanations.

/// Why a rule set does not contain a config.
struct WhyNot {
  std::vector<Rule> refusing;  ///< empty: the rule set contains the config
  /// Number of axes on which the config differs from the nearest block; the maximum when there is no block.
  std::size_t axes_outside = std::numeric_limits<std::size_t>::max();
};

WhyNot why_not(const FamilyFile& file, const FamilyRequest& request, const KernelConfig& config);

// ---- Lists the configs and applicability rules of a joint family's members, in the joint space.

/// A list "members: PROVIDER SET, PROVIDER SET": the configs of each member in turn. A member without configs
/// for the signature and device adds nothing. Throws corrupt_data for a list of another form.
ConfigTable members_of(std::string_view list, const FamilyFile& file, const Signature& signature,
                       const Device& device);

/// why_not() for a config of a joint family with such a list: explains by the rule set of the config's
/// member.
WhyNot why_not_members(std::string_view list, const FamilyFile& file, const FamilyRequest& request,
                       const KernelConfig& config);

/// The members' applicability rules, each restricted to the configs of its member; empty when the space is
/// not a joint one.
std::vector<Rule> members_applicability_rules(const ConfigSpace& joint);

/// Name of the rule set of measurements whose configs no rules enumerated (imports, kernel libraries, CK
/// Tile's benchmarks). A model for such measurements chooses among the measured configs.
inline constexpr std::string_view kMeasuredRules = "measured";

/// The family of such configs, in their order, with the applicability rules of the provider's file: none when
/// a config leaves axes unknown, because rules read them.
Family family_of_configs(const Signature& signature, const Device& device, ConfigTable configs);

inline constexpr std::string_view kMembersList = "members:";

// ---- Writes rule sets that list their configs explicitly: `kscout prune` writes such
// files, and `--rules FILE.toml` reads them (docs/formats/family.md).
//
//     const std::string text = rule_sets_text("native", Op::gemm, {{"pruned", "help", "tiny", {block}}});

/// Configs of one space that exist for one signature.
struct ExplicitBlock {
  Signature signature;
  std::vector<KernelConfig> configs;
};

struct ExplicitRuleSet {
  std::string name, help;
  std::string extends;                ///< a set of the family or an earlier one of this list; empty: none
  std::vector<ExplicitBlock> blocks;  ///< blocks without configs are left out
};

/// Writes an axis once per block where all configs of the block have the same value; writes the other axes as
/// rows. A block applies where dtypes, layout and epilogue equal those of its signature. Throws
/// invalid_argument for an axis without a value.
std::string rule_sets_text(std::string_view provider, Op op, const std::vector<ExplicitRuleSet>& sets);

}  // namespace kscout
