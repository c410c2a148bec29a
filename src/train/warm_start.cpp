#include "train/warm_start.h"

#include <algorithm>
#include <set>

#include "core/fail.h"
#include "core/files.h"
#include "lightgbm/lightgbm.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/ck_tile/select/ck_folder.h"

namespace kscout {
namespace {

std::vector<std::string> ids_of(const Schema& schema) {
  std::vector<std::string> ids;
  for (const Feature& feature : schema.features()) ids.push_back(feature.id);
  return ids;
}

/// The entries of `all` that `other` lacks.
std::vector<std::string> without(const std::vector<std::string>& all, const std::vector<std::string>& other) {
  std::vector<std::string> rest;
  for (const auto& one : all) {
    if (std::ranges::find(other, one) == other.end()) rest.push_back(one);
  }
  return rest;
}

std::vector<std::string> categorical_of(const Schema& schema) {
  std::vector<std::string> ids;
  for (const auto index : schema.categorical()) ids.push_back(schema.features()[index].id);
  return ids;
}

void check_features(const std::string& folder, const std::vector<std::string>& earlier,
                    const std::vector<std::string>& now) {
  if (earlier == now) return;
  const auto added = without(now, earlier), removed = without(earlier, now);
  if (added.empty() && removed.empty()) {
    fail(Errc::invalid_argument, "--warm-start {}: it reads the same features in another order", folder);
  }
  fail(Errc::invalid_argument,
       "--warm-start {}: its features are others: added since [{}], removed [{}]; train with its schema",
       folder, fmt::join(added, ", "), fmt::join(removed, ", "));
}

void check_same(const std::string& folder, std::string_view what, std::string_view earlier,
                std::string_view now) {
  if (earlier.empty() || earlier == now) return;
  fail(Errc::invalid_argument, "--warm-start {}: it is of {} {}, the data are of {}", folder, what, earlier,
       now);
}

/// The constants of CK Tile's trainer must be those of the data: they are part of many features.
void check_hardware(const std::string& folder, const LightgbmFolder& models, const Device& device) {
  for (const auto& [name, value] : models.hardware) {
    const CkHardwareConstant& constant = find_ck_hardware(name);
    const double now = device.*constant.fact / constant.unit;
    if (value != now) {
      fail(Errc::invalid_argument,
           "--warm-start {}: its features were computed with {} = {:g}, the data are of {:g}; train without "
           "--warm-start",
           folder, name, value, now);
    }
  }
}

/// CK Tile's trainer has its own words for ops.
std::string_view op_word(std::string_view op, Op now) {
  const bool theirs = op == "gemm_universal" || op == "gemm_universal_vec"
                          ? now == Op::gemm
                          : op == "grouped_conv" && is_direction(now);
  return theirs ? word(now) : op;
}

/// Which targets are trained here on ln(1 + value).
bool is_log(Target target) {
  return target == Target::tflops || target == Target::latency || target == Target::bandwidth;
}

/// Describes a model of ours as a folder of CK Tile's trainer.
LightgbmFolder folder_of(const Model& model) {
  const Schema& schema = *model.data().schema;
  const Signature& signature = model.data().families.front().signature;
  LightgbmFolder folder;
  folder.op = word(signature.op);
  folder.dtype = word(signature.dtype_a);
  folder.arch = model.device().arch;
  folder.feature_names = ids_of(schema);
  folder.categorical = categorical_of(schema);
  for (const ModelTarget& of : model.data().targets)
    folder.targets.push_back({std::string(word(of.target)), is_log(of.target) && of.scale == Scale::log1p,
                              lightgbm_model(of.forest, schema, of.target == Target::rank)});
  return folder;
}

/// Reads our format where there is a model.ksf, or `path` is one; else a folder of CK Tile's trainer. A model
/// for any CPU is made for `device`.
WarmStart read_earlier(const std::filesystem::path& path, const Device& device) {
  const bool ours = !std::filesystem::is_directory(path) || !is_absent(path / "model.ksf");
  if (!ours || is_absent(path)) return {path, read_lightgbm_folder(path)};
  const Model model = Model::load(path, &device);
  return {path, folder_of(model), model.data().any_cpu};
}

}  // namespace

const LightgbmTarget* WarmStart::find(Target target) const noexcept {
  const auto found = std::ranges::find(models.targets, word(target), &LightgbmTarget::name);
  return found == models.targets.end() ? nullptr : &*found;
}

int WarmStart::trees(Target target) const noexcept {
  const LightgbmTarget* const earlier = find(target);
  return earlier ? static_cast<int>(earlier->model.forest.tree_count()) : 0;
}

WarmStart read_warm_start(const std::filesystem::path& folder, const Schema& schema,
                          const Signature& signature, const Device& device, std::span<const Target> targets) {
  WarmStart warm = read_earlier(folder, device);
  const LightgbmFolder& models = warm.models;
  const std::string name = folder.string();
  check_features(name, models.feature_names, ids_of(schema));
  const std::vector<std::string> categorical = categorical_of(schema);
  const std::set<std::string> earlier(models.categorical.begin(), models.categorical.end());
  if (earlier != std::set<std::string>(categorical.begin(), categorical.end())) {
    fail(Errc::invalid_argument, "--warm-start {}: its categorical features are [{}], those of '{}' [{}]",
         name, fmt::join(models.categorical, ", "), schema.name(), fmt::join(categorical, ", "));
  }
  check_same(name, "operation", op_word(models.op, signature.op), word(signature.op));
  check_same(name, "element type", models.dtype, word(signature.dtype_a));
  check_same(name, "architecture", models.arch.substr(0, models.arch.find(':')), device.arch);
  if (schema.name().starts_with("ck_")) check_ck_encoding(models, schema, name);
  check_hardware(name, models, device);
  for (const Target target : targets) {
    const LightgbmTarget* const before = warm.find(target);
    if (!before) continue;
    if (is_log(target) != before->log1p) {
      fail(Errc::invalid_argument,
           "--warm-start {}: target {} was learnt {}, here it is learnt {}: trees of both cannot be added",
           name, before->name, before->log1p ? "as ln(1 + value)" : "as it is",
           before->log1p ? "as it is" : "as ln(1 + value)");
    }
    if (target == Target::latency && microseconds_per_latency(models) != 1) {
      fail(Errc::invalid_argument,
           "--warm-start {}: target latency was learnt in milliseconds, here it is learnt in microseconds: "
           "trees of both cannot be added; name other --targets",
           name);
    }
  }
  return warm;
}

}  // namespace kscout
