#include "select/confidence_json.h"

#include <string>

namespace kscout {

Json confidence_json(const std::optional<Confidence>& confidence) {
  if (!confidence) return nullptr;
  auto inputs = Json::array();
  for (const auto name : Confidence::inputs) inputs.push_back(std::string(name));
  Json json = {{"inputs", std::move(inputs)},
               {"weights", confidence->weight},
               {"bias", confidence->bias},
               {"low", confidence->low},
               {"high", confidence->high}};
  if (!confidence->family_bias.empty()) json["family_bias"] = confidence->family_bias;
  return json;
}

std::optional<Confidence> confidence_from_json(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const auto names = json.at("inputs").get<std::vector<std::string>>();
  if (!std::equal(names.begin(), names.end(), Confidence::inputs.begin(), Confidence::inputs.end())) {
    return std::nullopt;
  }
  Confidence confidence;
  json.at("weights").get_to(confidence.weight);
  json.at("bias").get_to(confidence.bias);
  if (json.contains("family_bias")) json["family_bias"].get_to(confidence.family_bias);
  json.at("low").get_to(confidence.low);
  json.at("high").get_to(confidence.high);
  return confidence;
}

}  // namespace kscout
