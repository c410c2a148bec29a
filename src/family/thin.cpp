/// \file
/// Rule sets that are a part of another one: deterministic samples for tests and first steps.
#include <algorithm>
#include <map>

#include "core/fail.h"
#include "family/family_file.h"

namespace kscout {
namespace {

/// The place of a config among all signatures' configs.
struct Place {
  std::size_t signature, row;
};

/// Values of a formula over c., d., s., one per config of all signatures, in order.
std::vector<double> values_of(const FamilyFile& file, const std::string& formula, const Device& device,
                              const std::vector<SignatureConfigs>& all) {
  std::vector<double> values;
  for (const auto& [signature, configs] : all) {
    // Each op has a space of its own, with the same axes and formulas.
    const auto program =
        expr::Program::compile({{"thin", formula}}, family_scope(configs.space(), file.formulas, false));
    expr::Inputs inputs(program);
    inputs.set_rows("c", configs);
    inputs.set("d", device);
    inputs.set("s", signature);
    std::vector<double> column(configs.size());
    expr::Scratch scratch;
    if (!configs.empty()) program.evaluate(inputs.columns(), configs.size(), column, scratch);
    values.insert(values.end(), column.begin(), column.end());
  }
  return values;
}

/// Positions by value, values in order of their first position.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<double>& values) {
  std::map<double, std::size_t> places;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [place, is_new] = places.try_emplace(values[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(i);
  }
  return groups;
}

}  // namespace

std::vector<SignatureConfigs> thinned(const FamilyFile& file, const RuleSet& set, const Device& device,
                                      const std::vector<SignatureConfigs>& full) {
  const Thinning& thin = set.thin;
  std::vector<Place> places;
  for (std::size_t signature = 0; signature < full.size(); ++signature) {
    for (std::size_t row = 0; row < full[signature].configs.size(); ++row) places.push_back({signature, row});
  }
  std::vector<bool> in(places.size());
  for (const auto& group : groups_of(values_of(file, thin.by, device, full))) {
    if (thin.every == 0 || group.size() < thin.every) in[group.front()] = true;
    if (thin.every == 0) continue;
    for (std::size_t i = thin.every - 1; i < group.size(); i += thin.every) in[group[i]] = true;
  }
  if (!thin.represent.empty()) {
    for (const auto& group : groups_of(values_of(file, thin.represent, device, full))) {
      if (std::ranges::none_of(group, [&](std::size_t i) { return in[i]; })) in[group.front()] = true;
    }
  }
  auto members = static_cast<std::size_t>(std::ranges::count(in, true));
  if (!thin.round.empty()) {
    const auto rounds = groups_of(values_of(file, thin.round, device, full));
    for (bool any = true; any && members < thin.least;) {
      any = false;
      for (const auto& group : rounds) {
        const auto next = std::ranges::find_if(group, [&](std::size_t i) { return !in[i]; });
        if (next == group.end() || members >= thin.least) continue;
        in[*next] = true;
        any = true;
        ++members;
      }
    }
  }
  std::vector<SignatureConfigs> kept;
  for (const auto& [signature, configs] : full) kept.push_back({signature, ConfigTable(configs.space())});
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    if (in[i]) kept[place.signature].configs.push_back(full[place.signature].configs[place.row]);
  }
  return kept;
}

}  // namespace kscout
