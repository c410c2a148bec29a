#pragma once
/// \file
/// Evaluates a model against the oracle of a dataset, on held-out problems.
///
///     const ModelEvaluation e = evaluate_model("models/gemm_fp32_any_cpu", table, {});
///     std::cout << evaluation_json(e).dump(2);
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>

#include "evaluate/baselines.h"
#include "evaluate/evaluate.h"
#include "select/model.h"

namespace kscout {

/// File of a model folder that holds the training sizes (dataset/problem_sizes.h).
inline constexpr const char* kTrainingSizesFile = "training_sizes.parquet";

/// The sizes that a model was trained on: kTrainingSizesFile, or `training_sizes` of an older
/// train_manifest.json; nothing when the folder has neither file or `model` is a bare .ksf file. Throws
/// corrupt_data.
std::optional<std::set<ProblemSizes>> training_sizes(const std::filesystem::path& model);

struct ModelEvaluationOptions {
  Pool pool = Pool::measured;
  bool in_sample = false;                ///< evaluate problems of training sizes, too
  bool guard = true;                     ///< false: choices as with KSCOUT_DISABLE=guard
  std::optional<Target> target;          ///< instead of the model's default
  std::optional<CompactTable> training;  ///< dataset on which static baselines are chosen
};

/// Speeds over some problems.
struct Speeds {
  double geomean = 0, p10 = 0, min = 0;
};

/// Speeds of the picks divided by those of the library's own choices, on problems where both were measured.
struct AgainstSuggestion {
  std::string kind = {};  ///< of the problems (Operation::kind_of); empty: all
  std::size_t problems = 0;
  std::size_t same = 0;   ///< picks that are the first suggestion
  Speeds first = {};      ///< over the first suggestion
  Speeds best_of_8 = {};  ///< over the fastest of the first eight, as cudnn.benchmark finds it
  double fastest = 0;     ///< of the fastest measured config over the first suggestion, geometric mean
  double all_calls = 0;   ///< time of all calls with the best of eight over that with the picks
};

struct ModelEvaluation {
  std::string model, provider, rules, target, device;
  std::string warning;  ///< set when the measurements are of another device than the model; else empty
  Pool pool = Pool::measured;
  std::size_t problems_given = 0;
  std::size_t trained_on = 0;      ///< problems whose sizes are in the training set
  bool in_sample = false;          ///< these problems were evaluated, too
  bool training_known = true;      ///< false: the model does not list its training sizes
  std::size_t without_family = 0;  ///< problems left out: the model has no family for their signature
  Evaluation evaluation;
  /// Picks outside the model's family: a selector, which knows the family only, does not return them.
  std::size_t picks_outside_family = 0;
  /// Summary of choices by exact scores of all configs; nothing when the model has no shortlist.
  std::optional<Summary> all_scored;
  std::size_t shortlisted = 0;  ///< number of configs that get exact scores; 0: all
  std::vector<Baseline> baselines;
  /// Of all problems, then of each kind; empty when no suggestion was measured.
  std::vector<AgainstSuggestion> against_suggestion;
};

/// Throws what Model::load and evaluate throw; invalid_argument when the model was trained on every problem,
/// or the model and the table have different providers. A large table is better moved than copied.
ModelEvaluation evaluate_model(const std::filesystem::path& model, CompactTable table,
                               const ModelEvaluationOptions& options);

/// Default number of worst problems in `evaluation_json`.
inline constexpr std::size_t kWorstShown = 10;

/// The evaluation as JSON, with the `worst` worst problems. Members of `efficiency`, `top_k` and `baselines`
/// are percentages.
std::string evaluation_json(const ModelEvaluation& evaluation, std::size_t worst = kWorstShown);
/// One line per problem, worst first: problem, efficiency, pick, oracle, times, top-k. Fractions of
/// ProblemResult become percentages.
std::string evaluation_csv(const ModelEvaluation& evaluation);
/// One line per (problem, pick): rank, config, predicted and measured TFLOPS, efficiency in percent, status.
std::string predictions_csv(const ModelEvaluation& evaluation);

/// Two commands: one repeats the model's choice on the problem, the other runs the oracle's config.
std::string reproduce_command(const ModelEvaluation& evaluation, const ProblemResult& result);

/// Results by ascending efficiency.
std::vector<const ProblemResult*> worst_first(const Evaluation& evaluation);

}  // namespace kscout
