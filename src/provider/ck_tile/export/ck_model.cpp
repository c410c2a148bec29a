#include "provider/ck_tile/export/ck_model.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "export/header.h"
#include "features/schema.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/ck_tile/select/ck_folder.h"

namespace kscout {
namespace {

using Positions = std::vector<std::uint32_t>;

/// The published schema of the model's features, for its direction.
Schema published_schema(const Model& model) {
  const Schema& has = *model.data().schema;
  const auto names = Schema::names();
  if (!has.name().starts_with("ck_") || std::ranges::find(names, has.name()) == names.end()) {
    fail(Errc::unsupported,
         "the model reads the features of schema '{}', which CK Tile's scripts cannot compute: train with a "
         "published schema, such as --schema {} (kscout features lists them)",
         has.name(), has.data().op == Op::gemm ? "ck_gemm_72" : "ck_conv_97");
  }
  return Schema::find(has.name()).for_op(has.data().op);
}

/// The place of each of the model's features in the published schema.
Positions positions_in(const Schema& published, const Schema& has) {
  Positions positions;
  for (const Feature& feature : has.features())
    positions.push_back(static_cast<std::uint32_t>(published.index(feature.id)));
  if (published.only(positions).hash() != has.hash()) {
    fail(Errc::unsupported,
         "the model's features are of an earlier schema '{}' with other formulas: train it again",
         has.name());
  }
  return positions;
}

/// A forest that reads its features at other places.
Forest moved(Forest forest, const Positions& to, std::size_t features) {
  for (std::uint32_t& feature : forest.feature) feature = to[feature];
  forest.feature_count = static_cast<std::uint32_t>(features);
  return forest;
}

/// The trees of both forests, whose results are sums.
Forest sum_of(const Forest& a, const Forest& b) {
  Forest sum = a;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  /// Appends ends of ranges, of which the first is 0, after those that are there.
  const auto append_ends = [](auto& to, const auto& from) {
    const auto before = to.back();
    for (std::size_t i = 1; i < from.size(); ++i) to.push_back(before + from[i]);
  };
  for (std::size_t node = 0; node < b.threshold.size(); ++node) {
    const bool is_set = (b.decision[node] & Decision::categorical) != 0;
    sum.threshold.push_back(b.threshold[node] + (is_set ? static_cast<double>(a.set_count()) : 0));
  }
  append_ends(sum.tree_nodes, b.tree_nodes);
  append_ends(sum.tree_leaves, b.tree_leaves);
  append(sum.feature, b.feature);
  append(sum.left, b.left);
  append(sum.right, b.right);
  append(sum.decision, b.decision);
  append(sum.leaf_value, b.leaf_value);
  append_ends(sum.set_words, b.set_words);
  append(sum.set_bits, b.set_bits);
  return sum;
}

/// ln of the predicted TFLOPS, as one forest.
Forest log_tflops_forest(const ModelData& data, const ModelTarget& relative, const Positions& positions,
                         std::size_t features) {
  if (relative.forest.average || data.best_tflops.average)
    fail(Errc::unsupported,
         "a forest whose result is a mean cannot be added to another: export --target tflops");
  Forest best = data.best_tflops, share = relative.forest;
  for (double& leaf : share.leaf_value) leaf *= relative.slope;
  for (std::uint32_t leaf = 0; leaf < best.tree_leaves[1]; ++leaf) best.leaf_value[leaf] += relative.offset;
  Positions of_best;
  for (const std::uint32_t feature : data.best_features) of_best.push_back(positions[feature]);
  return sum_of(moved(std::move(best), of_best, features), moved(std::move(share), positions, features));
}

Json hardware_of(const Device& device) {
  Json hardware = Json::object();
  for (const CkHardwareConstant& constant : kCkHardware) {
    const double value = device.*constant.fact / constant.unit;
    if (value > 0) hardware[std::string(constant.name)] = static_cast<std::int64_t>(std::llround(value));
  }
  return hardware;
}

Json manifest_of(const std::filesystem::path& file, std::size_t trees) {
  const Json known = file.empty() ? Json::object() : Json::parse(read_file(file), nullptr, false);
  Json manifest = {{"warm_start_from", nullptr},
                   {"prev_n_estimators", 0},
                   {"new_n_estimators", trees},
                   {"total_n_estimators", trees}};
  for (const char* const member : {"data_rows", "valid_rows", "unique_shapes", "timestamp"}) {
    const auto found = known.is_object() ? known.find(member) : known.end();
    manifest[member] = found == known.end() ? Json(nullptr) : *found;
  }
  return manifest;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ck_model_files(const Model& model,
                                                                const CkModelExport& options) {
  const ModelData& data = model.data();
  const Schema published = published_schema(model);
  const Positions positions = positions_in(published, *data.schema);
  LightgbmModel lightgbm = lightgbm_model(model, options.target);
  const Target wanted = options.target.value_or(model.default_target());
  const ModelTarget& target = *std::ranges::find(data.targets, wanted, &ModelTarget::target);
  if (wanted == Target::relative) {
    lightgbm.forest = log_tflops_forest(data, target, positions, published.size());
    lightgbm.objective = "poisson";
  } else if (wanted == Target::tflops) {
    lightgbm.forest = moved(std::move(lightgbm.forest), positions, published.size());
    lightgbm.objective = target.scale == Scale::log ? "poisson" : "regression";
  } else {
    fail(Errc::unsupported,
         "target {} predicts no TFLOPS, by which CK Tile's scripts choose: export --target relative or "
         "tflops, "
         "or train them",
         word(wanted));
  }
  lightgbm.feature_names.clear();
  for (const Feature& feature : published.features()) lightgbm.feature_names.push_back(feature.id);

  const Signature& signature = data.families.front().signature;
  const bool log1p = wanted == Target::tflops && target.scale == Scale::log1p;
  const CkEngine& engine = ck_engine(published);
  Json spec;
  spec["op_type"] = is_direction(signature.op) ? "grouped_conv" : "gemm_universal";
  spec["dtype"] = std::string(word(signature.dtype_a));
  spec["arch"] = model.device().arch;
  spec["feature_names"] = lightgbm.feature_names;
  spec["categorical_features"] = Json::array();
  for (const std::uint32_t feature : published.categorical())
    spec["categorical_features"].push_back(published.features()[feature].id);
  spec["targets"] = {"tflops"};
  spec["log_targets"] = log1p ? Json({"tflops"}) : Json::array();
  spec["tflops_log_transform"] = log1p;
  spec["params"] = {{"objective", lightgbm.objective}};
  spec["feature_engine"] = std::string(engine.name);
  spec["feature_encoding_version"] = engine.encoding_version;
  spec["hardware"] = hardware_of(model.device());
  return {
      {"model_tflops.lgbm", lightgbm_text(lightgbm)},
      {"feature_spec.json", readable_json(spec)},
      {"train_manifest.json", readable_json(manifest_of(options.manifest, lightgbm.forest.tree_count()))}};
}

}  // namespace kscout
