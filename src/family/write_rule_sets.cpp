// Writes explicit lists of configs as rule sets of a family file.
#include <algorithm>

#include "core/fail.h"
#include "core/name_rules.h"
#include "family/family_file.h"

namespace kscout {
namespace {

std::string when_text(const Signature& s) {
  return fmt::format(
      "s.dtype_a == '{}' and s.dtype_b == '{}' and s.dtype_c == '{}' and s.layout == '{}' and s.epilogue == "
      "'{}'",
      word(s.dtype_a), word(s.dtype_b), word(s.dtype_c), word(s.layout), word(s.epilogue));
}

std::string value_text(const Axis& axis, std::int32_t value) {
  if (value == KernelConfig::unknown)
    fail(Errc::invalid_argument, "axis '{}' has no value: a rule set needs all of them", axis.name);
  const std::string text = axis_value_text(axis, value);
  return axis.words.empty() ? text : fmt::format("\"{}\"", text);
}

/// A basic string of TOML, which escapes as JSON does, and DEL besides.
std::string toml_text(std::string_view text) {
  std::string out;
  for (const char c : Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == 0x7f)
      out += "\\u007f";
    else
      out += c;
  }
  return out;
}

/// A key, in quotes where TOML needs them.
std::string key_text(std::string_view name) {
  const bool bare = name.find_first_of(".+") == std::string_view::npos;
  return bare ? std::string(name) : toml_text(name);
}

std::string block_text(std::string_view set, const ExplicitBlock& block) {
  const ConfigSpace& space = *block.configs.front().space;
  std::string text =
      fmt::format("[[rule_set.{}.block]]\nwhen = \"{}\"\n", key_text(set), when_text(block.signature));
  std::vector<std::size_t> differ;
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const std::int32_t first = block.configs.front()[i];
    if (std::ranges::all_of(block.configs, [&](const KernelConfig& c) { return c[i] == first; })) {
      text += fmt::format("{} = {}\n", space.axes[i].name, value_text(space.axes[i], first));
    } else {
      differ.push_back(i);
    }
  }
  if (differ.empty()) return text + '\n';
  const auto row = [&](auto&& entry) {
    std::vector<std::string> entries;
    for (const std::size_t axis : differ) entries.push_back(entry(axis));
    return fmt::format("[{}]", fmt::join(entries, ", "));
  };
  text += "axes = " + row([&](std::size_t i) { return fmt::format("\"{}\"", space.axes[i].name); });
  text += "\nconfigs = [\n";
  for (const KernelConfig& config : block.configs) {
    text += "  " + row([&](std::size_t i) { return value_text(space.axes[i], config[i]); }) + ",\n";
  }
  return text + "]\n\n";
}

}  // namespace

std::string rule_sets_text(std::string_view provider, Op op, const std::vector<ExplicitRuleSet>& sets) {
  std::string text = fmt::format("provider = \"{}\"\nop = \"{}\"\n\n", provider, word(op));
  for (const ExplicitRuleSet& set : sets) {
    check_name("rule set", set.name);
    text += fmt::format("[rule_set.{}]\nhelp = {}\n", key_text(set.name), toml_text(set.help));
    text += set.extends.empty() ? "\n" : fmt::format("extends = {}\n\n", toml_text(set.extends));
    for (const ExplicitBlock& block : set.blocks) {
      if (!block.configs.empty()) text += block_text(set.name, block);
    }
  }
  return text;
}

}  // namespace kscout
