#include "select/switches.h"

#include <algorithm>
#include <optional>

#include "core/fail.h"
#include "core/log.h"
#include "core/names.h"
#include "family/family_file.h"

namespace kscout {
namespace {

constexpr ChoiceSource kSwitchable[] = {ChoiceSource::cache, ChoiceSource::db, ChoiceSource::model,
                                        ChoiceSource::any_cpu, ChoiceSource::analytic};
constexpr std::string_view kGuard = "guard";

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Names that a message may suggest: those of the families, or else those of fp32 in every layout by the rule
/// set.
std::vector<std::string> suggestions(const NameSpace& names) {
  std::vector<std::string> all;
  const auto add = [&](const Family& family) {
    for (std::size_t i = 0; i < family.configs.size(); ++i) all.push_back(family.name(i));
  };
  if (names.model) {
    for (const Family& family : names.model->data().families) add(family);
  }
  if (!all.empty() || names.provider.empty()) return all;
  for (const Layout layout : {Layout::rcr, Layout::rrr, Layout::crr, Layout::ccr}) {
    try {
      add(enumerate({.provider = names.provider,
                     .signature = signature_of(make_gemm(1, 1, 1, DType::fp32, layout)),
                     .device = names.device,
                     .rules = names.rules,
                     .filter = {}}));
    } catch (const Error&) {  // no suggestions for this signature
    }
  }
  return all;
}

[[noreturn]] void fail_unknown(const char* variable, const std::string& name, const NameSpace& names,
                               const std::string& because) {
  auto known = suggestions(names);
  if (std::string_view(variable) == "KSCOUT_DISABLE") {
    for (const ChoiceSource source : kSwitchable) known.emplace_back(word(source));
    known.emplace_back(kGuard);
  }
  const auto near = nearest_word(name, views(known));
  fail(Errc::invalid_argument, "{}: unknown config '{}'{}: {}", variable, name,
       near ? fmt::format("; did you mean '{}'?", *near) : "", because);
}

bool in_model(const NamedConfig& named, const Model* model) {
  const Family* const family = model ? model->family(named.signature) : nullptr;
  if (!family) return false;
  for (std::size_t i = 0; i < family->configs.size(); ++i) {
    if (family->configs[i] == named.config) return true;
  }
  return false;
}

/// The legal rule that excludes a config; empty when no rule does.
std::string illegal_because(const NamedConfig& named, const NameSpace& names) {
  for (const Rule& rule : why_not({.provider = names.provider,
                          .signature = named.signature,
                          .device = names.device,
                          .rules = rule_set_names(names.provider, named.signature.op).front(),
                          .filter = {}},
                                  named.config)) {
    if (rule.kind == RuleKind::legal) return fmt::format("rule {}: {}", rule.name, rule.because);
  }
  return {};
}

/// The config of a name; nothing when it belongs to another selector.
std::optional<NamedConfig> named_config(const char* variable, const std::string& name,
                                        const NameSpace& names) {
  NamedConfig named;
  try {
    named = parse_kernel_to_run(name);
  } catch (const Error& error) {
    fail_unknown(variable, name, names, error.what());
  }
  if (names.provider.empty()) return named;
  const auto own = provider(names.provider).own(named.config);
  if (!own) return std::nullopt;
  named.config = *own;
  if (in_model(named, names.model)) return named;
  if (const std::string because = illegal_because(named, names); !because.empty()) {
    fail_unknown(variable, name, names, because);
  }
  return named;
}

}  // namespace

bool same_but_accumulate(Signature a, const Signature& b) noexcept {
  a.accumulate = b.accumulate;
  return a == b;
}

Switches Switches::from_environment(const NameSpace& names) {
  Switches switches;
  for (const std::string& name : parts_of(environment("KSCOUT_FORCE"))) {
    if (const auto named = named_config("KSCOUT_FORCE", name, names)) switches.forced.push_back(*named);
  }
  for (const std::string& name : parts_of(environment("KSCOUT_DISABLE"))) {
    const auto source = std::ranges::find(kSwitchable, name, [](ChoiceSource of) { return word(of); });
    if (source != std::end(kSwitchable)) {
      switches.disabled_sources |= 1U << static_cast<int>(*source);
    } else if (name == kGuard) {
      switches.guard_off = true;
    } else if (const auto named = named_config("KSCOUT_DISABLE", name, names)) {
      switches.disabled.push_back(*named);
    }
  }
  return switches;
}

std::vector<std::uint8_t> allowed_configs(const Family& family, std::span<const NamedConfig> disabled,
                                          const ThreadLimit& limit, const Model* model) {
  std::vector<std::uint8_t> allowed;
  const std::size_t asked = limit.because.empty() ? 0 : family.configs.size();
  for (std::size_t i = 0; i < asked; ++i) {
    if (limit.admits(host_threads(family.configs[i]))) continue;
    allowed.resize(family.configs.size(), 1);
    allowed[i] = 0;
  }
  for (const NamedConfig& named : disabled) {
    const bool concerned = model ? model->family(named.signature) == &family
                                 : same_but_accumulate(family.signature, named.signature);
    if (!concerned) continue;
    allowed.resize(family.configs.size(), 1);
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      if (family.configs[i] == named.config) allowed[i] = 0;
    }
  }
  return allowed;
}

}  // namespace kscout
