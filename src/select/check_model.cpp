#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/fail.h"
#include "features/schema.h"
#include "select/model.h"

namespace kscout {

namespace {

/// Families of one model have the same provider, op, device and rule set.
void check_families(const std::vector<Family>& families) {
  if (families.empty()) fail(Errc::invalid_argument, "a model needs the configs of at least one signature");
  const Family& first = families.front();
  for (std::size_t i = 0; i < families.size(); ++i) {
    const Family& family = families[i];
    if (family.configs.empty() || family.traits.size() != family.configs.size() ||
        family.default_config >= family.configs.size()) {
      fail(Errc::invalid_argument, "family {} of a model: {} configs, {} traits, default {}", i,
           family.configs.size(), family.traits.size(), family.default_config);
    }
    if (!family.setup_us.empty() && family.setup_us.size() != family.configs.size()) {
      fail(Errc::invalid_argument, "family {} of a model: {} set-up times for {} configs", i,
           family.setup_us.size(), family.configs.size());
    }
    for (const double setup_us : family.setup_us) {
      if (setup_us < 0 || std::isinf(setup_us))
        fail(Errc::invalid_argument, "family {} of a model: a set-up time of {} us", i, setup_us);
    }
    if (family.provider != first.provider || &family.configs.space() != &first.configs.space() ||
        family.device != first.device || family.rules != first.rules) {
      fail(Errc::invalid_argument, "family {} of a model is of another provider, device or rule set", i);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (families[j].signature == family.signature) {
        fail(Errc::invalid_argument, "families {} and {} of a model have one signature", j, i);
      }
    }
  }
}

void check_targets(const ModelData& data) {
  if (data.targets.empty()) fail(Errc::invalid_argument, "a model needs at least one target");
  for (std::size_t i = 0; i < data.targets.size(); ++i) {
    const ModelTarget& target = data.targets[i];
    if (target.forest.feature_count != data.schema->size()) {
      fail(Errc::invalid_argument, "the forest of target {} reads {} features, the schema has {}",
           word(target.target), target.forest.feature_count, data.schema->size());
    }
    if (!std::isfinite(target.offset) || !std::isfinite(target.slope) || !(target.slope > 0)) {
      fail(Errc::invalid_argument, "calibration of target {}: offset {}, slope {} (must be above 0)",
           word(target.target), target.offset, target.slope);
    }
    const bool against_best = target.target == Target::relative || target.target == Target::rank;
    if (against_best && target.scale != Scale::log1p)
      fail(Errc::invalid_argument, "target {} has no scale '{}'", word(target.target), word(target.scale));
    if (against_best && data.best_tflops.tree_count() == 0) {
      fail(Errc::invalid_argument, "target {} needs the forest of the best TFLOPS", word(target.target));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (data.targets[j].target == target.target) {
        fail(Errc::invalid_argument, "target {} is given twice", word(target.target));
      }
    }
  }
}

void check_schema(const ModelData& data) {
  if (!data.schema) fail(Errc::invalid_argument, "a model needs a schema");
  const ConfigSpace& space = data.families.front().configs.space();
  const SchemaData& schema = data.schema->data();
  if (schema.op != space.op || (!schema.provider.empty() && schema.provider != space.provider)) {
    fail(Errc::invalid_argument, "schema '{}' is for {} {}, the configs are for {} {}", schema.name,
         schema.provider, word(schema.op), space.provider, word(space.op));
  }
}

/// A model for any CPU predicts nothing that holds for the configs or the speed of one device alone.
void check_any_cpu(const ModelData& data) {
  if (!data.any_cpu) {
    if (!data.known_devices.empty())
      fail(Errc::invalid_argument, "only a model for any CPU has several known devices");
    return;
  }
  if (data.against_any_cpu) fail(Errc::invalid_argument, "a model for any CPU is not compared with itself");
  if (data.shortlist || data.confidence || data.region ||
      data.families.front().device.kind != DeviceKind::cpu)
    fail(Errc::invalid_argument, "a model for any CPU has no shortlist, no confidence, no region and no GPU");
  for (const ModelTarget& target : data.targets) {
    if (target.target != Target::relative && target.target != Target::rank)
      fail(Errc::invalid_argument, "target {} of a model for any CPU: relative or rank", word(target.target));
  }
}

void check_other_gpus(const ModelData& data) {
  if (!data.on_other_gpus.empty() && data.families.front().device.kind != DeviceKind::gpu)
    fail(Errc::invalid_argument, "results on other GPUs of a model of '{}'",
         data.families.front().device.name);
}

void check_confidence(const ModelData& data) {
  if (data.confidence) check(*data.confidence, data.families.size());
  if (data.region) check(*data.region, data.families.size());
  if (data.guard && !data.region) fail(Errc::invalid_argument, "a guard needs the region of the training");
}

void check_shortlist(const ModelData& data) {
  for (const ModelTarget& target : data.targets) {
    if (data.first_trees > target.forest.tree_count()) {
      fail(Errc::invalid_argument,
           "the first {} trees of target {} choose the shortlist, but it has {} trees", data.first_trees,
           word(target.target), target.forest.tree_count());
    }
  }
  if (data.first_trees > 0 && data.shortlist)
    fail(Errc::invalid_argument, "a model has a network or first trees for its shortlist, not both");
  if (!data.shortlist) return;
  check(*data.shortlist);
  std::unordered_set<KernelConfig> known;
  for (const Family& family : data.families) {
    for (std::size_t i = 0; i < family.configs.size(); ++i) known.insert(family.configs[i]);
  }
  for (std::size_t i = 0; i < data.shortlist->configs.size(); ++i) {
    if (!known.contains(data.shortlist->configs[i]))
      fail(Errc::invalid_argument, "output {} of the shortlist belongs to a config that no family has", i);
  }
}

void check_best(const ModelData& data) {
  if (data.best_tflops.feature_count != data.best_features.size()) {
    fail(Errc::invalid_argument, "the forest of the best TFLOPS reads {} features, {} are listed",
         data.best_tflops.feature_count, data.best_features.size());
  }
  for (const std::uint32_t feature : data.best_features) {
    if (feature >= data.schema->size() || !data.schema->depends(feature).problem_only()) {
      fail(Errc::invalid_argument,
           "feature {} cannot predict the best TFLOPS: it must depend on the problem only", feature);
    }
    if (std::ranges::count(data.best_features, feature) != 1) {
      fail(Errc::invalid_argument, "feature {} of the best TFLOPS is listed twice", feature);
    }
  }
}

}  // namespace

void check(const ModelData& data) {
  check_families(data.families);
  check_schema(data);
  check_targets(data);
  check_best(data);
  check_shortlist(data);
  check_confidence(data);
  check_any_cpu(data);
  check_other_gpus(data);
  for (const Family& family : data.families) {
    data.schema->check_configs(family.device, family.configs, family.traits);
  }
}

}  // namespace kscout
