// Writes the `.ksf` file of a model: sections of forest/ksf.h plus one JSON text that describes their
// content.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "core/hash.h"
#include "core/json_fields.h"
#include "family/declared.h"
#include "features/schema.h"
#include "forest/ksf.h"
#include "select/confidence_json.h"
#include "select/model.h"
#include "select/region_json.h"

namespace kscout {

namespace {

/// Adds a section unless one of that kind has equal bytes; returns its index.
class SectionPool {
 public:
  std::uint32_t add(KsfKind kind, std::string bytes) {
    auto& of_kind = by_kind_[kind];
    const auto found = std::ranges::find(of_kind, bytes);
    if (found != of_kind.end()) return static_cast<std::uint32_t>(found - of_kind.begin());
    of_kind.push_back(std::move(bytes));
    return static_cast<std::uint32_t>(of_kind.size() - 1);
  }
  std::string pack(std::uint32_t version) const {
    std::vector<KsfSection> sections;
    for (const auto& [kind, of_kind] : by_kind_) {
      for (std::uint32_t i = 0; i < of_kind.size(); ++i) sections.push_back({kind, i, of_kind[i]});
    }
    return pack_ksf(sections, version);
  }

 private:
  std::map<KsfKind, std::vector<std::string>> by_kind_;
};

/// All configs of the families, each once, in the order of first appearance.
struct Union {
  ConfigTable configs;
  std::vector<std::vector<std::uint32_t>> members;  ///< per family
  std::unordered_map<KernelConfig, std::uint32_t> position;
};

Union unite(const std::vector<Family>& families) {
  Union result{ConfigTable(families.front().configs.space()), {}, {}};
  for (const Family& family : families) {
    auto& members = result.members.emplace_back();
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      const KernelConfig config = family.configs[i];
      const auto [at, is_new] =
          result.position.emplace(config, static_cast<std::uint32_t>(result.position.size()));
      if (is_new) result.configs.push_back(config);
      members.push_back(at->second);
    }
  }
  return result;
}

KsfTable<std::int32_t> config_table(const ConfigTable& configs) {
  KsfTable<std::int32_t> table;
  table.columns = static_cast<std::uint32_t>(configs.space().axes.size());
  table.rows = static_cast<std::uint32_t>(configs.size());
  for (std::size_t axis = 0; axis < table.columns; ++axis) {
    const auto column = configs.column(axis);
    table.values.insert(table.values.end(), column.begin(), column.end());
  }
  return table;
}

KsfTable<double> traits_table(const std::vector<Traits>& traits) {
  KsfTable<double> table;
  table.rows = static_cast<std::uint32_t>(traits.size());
  for_each_field<Traits>([&](const auto& field) {
    ++table.columns;
    for (const Traits& of : traits) {
      // Writes one NaN for all: the bits of "unknown" must not change the file.
      table.values.push_back(std::isnan(of.*field.member) ? Traits::unknown : of.*field.member);
    }
  });
  return table;
}

Json axes_json(const ConfigSpace& space) {
  Json axes = Json::array();
  for (const Axis& axis : space.axes) {
    Json words = Json::array();
    for (const auto w : axis.words) words.push_back(std::string(w));
    axes.push_back({{"name", std::string(axis.name)}, {"words", std::move(words)}});
  }
  return axes;
}

Json rules_json(const std::vector<Rule>& rules) {
  Json json = Json::array();
  for (const Rule& rule : rules) {
    json.push_back({{"name", rule.name}, {"admits", rule.admits}, {"because", rule.because}});
  }
  return json;
}

}  // namespace

