// Writes the model folder: the model (.ksf) and its origin.
#include <cmath>
#include <cstdio>
#include <ctime>
#include <set>

#include <fcntl.h>
#include <unistd.h>

#include "core/build_info.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json_fields.h"
#include "core/links.h"
#include "dataset/problem_sizes.h"
#include "evaluate/evaluate_model.h"
#include "features/schema.h"
#include "select/reference_times.h"
#include "train/train.h"
#include "train/training_set.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json parameters_json(const TrainParameters& p) {
  return {{"num_leaves", p.leaves},
          {"learning_rate", p.learning_rate},
          {"rounds", p.rounds},
          {"least_rounds", p.min_rounds},
          {"check_every", p.check_every},
          {"patience", p.patience},
          {"min_data_in_leaf", p.min_rows},
          {"feature_fraction", p.feature_fraction},
          {"increasing", p.increasing},
          {"unscored", p.unscored},
          {"near_best_weight", p.near_best_weight},
          {"num_threads", p.threads},
          {"seed", p.seed}};
}

Json efficiency_json(const EfficiencySummary& e) {
  return {{"mean", e.mean}, {"p10", e.p10}, {"p50", e.p50}, {"min", e.min}, {"problems", e.problems}};
}

Json targets_json(const TrainingResult& result) {
  Json targets = Json::array();
  for (const TrainedTarget& target : result.targets) targets.push_back(std::string(word(target.target)));
  return targets;
}

