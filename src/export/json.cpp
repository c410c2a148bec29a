// Writes a model as JSON, for programs that read neither .ksf nor LightGBM text.
#include <cmath>

#include <kscout/provider.h>

#include "core/hash.h"
#include "core/json_fields.h"
#include "export/header.h"
#include "features/schema.h"
#include "select/confidence_json.h"
#include "select/region_json.h"

namespace kscout {

namespace {
/// JSON has no infinity, but thresholds of LightGBM may be infinite.
Json number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return std::isnan(value) ? Json(nullptr) : Json(value);
}

Json numbers(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number(value));
  return json;
}

Json forest_json(const Forest& forest) {
  return {{"features", forest.feature_count},
          {"average", forest.average},
          {"tree_nodes", forest.tree_nodes},
          {"tree_leaves", forest.tree_leaves},
          {"threshold", numbers(forest.threshold)},
          {"feature", forest.feature},
          {"left", forest.left},
          {"right", forest.right},
          {"decision", forest.decision},
          {"leaf_value", forest.leaf_value},
          {"set_words", forest.set_words},
          {"set_bits", forest.set_bits}};
}

Json schema_json(const Schema& schema) {
  const auto list = [](const std::vector<Feature>& features) {
    Json json = Json::array();
    for (const Feature& feature : features) {
      json.push_back({{"id", feature.id},
                      {"formula", feature.formula},
                      {"unit", feature.unit},
                      {"meaning", feature.meaning},
                      {"categorical", feature.categorical}});
    }
    return json;
  };
  Json requirements = Json::array();
  for (const Requirement& requirement : schema.data().requirements) {
    requirements.push_back({{"formula", requirement.formula}, {"because", requirement.because}});
  }
  return {{"name", schema.name()},
          {"hash", hash_digits(schema.hash())},
          {"requirements", std::move(requirements)},
          {"terms", list(schema.data().terms)},
          {"features", list(schema.data().features)}};
}

Json config_json(const Family& family, std::size_t index) {
  const KernelConfig config = family.configs[index];
  Json axes = Json::object();
  for (std::size_t axis = 0; axis < config.space->axes.size(); ++axis) {
    const Axis& of = config.space->axes[axis];
    Json& value = axes[std::string(of.name)];
    if (config[axis] == KernelConfig::unknown) {
      value = nullptr;
    } else if (of.words.empty()) {
      value = config[axis];
    } else {
      value = axis_value_text(of, config[axis]);
    }
  }
  return {
      {"name", family.name(index)}, {"axes", std::move(axes)}, {"traits", record_json(family.traits[index])}};
}

Json family_json(const Family& family) {
  Json json;
  json["signature"] = record_json(family.signature);
  json["default_config"] = family.default_config;
  json["serves"] = Json::array();
  for (const Rule& rule : family.applicability) {
    json["serves"].push_back({{"name", rule.name}, {"admits", rule.admits}, {"because", rule.because}});
  }
  json["configs"] = Json::array();
  for (std::size_t i = 0; i < family.configs.size(); ++i) json["configs"].push_back(config_json(family, i));
  return json;
}

}  // namespace

std::string model_json(const Model& model) {
  const ModelData& data = model.data();
  Json json;
  json["provider"] = std::string(model.provider());
  json["op"] = std::string(word(data.families.front().signature.op));
  json["rules"] = data.families.front().rules;
  json["fingerprint"] = data.fingerprint;
  json["device"] = record_json(model.device());
  json["schema"] = schema_json(*data.schema);
  json["families"] = Json::array();
  for (const Family& family : data.families) json["families"].push_back(family_json(family));
  json["targets"] = Json::array();
  for (const ModelTarget& target : data.targets) {
    json["targets"].push_back({{"target", std::string(word(target.target))},
                               {"offset", target.offset},
                               {"slope", target.slope},
                               {"scale", std::string(word(target.scale))},
                               {"forest", forest_json(target.forest)}});
  }
  json["best_tflops"] = nullptr;
  if (data.best_tflops.tree_count() > 0) {
    json["best_tflops"] = {{"features", data.best_features}, {"forest", forest_json(data.best_tflops)}};
  }
  json["shortlist"] = nullptr;
  if (data.shortlist) {
    const Shortlist& shortlist = *data.shortlist;
    json["shortlist"] = {{"configs", Json::array()},
                         {"mean", shortlist.mean},
                         {"factor", shortlist.factor},
                         {"layers", Json::array()}};
    for (const KernelConfig& config : shortlist.configs)
      json["shortlist"]["configs"].push_back(config_name(data.families.front().signature, config));
    for (const Shortlist::Layer& layer : shortlist.layers) {
      json["shortlist"]["layers"].push_back({{"inputs", layer.inputs},
                                             {"weights", layer.weights},
                                             {"bias", layer.bias},
                                             {"factor", layer.factor}});
    }
  }
  json["first_trees"] = data.first_trees;
  json["known_devices"] = Json::array();
  for (const Device& known : data.known_devices) json["known_devices"].push_back(record_json(known));
  json["against_any_cpu"] = nullptr;
  if (const auto& against = data.against_any_cpu) {
    json["against_any_cpu"] = {
        {"mean", against->mean}, {"any_cpu_mean", against->any_cpu_mean}, {"problems", against->problems}};
  }
  json["on_other_gpus"] = Json::array();
  for (const OnAnotherGpu& result : data.on_other_gpus) {
    json["on_other_gpus"].push_back({{"device", result.device},
                                     {"mean", result.mean},
                                     {"suggestion_mean", result.suggestion_mean},
                                     {"problems", result.problems}});
  }
  json["confidence"] = confidence_json(data.confidence);
  json["region"] = region_json(data.region);
  json["lead_guard"] = guard_json(data.guard);
  json["listed_kinds"] = listed_kinds_json(data.listed_kinds);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kscout
