#pragma once
/// \file
/// From measurements to a model.
///
///     TrainOptions options;
///     const TrainingResult result = train(tables, families, schema, options, progress);
///     write_model_folder("models/gemm_fp32_zen3-2c", result, about);
///
/// Every target is cross-validated; the one whose choices are fastest on sizes it never saw becomes the
/// default.
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "problems/conv_sets.h"
#include "problems/problem_sets.h"
#include "select/model.h"
#include "train/confidence.h"
#include "train/cross_validate.h"
#include "train/shortlist.h"
#include "train/training_set.h"

namespace kscout {

struct TrainOptions {
  std::uint32_t folds = 5;
  SplitBy fold_by = SplitBy::sizes;  ///< what no two folds share
  std::vector<Target> targets = {Target::relative, Target::rank, Target::tflops};
  TrainParameters parameters;
  /// A model folder whose trees stay; parameters.rounds more are added, no fewer: what was held out for
  /// validation may have been trained on then. Empty: from nothing.
  std::filesystem::path warm_start;
  Handicap handicap;  ///< of the targets that compare configs (relative, rank)
  /// Times that problems whose choices were bad out of fold get more weight (1 to 5) and training is tried
  /// again. The weights that choose best out of fold stay, those without any if none is better.
  int hard_rounds = 0;
  /// Folder in which finished targets are kept until the caller removes it: the same training goes on from
  /// them (train/checkpoint.h). Empty: none is kept.
  std::filesystem::path checkpoint = {};
};

struct TrainedTarget {
  Target target;
  CrossValidation validation;
  std::string text;                  ///< LightGBM's model, validation.rounds trees, on all rows
  std::vector<double> split_counts;  ///< per feature
  int earlier_trees = 0;             ///< of the model that training went on from, within `text`
  int hard_round = 0;                ///< which round of weights was best; 0: none
};

struct TrainingResult {
  Model model;
  TrainingSet set;
  std::vector<std::uint32_t> fold_of;  ///< per problem
  std::vector<TrainedTarget> targets;  ///< in the order of the model: default first
  double best_tflops_r2 = 0;           ///< of ln TFLOPS, out of fold
  TrainOptions options;
  std::optional<ConfidenceFit> confidence;  ///< what the model's confidence came from
  ShortlistFit shortlist;                   ///< what the model's shortlist cost out of fold
};

/// The families that the tables were measured from: one per signature among their problems, enumerated by
/// `rules` (empty: the rule set that the tables name, else "default"; of several rule sets as of
/// kMeasuredRules the tables' own configs) and what any of the tables' filters admits:
/// the same for several tables as for one merged from them.
std::vector<Family> families_of(std::span<const MeasurementTable> tables, std::string rules = "");

/// `families`: the candidates of the model, one per signature; those of signatures without measurements are
/// dropped. `progress` is called after every tree, and may throw to end the training. Throws invalid_argument
/// when there is too little to train on.
TrainingResult train(std::span<const MeasurementTable> tables, std::vector<Family> families,
                     std::shared_ptr<const Schema> schema, const TrainOptions& options,
                     const Progress& progress);

/// 16 hex digits that change with any measurement, config or problem.
std::string fingerprint_of(const TrainingSet& set, const Device& device);

/// What the model's folder tells about its origin.
struct Origin {
  std::vector<std::string> data_files;
  std::map<std::string, std::string> metadata;  ///< of the datasets
  std::size_t data_rows = 0;                    ///< before filtering
};

/// The dataset that `tune` leaves in a model's folder.
inline constexpr const char* kKeptMeasurements = "measurements.parquet";
/// The model before, in the folder of the one that took its place.
inline constexpr const char* kPreviousModel = "previous";

/// The folder that a model is written to: "models/x/" is "models/x", and a symbolic link is the folder that
/// it names, so that names of folders beside it can be made and it can be replaced.
std::filesystem::path real_model_folder(const std::filesystem::path& folder);

/// Whether a model can be written to the folder, to be asked before the training. Creates the folders above
/// it. Throws invalid_argument when it is a file or holds files but no model, device_failure when nothing can
/// be written there.
void check_model_folder(const std::filesystem::path& folder);

/// Writes model.ksf, feature_spec.json, train_manifest.json, training_sizes.parquet,
/// cv_metrics_<target>.json, feature_importances_<target>.json, oof_predictions.parquet
/// (docs/formats/model-folder.md) into a folder beside `folder` that then takes its place: an old model
/// answers until the new one is complete. Measurements and the model before, which `tune` left in it, stay.
/// Throws as check_model_folder.
void write_model_folder(const std::filesystem::path& folder, const TrainingResult& result,
                        const Origin& origin);

/// Moves the finished model folder `from` to `to`, in the same file system. A model that was there stays
/// inside it as kPreviousModel, in the place of an older one. Both change places in one step where the file
/// system can: some model answers at any time. After an error the old one is as it was. Throws as
/// check_model_folder.
void install_model_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// ---- Out-of-fold predictions as Parquet: one row per (problem, config) of the training set.

/// Columns: the problem's fields, config (the kernel's name), fold, time_us, tflops, raced,
/// oof_pred_<target>... (as LightGBM puts it out, before calibration). Throws device_failure.
void write_oof_parquet(const std::filesystem::path& file, const TrainingResult& result);

/// How well the model chose for each problem while it had not seen its sizes, by the first of its targets:
/// speed of the config that it puts first over that of the fastest. Throws corrupt_data when the file is no
/// such table or of GEMMs.
std::vector<ShapeEfficiency> oof_efficiencies(const std::filesystem::path& file);

}  // namespace kscout