Json feature_spec(const TrainingResult& result) {
  const Schema& schema = *result.model.data().schema;
  const Family& family = result.model.data().families.front();
  Json spec;
  spec["op_type"] = std::string(word(family.signature.op));
  spec["dtype"] = std::string(word(family.signature.dtype_a));
  spec["arch"] = result.model.device().arch;
  spec["schema"] = schema.name();
  spec["schema_hash"] = hash_digits(schema.hash());
  spec["feature_names"] = Json::array();
  spec["formulas"] = Json::object();
  for (const Feature& feature : schema.features()) {
    spec["feature_names"].push_back(feature.id);
    spec["formulas"][feature.id] = feature.formula;
  }
  spec["terms"] = Json::object();
  for (const Feature& term : schema.data().terms) spec["terms"][term.id] = term.formula;
  spec["categorical_features"] = Json::array();
  for (const auto index : schema.categorical())
    spec["categorical_features"].push_back(schema.features()[index].id);
  spec["targets"] = targets_json(result);
  spec["log_targets"] = Json::array();  // trained on ln(1 + value); inverse: e^p - 1
  for (const Target target : {Target::bandwidth, Target::latency, Target::tflops}) {
    if (result.model.has(target)) spec["log_targets"].push_back(std::string(word(target)));
  }
  spec["params"] = parameters_json(result.options.parameters);
  return spec;
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

/// Quality of the confidence out of fold, in fractions; null when there were too few choices to fit.
Json confidence_json(const TrainingResult& result) {
  if (!result.confidence) return nullptr;
  const ConfidenceFit& fit = *result.confidence;
  return {{"choices", fit.out_of_fold.size()},
          {"within_rate", fit.within_rate},
          {"log_loss", fit.log_loss},
          {"log_loss_of_rate", fit.log_loss_of_rate},
          {"efficiency", fit.efficiency}};
}

/// Cost of the shortlist out of fold, in fractions; null when no family is large enough.
Json shortlist_json(const TrainingResult& result) {
  const ShortlistFit& fit = result.shortlist;
  if (fit.problems == 0) return nullptr;
  return {{"kept", fit.shortlist.has_value()},
          {"configs", kShortlisted},
          {"problems", fit.problems},
          {"mean_efficiency", fit.mean_shortlisted},
          {"mean_efficiency_of_all", fit.mean_all},
          {"p10_efficiency", fit.p10_shortlisted},
          {"p10_efficiency_of_all", fit.p10_all}};
}

std::set<ProblemSizes> training_sizes(const TrainingResult& result) {
  std::set<ProblemSizes> sizes;
  for (const Problem& p : result.set.problems) sizes.insert(sizes_of(p));
  return sizes;
}

/// Out-of-fold efficiency on each measured device; with folds by device, that of a model without its CPU.
Json devices_json(const TrainingResult& result) {
  Json devices = Json::array();
  for (const DeviceResult& of : result.devices) {
    devices.push_back({{"device", record_json(of.device)},
                       {"cpu", cpu_of(of.device)},
                       {"model", efficiency_json(of.model)},
                       {"analytic", efficiency_json(of.analytic)},
                       {"best_fixed", efficiency_json(of.best_fixed)}});
  }
  return devices;
}

Json manifest(const TrainingResult& result, const Origin& origin) {
  int trees = 0, earlier = 0;
  for (const TrainedTarget& target : result.targets) {
    trees = std::max(trees, target.validation.rounds);
    earlier = std::max(earlier, target.earlier_trees);
  }
  Json json;
  json["kscout_version"] = std::string(build_info().version);
  json["kscout_git"] = std::string(build_info().git);
  json["timestamp"] = now();
  const fs::path& warm = result.options.warm_start;
  json["warm_start_from"] = warm.empty() ? Json(nullptr) : Json(warm.lexically_normal().filename().string());
  json["prev_n_estimators"] = earlier;
  json["new_n_estimators"] = trees;
  json["total_n_estimators"] = earlier + trees;
  json["data_files"] = origin.data_files;
  json["data_rows"] = origin.data_rows;
  json["valid_rows"] = result.set.row_count();
  json["problems"] = result.set.problems.size();
  json["unique_shapes"] = training_sizes(result).size();
  json["data_fingerprint"] = result.model.data().fingerprint;
  json["data_metadata"] = origin.metadata;
  json["device"] = record_json(result.model.device());
  if (result.model.data().any_cpu) json["devices"] = devices_json(result);
  json["provider"] = std::string(result.model.provider());
  json["rules"] = result.model.data().families.front().rules;
  json["parameters"] = parameters_json(result.options.parameters);
  if (const Handicap& handicap = result.options.handicap; !handicap.where.empty())
    json["handicap"] = {{"where", handicap.where}, {"share", handicap.share}};
  json["folds"] = result.options.folds;
  json["fold_by"] = word(result.options.fold_by);
  json["default_target"] = std::string(word(result.model.default_target()));
  json["targets"] = Json::object();
  for (std::size_t i = 0; i < result.targets.size(); ++i) {
    const TrainedTarget& target = result.targets[i];
    const ModelTarget& forest = result.model.data().targets[i];
    json["targets"][std::string(word(target.target))] = {
        {"trees", target.earlier_trees + target.validation.rounds},
        {"hard_round", target.hard_round},
        {"out_of_fold_efficiency", efficiency_json(target.validation.efficiency)},
        {"calibration", {{"offset", forest.offset}, {"slope", forest.slope}}}};
  }
  json["best_tflops_r2"] = number_or_null(result.best_tflops_r2);
  json["confidence"] = confidence_json(result);
  json["shortlist"] = shortlist_json(result);
  return json;
}

Json cv_metrics(const CrossValidation& validation) {
  Json folds = Json::array();
  for (const FoldMetrics& fold : validation.folds) {
    folds.push_back({{"fold", fold.fold},
                     {"rmse", number_or_null(fold.rmse)},
                     {"r2", number_or_null(fold.r2)},
                     {"mean_efficiency", fold.efficiency.mean},
                     {"p10_efficiency", fold.efficiency.p10},
                     {"p50_efficiency", fold.efficiency.p50},
                     {"min_efficiency", fold.efficiency.min},
                     {"train_size", fold.train_rows},
                     {"val_size", fold.validation_rows},
                     {"val_groups", fold.validation_problems}});
  }
  return folds;
}

Json importances(const TrainedTarget& target, const Schema& schema) {
  Json json = Json::object();
  for (std::size_t f = 0; f < schema.size(); ++f) {
    json[schema.features()[f].id] = static_cast<std::int64_t>(target.split_counts[f]);
  }
  return json;
}

void write_json(const fs::path& file, const Json& json) { write_file_atomically(file, readable_json(json)); }

/// Exchanges two folders: in one step where the file system can, else by three renames.
void exchange(const fs::path& fresh, const fs::path& folder) {
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) return;
  const fs::path old = make_part_folder(folder);
  fs::rename(folder, old);
  try {
    fs::rename(fresh, folder);
  } catch (const fs::filesystem_error&) {
    fs::rename(old, folder);
    throw;
  }
  fs::rename(old, fresh);
}

/// Installs the finished folder `fresh` at the path `folder`, and removes the old folder.
void put_in_place(const fs::path& fresh, const fs::path& folder) {
  if (!fs::exists(folder)) return fs::rename(fresh, folder);
  exchange(fresh, folder);
  std::error_code ignored;  // the new model is installed already
  fs::remove_all(fresh, ignored);
}

