#pragma once
/// \file
/// Enumerates the configs of a signature on a device: the combinations of axis values that the rules admit.
///
///     const auto family = kscout::enumerate(
///         {.provider = "native", .signature = signature_of(problem), .device = detect_cpu()});
///     for (std::size_t i = 0; i < family.configs.size(); ++i) std::puts(family.name(i).c_str());
///
/// Axes' values, rules and rule sets are data in families/<provider>_<op>.toml; each rule states its reason.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>
#include <kscout/traits.h>

namespace kscout {

/// legal: the config cannot work; the reason cites a manual. worth: the config is not useful; the reason
/// cites a measurement. applicability: the config cannot take this problem.
enum class RuleKind : std::uint8_t { legal, worth, applicability };
template <>
struct EnumWords<RuleKind> {
  static constexpr std::string_view what = "rule kind";
  static constexpr std::array<std::string_view, 3> words = {"legal", "worth", "applicability"};
};

/// A named reason to leave a config out. The config stays when `admits` is not 0.
struct Rule {
  std::string name;
  RuleKind kind = RuleKind::legal;
  std::string admits;   ///< formula over c.<axis>, d.<device fact>, s.<signature fact>; `applicability` rules
                        ///< also p.<problem field> and t.<trait>
  std::string because;  ///< the reason, and where it is documented or measured
  bool suggested = false;  ///< an applicability rule that also applies to suggestions of a library's
                           ///< own heuristic, because it excludes wrong results that the library accepts
  bool slow = false;  ///< an applicability rule about speed: a choice obeys it, a named config still runs
  /// Set for errata, which exclude wrong results: the library and the release in which these results were
  /// first found, "cuBLASLt 13.1.0".
  std::string since = {};
};

/// What rules say about a config for a problem.
enum class VerdictStatus : std::uint8_t {
  allowed,  ///< no rule refuses it
  refused,  ///< a rule refuses it
  unknown,  ///< no rule refuses it, but the rules do not know this config or this release of its library
};
template <>
struct EnumWords<VerdictStatus> {
  static constexpr std::string_view what = "verdict";
  static constexpr std::array<std::string_view, 3> words = {"allowed", "refused", "unknown"};
};

struct Verdict {
  VerdictStatus status = VerdictStatus::unknown;
  std::string rule = {};     ///< the rule that refuses; empty unless refused
  std::string because = {};  ///< the rule's reason, or what is unknown; empty when allowed
  std::string since = {};    ///< Rule::since of the rule; not empty only for known wrong results
};

struct FamilyRequest {
  std::string provider = "native";
  Signature signature;
  Device device;
  /// A rule set of the provider and op, or FILE.toml[:SET] with additional rule sets.
  std::string rules = "default";
  std::string filter;  ///< additional formula over c., d., s.; empty admits all
};

/// The configs that the rules admit, with the facts that selection needs.
struct Family {
  std::string provider;
  Signature signature;
  Device device;
  std::string rules;
  ConfigTable configs;
  std::vector<Traits> traits;       ///< one per config
  std::vector<Rule> applicability;  ///< rules to check for each problem
  std::size_t default_config = 0;   ///< runs when nothing better is known
  /// Expected time, in microseconds, that each config needs once before its runs (Measurement::setup_us): a
  /// plan, its compilation, a packed filter. NaN = unknown; empty: unknown for all.
  std::vector<double> setup_us = {};

  std::string name(std::size_t config) const;
};

/// Counts, per rule, the configs that the rule was the first to refuse.
struct EnumerationReport {
  struct Refusal {
    std::string rule;
    std::size_t configs;
  };
  std::vector<Refusal> refused;
  std::size_t candidates = 0;
};

/// Throws invalid_argument (unknown provider, rule set or filter name), not_found (a file of rules),
/// unsupported (no family file for the signature, or the rules admit no config). Order: blocks of the rule
/// set as written, then axes in space order; the first axis varies slowest.
Family enumerate(const FamilyRequest& request, EnumerationReport* report = nullptr);

/// The rule sets of a provider and op, in order of size, smallest first.
std::vector<std::string> rule_set_names(std::string_view provider, Op op);

/// The rules that leave a config out: rules of kind `legal` and `worth`, and the rule set's own value lists.
/// Empty when the rule set contains the config. A joint family also accepts its members' configs. Throws
/// invalid_argument for configs of other providers.
std::vector<Rule> why_not(const FamilyRequest& request, const KernelConfig& config);

/// Evaluates the `legal` and `applicability` rules of the config's family, except slow ones, for this
/// problem:
///
///     const Verdict verdict = rule_verdict(problem, parse_config_name(name).config, device);
///     if (verdict.status == VerdictStatus::refused) std::puts(verdict.because.c_str());
///
/// Runs nothing. `unknown`: the config is a suggestion, which stands for an algorithm that the library names
/// later; its library's release is none that the rules were measured with (FamilyFile::releases); or a rule
/// reads an axis or a device fact that is not known. Takes microseconds after the first call for a family.
/// Throws invalid_argument for a bad problem, for a config without a space, and for one that lacks an axis
/// that its provider needs. Thread-safe.
Verdict rule_verdict(ProblemRef problem, const KernelConfig& config, const Device& device);

/// Writes 1 to `applicable[i]` when config i can take the problem, else 0. `applicable` must have one element
/// per config.
void applicable_configs(const Family& family, ProblemRef problem, std::vector<std::uint8_t>& applicable);

}  // namespace kscout
