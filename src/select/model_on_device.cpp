// Makes a model for a device that it was not trained on.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <kscout/device.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "select/model.h"

namespace kscout {

double assumed_peak_tflops(Device device) noexcept {
  const auto assume = [](double& fact, double value) { fact = fact >= 1 ? fact : value; };
  assume(device.cores, 1);
  assume(device.vector_bytes, 32);
  assume(device.fma_per_cycle, 2);
  assume(device.max_clock_mhz, 3000);
  return peak_fp32_gflops(device) / 1000;
}

Model Model::for_device(const Device& device) const {
  if (!data().any_cpu) return for_other_gpu(device);
  if (device.kind != DeviceKind::cpu)
    fail(Errc::unsupported, "the model is for CPUs; '{}' is a {}", device.name, word(device.kind));
  ModelData made = data();
  for (Family& family : made.families) {
    const std::string provider = family.provider, rules = family.rules;
    const auto known = rule_set_names(provider, family.signature.op);
    if (std::ranges::find(known, rules) == known.end()) {
      fail(Errc::unsupported,
           "the model chooses among the configs of rule set '{}' of {}, which this program does not have: "
           "train "
           "it again",
           rules, provider);
    }
    family = enumerate({.provider = provider,
                        .signature = family.signature,
                        .device = device,
                        .rules = rules,
                        .filter = {}});
  }
  // best_tflops predicts a share of the peak.
  const double peak = std::log(assumed_peak_tflops(device) / assumed_peak_tflops(this->device()));
  for (ModelTarget& target : made.targets) target.offset += peak;
  return Model(std::move(made));
}

Model Model::for_other_gpu(const Device& device) const {
  if (this->device().kind != DeviceKind::gpu)
    fail(Errc::unsupported, "the model is of '{}' alone, not for any CPU", this->device().name);
  if (device.kind != DeviceKind::gpu)
    fail(Errc::unsupported, "the model is for GPUs; '{}' is a {}", device.name, word(device.kind));
  ModelData made = data();
  for (Family& family : made.families) {
    const Provider& of = kscout::provider(family.provider);
    for (std::size_t i = 0; i < family.configs.size(); ++i)
      family.traits[i] = of.traits(family.signature, family.configs[i], device);
    family.device = device;
  }
  made.confidence.reset();
  return Model(std::move(made));
}

Model with_facts_of(Model model, const Device& device) {
  const Device& trained = model.device();
  const bool other =
      trained.kind == DeviceKind::gpu && device.kind == DeviceKind::gpu && trained.name != device.name;
  return other ? model.for_device(device) : std::move(model);
}

}  // namespace kscout