/// Copies the files of a model and those that `tune` keeps beside them, but not the previous model.
void copy_model(const fs::path& from, const fs::path& to) {
  fs::create_directory(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    if (entry.path().filename() != kPreviousModel)
      fs::copy(entry.path(), to / entry.path().filename(), fs::copy_options::recursive);
  }
}

/// Whether a file of this name belongs to one model: a training writes it, or it is the model's report.
bool is_of_model(std::string_view name) {
  return name == kReportFile || name == "model.ksf" || name == "feature_spec.json" ||
         name == "train_manifest.json" || name == kTrainingSizesFile || name == kReferenceTimesFile ||
         name == "oof_predictions.parquet" || name.starts_with("cv_metrics_") ||
         name.starts_with("feature_importances_");
}

/// Copies the files that belong to no single model (a user's notes, measurements of `tune`), unless `to` has
/// a file of that name.
void keep_other_files(const fs::path& from, const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path name = entry.path().filename();
    if (!is_of_model(name.string()) && !fs::exists(to / name))
      fs::copy(entry.path(), to / name, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
}

/// A new, empty folder beside `folder`. Removed with its content unless it was installed.
class Staging {
 public:
  explicit Staging(const fs::path& folder) : path_(make_part_folder(folder)) {}
  Staging(const Staging&) = delete;
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

  /// Installs the finished folder in place of the old one, with the old folder's other files.
  void replace(const fs::path& folder) const {
    if (fs::exists(folder)) keep_other_files(folder, path_);
    put_in_place(path_, folder);
  }

 private:
  fs::path path_;
};

void refuse_foreign_folder(const fs::path& folder) {
  if (fs::exists(folder) && !fs::is_directory(folder))
    fail(Errc::invalid_argument, "{} is a file: give a new folder, or an old model's", folder.string());
  if (fs::exists(folder) && !fs::is_empty(folder) && !fs::exists(folder / "model.ksf")) {
    fail(Errc::invalid_argument, "{} holds other files and no model: give a new folder, or an old model's",
         folder.string());
  }
}

}  // namespace

fs::path real_model_folder(const fs::path& given) {
  const fs::path folder = given.lexically_normal();
  return resolve_links(folder.has_filename() ? folder : folder.parent_path());
}

void check_model_folder(const fs::path& given) {
  const fs::path folder = real_model_folder(given);
  try {
    refuse_foreign_folder(folder);
    const Staging writable(folder);
  } catch (const fs::filesystem_error& error) {
    fail(Errc::device_failure, "no model can be written there: {}", error.what());
  } catch (const Error& error) {
    if (error.code() == Errc::invalid_argument) throw;
    fail(Errc::device_failure, "no model can be written there: {}", error.what());
  }
}

void install_model_folder(const fs::path& from, const fs::path& given) {
  const fs::path to = real_model_folder(given);
  try {
    refuse_foreign_folder(to);
    if (fs::exists(to / "model.ksf")) {
      fs::remove_all(from / kPreviousModel);
      copy_model(to, from / kPreviousModel);
      keep_other_files(to, from);
    }
    put_in_place(from, to);
  } catch (const fs::filesystem_error& error) {
    fail(Errc::device_failure, "{}", error.what());
  }
}

void write_model_folder(const fs::path& given, const TrainingResult& result, const Origin& origin) {
  const fs::path folder = real_model_folder(given);
  try {
    refuse_foreign_folder(folder);
    const Staging staging(folder);
    const fs::path& to = staging.path();
    write_file_atomically(to / "model.ksf", result.model.bytes(), kOwnersMode);
    write_json(to / "feature_spec.json", feature_spec(result));
    write_json(to / "train_manifest.json", manifest(result, origin));
    for (const TrainedTarget& target : result.targets) {
      const std::string name(word(target.target));
      write_json(to / ("cv_metrics_" + name + ".json"), cv_metrics(target.validation));
      write_json(to / ("feature_importances_" + name + ".json"),
                 importances(target, *result.model.data().schema));
    }
    write_problem_sizes(to / kTrainingSizesFile, result.set.problems.front().op(), training_sizes(result));
    write_oof_parquet(to / "oof_predictions.parquet", result);
    staging.replace(folder);
  } catch (const fs::filesystem_error& error) {
    fail(Errc::device_failure, "{}", error.what());
  }
}

}  // namespace kscout
