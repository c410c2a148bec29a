#pragma once
/// \file
/// Trains a model from measurements.
///
///     TrainOptions options;
///     const TrainingResult result = train(tables, families, schema, options, progress);
///     write_model_folder("models/gemm_fp32_zen3-2c", result, about);
///
/// Cross-validates every target; the target whose choices are fastest on held-out sizes becomes the default.
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "op/conv/conv_sets.h"
#include "op/problem_sets.h"
#include "select/model.h"
#include "train/confidence.h"
#include "train/cross_validate.h"
#include "train/families.h"
#include "train/shortlist.h"
#include "train/training_set.h"

namespace kscout {

/// What no two folds of a cross-validation share: a group of SplitBy, or a CPU with all its instruction sets
/// and thread counts.
enum class FoldBy : std::uint8_t { sizes, weights, geometry, device };
template <>
struct EnumWords<FoldBy> {
  static constexpr std::string_view what = "way to make folds";
  static constexpr std::array<std::string_view, 4> words = {"sizes", "weights", "geometry", "device"};
};

struct TrainOptions {
  TrainFor devices = TrainFor::one_device;
  std::uint32_t folds = 5;  ///< with FoldBy::device there is one fold per CPU instead
  FoldBy fold_by = FoldBy::sizes;
  std::vector<Target> targets = {Target::relative, Target::rank, Target::tflops};
  TrainParameters parameters;
  /// A model folder whose trees are kept. Training adds exactly parameters.rounds trees: cross-validation
  /// cannot choose their number, because the earlier trees may have been trained on the held-out rows. Of a
  /// model for any CPU it adds as many as choose best. Empty: trains from nothing.
  std::filesystem::path warm_start;
  Handicap handicap;  ///< of the targets that compare configs (relative, rank)
  /// Maximum number of retrainings with higher weights (1 to 5) for problems whose out-of-fold choice was
  /// bad. Keeps the weights that choose best out of fold, or the plain weights if none is better.
  int hard_rounds = 0;
  /// Gives a model of a library with suggestions a guard (select/region.h).
  bool guard = true;
  /// Folder that keeps finished targets until the caller removes it: an interrupted training continues from
  /// them (train/checkpoint.h). Empty: keeps none.
  std::filesystem::path checkpoint = {};
};

struct TrainedTarget {
  Target target;
  CrossValidation validation;
  std::string text;                  ///< LightGBM's model with validation.rounds trees, trained on all rows
  std::vector<double> split_counts;  ///< per feature
  int earlier_trees = 0;             ///< trees of the earlier model within `text`
  int hard_round = 0;                ///< retraining with the best weights; 0: the plain weights
};

/// Efficiency of choices on the problems of one device, beside choices that need no training.
struct DeviceResult {
  Device device;
  EfficiencySummary model;       ///< the default target, out of fold
  EfficiencySummary analytic;    ///< lowest analytic time; of 0 problems when the schema lacks it
  EfficiencySummary best_fixed;  ///< the config that is best on average, known only after measuring
};

struct TrainingResult {
  Model model;
  TrainingSet set;
  std::vector<std::uint32_t> fold_of;  ///< per problem
  std::vector<TrainedTarget> targets;  ///< in the order of the model: default first
  double best_tflops_r2 = 0;           ///< of ln TFLOPS, out of fold
  TrainOptions options;
  std::optional<ConfidenceFit> confidence;  ///< the fit of the model's confidence
  ShortlistFit shortlist;                   ///< the model's shortlist and its cost out of fold
  std::vector<DeviceResult> devices;        ///< one per device of the set
};

/// What a training takes from measurements. The tables are not needed afterwards, which saves memory.
struct TrainingInput {
  Device device;  ///< of the model
  TrainingSet set;
  std::vector<Family> families;  ///< with a measured problem
};
/// `families`: the candidates of the model, one per signature; families of signatures without measurements
/// are dropped, unless the signature without its epilogue has some. For any CPU, rows of configs that the
/// families' rule set does not have on the measured device are left out. Throws invalid_argument when there
/// are too few measurements.
TrainingInput training_input(std::span<const CompactTable> tables, std::vector<Family> families,
                             const Schema& schema, const TrainOptions& options);

/// `progress` is called after every tree, and may throw to end the training. Throws invalid_argument.
TrainingResult train(TrainingInput input, std::shared_ptr<const Schema> schema, const TrainOptions& options,
                     const Progress& progress);
/// Trains on training_input().
TrainingResult train(std::span<const CompactTable> tables, std::vector<Family> families,
                     std::shared_ptr<const Schema> schema, const TrainOptions& options,
                     const Progress& progress);

/// 16 hex digits that change with any measurement, config or problem.
std::string fingerprint_of(const TrainingSet& set, const Device& device);

/// The origin of a model, as its folder records it.
struct Origin {
  std::vector<std::string> data_files;
  std::map<std::string, std::string> metadata;  ///< of the datasets
  std::size_t data_rows = 0;                    ///< before filtering
};

/// The dataset that `tune` leaves in a model's folder.
inline constexpr const char* kKeptMeasurements = "measurements.parquet";
/// The page about the model that `kscout tune` writes into its folder (report/report.h).
inline constexpr const char* kReportFile = "report.html";
/// Name of the folder that holds the previous model, inside the folder of the model that replaced it.
inline constexpr const char* kPreviousModel = "previous";

/// The folder that a model is written to, without a trailing slash and with symbolic links resolved:
/// "models/x/" is "models/x". Names of folders beside it can then be made, and it can be replaced.
std::filesystem::path real_model_folder(const std::filesystem::path& folder);

/// Checks, before a training, that a model can be written to the folder. Creates the folders above it. Throws
/// invalid_argument when it is a file or holds files but no model, device_failure when nothing can be written
/// there.
void check_model_folder(const std::filesystem::path& folder);

/// Writes model.ksf, feature_spec.json, train_manifest.json, training_sizes.parquet,
/// cv_metrics_<target>.json, feature_importances_<target>.json, oof_predictions.parquet
/// (docs/formats/model-folder.md) into a temporary folder beside `folder`, then replaces `folder` by it: the
/// old model stays in use until the new one is complete. Measurements and the previous model, which `tune`
/// left in the folder, are kept. Throws the errors of check_model_folder().
void write_model_folder(const std::filesystem::path& folder, const TrainingResult& result,
                        const Origin& origin);

/// Moves the finished model folder `from` to `to`, in the same file system. An existing model at `to` is kept
/// inside the new one as kPreviousModel, replacing an older one. The exchange is one step where the file
/// system can, so a model is available at any time. After an error the old model is unchanged. Throws the
/// errors of check_model_folder().
void install_model_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// ---- Out-of-fold predictions as Parquet: one row per (problem, config) of the training set.

/// Columns: the problem's fields, config (the kernel's name), fold, time_us, tflops, raced,
/// oof_pred_<target>... (LightGBM's output before calibration). Throws device_failure.
void write_oof_parquet(const std::filesystem::path& file, const TrainingResult& result);

/// Efficiency of the model on each problem: speed of the config with the best score over the speed of the
/// fastest. The scores are those of the model's first target, out of fold. Throws corrupt_data unless the
/// file is such a table for convolutions.
std::vector<ShapeEfficiency> oof_efficiencies(const std::filesystem::path& file);

}  // namespace kscout
