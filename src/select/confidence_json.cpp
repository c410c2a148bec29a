#include "select/confidence_json.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/fail.h"

namespace kscout {

Json confidence_json(const std::optional<Confidence>& confidence) {
  if (!confidence) return nullptr;
  const Confidence plain;
  const bool ranges = confidence->low != plain.low || confidence->high != plain.high;
  Json json = {{"inputs", Json::array()}, {"weights", Json::array()}, {"bias", confidence->bias}};
  for (std::size_t i = 0; i < Confidence::inputs.size(); ++i) {
    // A model with ranges of sizes keeps their inputs, as older programs read them.
    const bool is_size = i >= Confidence::first_size && i < Confidence::first_size + Confidence::sizes;
    if (confidence->weight[i] == 0 && !(ranges && (i < Confidence::first_size || is_size))) continue;
    json["inputs"].push_back(std::string(Confidence::inputs[i]));
    json["weights"].push_back(confidence->weight[i]);
  }
  if (ranges) json["low"] = confidence->low;
  if (ranges) json["high"] = confidence->high;
  if (!confidence->family_bias.empty()) json["family_bias"] = confidence->family_bias;
  return json;
}

std::optional<Confidence> confidence_from_json(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const auto names = json.at("inputs").get<std::vector<std::string>>();
  const auto weights = json.at("weights").get<std::vector<double>>();
  if (names.size() != weights.size())
    fail(Errc::invalid_argument, "confidence: {} inputs, {} weights", names.size(), weights.size());
  Confidence confidence;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto input = std::ranges::find(Confidence::inputs, names[i]);
    if (input == Confidence::inputs.end()) return std::nullopt;
    confidence.weight[static_cast<std::size_t>(input - Confidence::inputs.begin())] = weights[i];
  }
  json.at("bias").get_to(confidence.bias);
  if (json.contains("family_bias")) json["family_bias"].get_to(confidence.family_bias);
  if (json.contains("low")) json["low"].get_to(confidence.low);
  if (json.contains("high")) json["high"].get_to(confidence.high);
  return confidence;
}

void check(const Confidence& c, std::size_t families) {
  bool finite = std::isfinite(c.bias);
  for (const double weight : c.weight) finite = finite && std::isfinite(weight);
  if (!finite) fail(Errc::invalid_argument, "confidence: a weight is not finite");
  if (!c.family_bias.empty() && c.family_bias.size() != families) {
    fail(Errc::invalid_argument, "confidence: {} family biases for {} families; one each, or none",
         c.family_bias.size(), families);
  }
  for (std::size_t i = 0; i < c.family_bias.size(); ++i) {
    if (!std::isfinite(c.bias_of(i))) {
      fail(Errc::invalid_argument, "confidence: bias {} + {} of family {} is not finite", c.bias,
           c.family_bias[i], i);
    }
  }
  for (std::size_t i = 0; i < Confidence::sizes; ++i) {
    if (!std::isfinite(c.low[i]) || !std::isfinite(c.high[i]) || c.low[i] > c.high[i]) {
      fail(Errc::invalid_argument, "confidence: sizes {} were trained from 2^{} to 2^{}",
           Confidence::inputs[Confidence::first_size + i], c.low[i], c.high[i]);
    }
  }
}

}  // namespace kscout