std::string Model::bytes() const {
  const Union all = unite(data().families);
  SectionPool pool;
  pool.add(KsfKind::configs, table_bytes(config_table(all.configs)));
  Json meta;
  meta["provider"] = data().families.front().provider;
  if (const auto declaration = declaration_of(data().families.front().provider); !declaration.empty())
    meta["declaration"] = declaration;
  meta["op"] = std::string(word(all.configs.space().op));
  meta["rules"] = data().families.front().rules;
  meta["device"] = record_json(device());
  if (data().any_cpu) meta["any_cpu"] = true;
  for (const Device& known : data().known_devices) meta["known_devices"].push_back(record_json(known));
  if (const auto& against = data().against_any_cpu) {
    meta["against_any_cpu"] = {
        {"mean", against->mean}, {"any_cpu_mean", against->any_cpu_mean}, {"problems", against->problems}};
  }
  for (const OnAnotherGpu& result : data().on_other_gpus) {
    meta["on_other_gpus"].push_back({{"device", result.device},
                                     {"mean", result.mean},
                                     {"suggestion_mean", result.suggestion_mean},
                                     {"problems", result.problems}});
  }
  meta["fingerprint"] = data().fingerprint;
  meta["axes"] = axes_json(all.configs.space());
  meta["traits"] = Json::array();
  for (const auto name : field_names<Traits>()) meta["traits"].push_back(std::string(name));
  meta["families"] = Json::array();
  for (std::size_t i = 0; i < data().families.size(); ++i) {
    const Family& family = data().families[i];
    KsfTable<std::uint32_t> members{1, static_cast<std::uint32_t>(all.members[i].size()), all.members[i]};
    Json json;
    json["signature"] = record_json(family.signature);
    json["members"] = pool.add(KsfKind::members, table_bytes(members));
    json["traits"] = pool.add(KsfKind::traits, table_bytes(traits_table(family.traits)));
    if (!family.setup_us.empty()) {
      const KsfTable<double> setup{1, static_cast<std::uint32_t>(family.setup_us.size()), family.setup_us};
      json["setup"] = pool.add(KsfKind::setup, table_bytes(setup));
    }
    json["default_config"] = family.default_config;
    json["serves"] = rules_json(family.applicability);
    meta["families"].push_back(std::move(json));
  }
  meta["shortlist"] = nullptr;
  if (data().shortlist) {
    KsfTable<std::uint32_t> outputs{1, 0, {}};
    for (const KernelConfig& config : data().shortlist->configs)
      outputs.values.push_back(all.position.at(config));
    outputs.rows = static_cast<std::uint32_t>(outputs.values.size());
    meta["shortlist"] = {{"configs", pool.add(KsfKind::members, table_bytes(outputs))}};
    pool.add(KsfKind::shortlist, shortlist_bytes(*data().shortlist));
  }
  if (data().first_trees > 0) meta["first_trees"] = data().first_trees;
  meta["schema_hash"] = hash_digits(data().schema->hash());
  pool.add(KsfKind::schema, data().schema->text());
  meta["targets"] = Json::array();
  std::uint32_t version = kOldestKsfVersion;
  for (const ModelTarget& target : data().targets) {
    meta["targets"].push_back({{"target", std::string(word(target.target))},
                               {"forest", pool.add(KsfKind::forest, forest_bytes(target.forest))},
                               {"offset", target.offset},
                               {"slope", target.slope}});
    if (target.scale == Scale::log1p) continue;
    meta["targets"].back()["scale"] = std::string(word(target.scale));
    version = kKsfVersion;  // older programs would read its scores as log1p
  }
  meta["best_tflops"] = nullptr;
  if (data().best_tflops.tree_count() > 0) {
    meta["best_tflops"] = {{"forest", pool.add(KsfKind::forest, forest_bytes(data().best_tflops))},
                           {"features", data().best_features}};
  }
  meta["confidence"] = confidence_json(data().confidence);
  // Older models have neither; their bytes stay as they are.
  if (data().region) meta["region"] = region_json(data().region);
  if (data().guard) meta["lead_guard"] = guard_json(data().guard);
  if (!data().listed_kinds.empty()) meta["listed_kinds"] = listed_kinds_json(data().listed_kinds);
  pool.add(KsfKind::meta, meta.dump(-1, ' ', false, Json::error_handler_t::replace));
  return pool.pack(version);
}

}  // namespace kscout
