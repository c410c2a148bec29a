#include "select/predictor.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/names.h"
#include "features/schema.h"
#include "lightgbm/lightgbm.h"
#include "provider/ck_tile/select/ck_folder.h"
#include "select/model.h"

namespace kscout {
namespace {

std::vector<Traits> traits_of(ProblemRef problem, const ConfigTable& configs, const Device& device) {
  const Provider& by = provider(configs.space().provider);
  std::vector<Traits> traits;
  for (std::size_t i = 0; i < configs.size(); ++i)
    traits.push_back(by.traits(signature_of(problem), configs[i], device));
  return traits;
}

Model load_for(const std::filesystem::path& folder, const std::optional<Device>& device) {
  Model model = Model::load(folder, device ? &*device : nullptr);
  const std::string refusal =
      device ? device_refusal(model.device(), *device, DevicePolicy::exact) : std::string();
  if (refusal.empty()) return model;
  fail(Errc::unsupported, "model {} cannot answer for '{}': {}; leave the device out", folder.string(),
       device->name, refusal);
}

}  // namespace

struct Predictor::Impl {
  std::variant<Model, CkFolder> source;
};

Predictor::Predictor(const std::filesystem::path& folder, std::string_view schema,
                     std::optional<Device> device) {
  const bool ours = std::filesystem::exists(folder / "model.ksf") || folder.extension() == ".ksf";
  if (ours && schema.empty()) {
    impl_ = std::make_shared<Impl>(Impl{load_for(folder, device)});
  } else {
    impl_ = std::make_shared<Impl>(Impl{read_ck_folder(folder, schema, device)});
  }
}

std::vector<std::string> Predictor::targets() const {
  if (std::holds_alternative<Model>(impl_->source)) return {"tflops", "latency", "bandwidth"};
  std::vector<std::string> names;
  for (const LightgbmTarget& target : std::get<CkFolder>(impl_->source).folder.targets)
    names.push_back(target.name);
  return names;
}

std::string Predictor::schema() const {
  if (const auto* model = std::get_if<Model>(&impl_->source))
    return std::string(model->data().schema->name());
  return std::string(std::get<CkFolder>(impl_->source).schema.name());
}

std::vector<double> Predictor::predict(ProblemRef problem, const ConfigTable& configs,
                                       std::string_view target) const {
  if (const auto* model = std::get_if<Model>(&impl_->source)) {
    std::vector<double> values = model->predicted_tflops(problem, model->score_configs(problem, configs));
    constexpr std::string_view kTargets[] = {"tflops", "latency", "bandwidth"};
    const std::size_t asked = index_of_word("target", target, kTargets);
    for (double& value : values) {
      const double us = asked == 0 ? 0 : time_us_of(problem, value);
      if (asked == 1) value = us;
      if (asked == 2) value = min_bytes(problem) / us * 1e-3;
    }
    return values;
  }
  const auto& theirs = std::get<CkFolder>(impl_->source);
  const LightgbmTarget& of = theirs.folder.target(target);
  const Schema schema = theirs.schema.for_op(signature_of(problem).op);
  const auto traits = traits_of(problem, configs, theirs.device);
  std::vector<double> matrix(configs.size() * schema.size()), values(configs.size());
  schema.evaluate(problem, theirs.device, configs, traits, matrix);
  of.model.forest.predict(matrix.data(), schema.size(), 1, values);
  const double unit = target == "latency" ? microseconds_per_latency(theirs.folder) : 1;
  for (double& value : values) value = of.value(value) * unit;
  return values;
}

std::vector<Choice> Predictor::rank(ProblemRef problem, const ConfigTable& configs) const {
  const std::vector<double> tflops = predict(problem, configs, "tflops");
  std::vector<std::size_t> order(configs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return tflops[i]; });
  std::vector<Choice> ranked;
  for (const std::size_t i : order) {
    const double us = time_us_of(problem, tflops[i]);
    if (!ranked.empty()) ranked.back().margin = us / ranked.back().time_us - 1;
    ranked.push_back({.config = configs[i],
                      .time_us = us,
                      .tflops = tflops[i],
                      .gb_s = min_bytes(problem) / us * 1e-3,
                      .score = tflops[i],
                      .source = ChoiceSource::model,
                      .decided_by = ChoiceSource::model});
  }
  return ranked;
}

}  // namespace kscout
