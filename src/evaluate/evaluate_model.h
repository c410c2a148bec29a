#pragma once
/// \file
/// A model against the oracle of a dataset, on problems that it never saw.
///
///     const ModelEvaluation e = evaluate_model("models/gemm_fp32_zen3-2c", table, {});
///     std::cout << evaluation_json(e).dump(2);
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>

#include "evaluate/baselines.h"
#include "evaluate/evaluate.h"
#include "select/model.h"

namespace kscout {

/// File of a model folder that holds them (dataset/problem_sizes.h).
inline constexpr const char* kTrainingSizesFile = "training_sizes.parquet";

/// The sizes that a model was trained on: kTrainingSizesFile, or `training_sizes` of an older
/// train_manifest.json; nothing when the folder has neither file or `model` is a bare .ksf file. Throws
/// corrupt_data.
std::optional<std::set<ProblemSizes>> training_sizes(const std::filesystem::path& model);

struct ModelEvaluationOptions {
  Pool pool = Pool::measured;
  bool in_sample = false;        ///< evaluate also problems of sizes that the model was trained on
  std::optional<Target> target;  ///< instead of the model's default
  std::optional<MeasurementTable> training;  ///< where static baselines are chosen
};

struct ModelEvaluation {
  std::string model, provider, rules, target, device;
  std::string warning;  ///< the measurements are of another device than the model; empty: of its own
  Pool pool = Pool::measured;
  std::size_t problems_given = 0;
  std::size_t trained_on = 0;      ///< problems of sizes in the training set
  bool in_sample = false;          ///< they were evaluated all the same
  bool training_known = true;      ///< false: the model does not tell what it was trained on
  std::size_t without_family = 0;  ///< left out: the model has no family for their signature
  Evaluation evaluation;
  std::optional<Summary> all_scored;  ///< as if every config had an exact score; nothing without a shortlist
  std::vector<Baseline> baselines;
};

/// Throws what Model::load and evaluate throw; invalid_argument when every problem was trained on, or the
/// model and the table are of different providers.
ModelEvaluation evaluate_model(const std::filesystem::path& model, const MeasurementTable& table,
                               const ModelEvaluationOptions& options);

/// Of single problems `evaluation_json` holds the worst.
inline constexpr std::size_t kWorstShown = 10;

/// Everything but the single problems; percentages under `efficiency`, `top_k`, `baselines`.
std::string evaluation_json(const ModelEvaluation& evaluation, std::size_t worst = kWorstShown);
/// One line per problem, worst first: problem, efficiency, pick, oracle, times, top-k; what is a fraction in
/// ProblemResult is in percent.
std::string evaluation_csv(const ModelEvaluation& evaluation);
/// One line per (problem, pick): rank, config, predicted and measured TFLOPS, efficiency in percent, status.
std::string predictions_csv(const ModelEvaluation& evaluation);

/// A command that repeats the model's choice on the problem, and one that runs the oracle's config.
std::string reproduce_command(const ModelEvaluation& evaluation, const ProblemResult& result);

/// Results by rising efficiency.
std::vector<const ProblemResult*> worst_first(const Evaluation& evaluation);

}  // namespace kscout
