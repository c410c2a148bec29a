#include "evaluate/evaluate_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <kscout/selector.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "dataset/operations.h"
#include "dataset/problem_sizes.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "train_manifest.json";
constexpr const char* kSizesKey = "training_sizes";  // of older manifests
const std::size_t kGemmSizes = sizes_of(GemmProblem{}).size(), kConvSizes = sizes_of(ConvProblem{}).size();

/// Predicted speeds of the best configs, best first.
std::vector<double> best_tflops(const Scores& scores) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scores.score.size(); ++i) {
    if (std::isfinite(scores.score[i])) order.push_back(i);
  }
  const std::size_t kept = std::min(order.size(), Confidence::top);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return scores.score[i]; });
  std::vector<double> tflops;
  for (std::size_t i = 0; i < kept; ++i) tflops.push_back(scores.tflops[order[i]]);
  return tflops;
}

/// How sure the model is; where it is less sure than its floor, the static config comes first, as it does in
/// a selector.
void add_confidence(const Model& model, Target target, const Problem& problem,
                    std::span<const KernelConfig> configs, Scores& scores) {
  const Family* const family = model.family(signature_of(problem));
  if (!family) return;  // not trained for it: nothing is claimed
  scores.confidence = model.confidence(*family, problem, target, best_tflops(scores));
  const auto fixed = model.static_instead(*family, scores.confidence);
  if (!fixed) return;
  const auto at = std::ranges::find(configs, family->configs[*fixed]);
  if (at == configs.end()) return;
  double& score = scores.score[static_cast<std::size_t>(at - configs.begin())];
  if (!std::isfinite(score)) return;
  score = std::nextafter(*std::ranges::max_element(scores.score), std::numeric_limits<double>::infinity());
  scores.confidence = model.data().confidence->floor_probability;
}

/// The model as a judge. In the family pool the scores of its own evaluation are used, in the measured pool
/// those of any config of the space.
Scorer model_scorer(const Model& model, Target target, Pool pool) {
  return [&model, target, pool](const Problem& problem, std::span<const KernelConfig> configs) {
    Scores scores;
    if (configs.empty()) return scores;
    if (pool == Pool::family) {
      scores.score.resize(configs.size());
      model.score(problem, target, scores.score);
    } else {
      ConfigTable table(*configs.front().space);
      for (const KernelConfig& config : configs) table.push_back(config);
      scores.score = model.score_configs(problem, table, target);
    }
    scores.tflops = model.predicted_tflops(problem, target, scores.score);
    add_confidence(model, target, problem, configs, scores);
    return scores;
  };
}

PoolOf family_pool(const Model& model, const MeasurementTable& table) {
  return [&model, &table](std::size_t problem) {
    const ConfigTable& configs = model.family(signature_of(table.problems[problem]))->configs;
    std::vector<KernelConfig> pool;
    for (std::size_t i = 0; i < configs.size(); ++i) pool.push_back(configs[i]);
    return pool;
  };
}

void require_same_space(const Model& model, const MeasurementTable& table) {
  const ConfigSpace& space = model.data().families.front().configs.space();
  if (table.configs.empty()) fail(Errc::invalid_argument, "the dataset has no configs");
  if (table.configs.front().space != &space) {
    fail(Errc::invalid_argument, "the model chooses among kernels of {}, the dataset holds kernels of {}",
         space.provider, table.configs.front().space->provider);
  }
}

}  // namespace

std::optional<std::set<ProblemSizes>> training_sizes(const fs::path& model) {
  const fs::path folder = fs::is_directory(model) ? model : model.parent_path();
  if (const fs::path sizes = folder / kTrainingSizesFile; !is_absent(sizes)) return read_problem_sizes(sizes);
  const fs::path file = folder / kManifest;
  if (!fs::is_regular_file(file)) return std::nullopt;
  const auto json = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  const auto found = json.is_object() ? json.find(kSizesKey) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_array()) {
    fail(
        Errc::corrupt_data,
        "{}: the sizes that the model was trained on are missing: neither {} is there nor '{}' in this file; "
        "restore the folder or train the model again",
        file.string(), kTrainingSizesFile, kSizesKey);
  }
  std::set<ProblemSizes> sizes;
  for (const auto& entry : *found) {
    const bool whole = entry.is_array() &&
                       std::ranges::all_of(entry, [](const auto& size) { return size.is_number_integer(); });
    if (!whole || (entry.size() != kGemmSizes && entry.size() != kConvSizes))
      fail(Errc::corrupt_data, "{}: '{}' holds {}, not [m, n, k, batch] nor the {} numbers of a convolution",
           file.string(), kSizesKey, entry.dump(), kConvSizes);
    sizes.insert(entry.get<ProblemSizes>());
  }
  return sizes;
}

ModelEvaluation evaluate_model(const fs::path& path, const MeasurementTable& table,
                               const ModelEvaluationOptions& options) {
  const Model model = Model::load(path);
  require_same_space(model, table);
  const Target target = options.target.value_or(model.default_target());
  ModelEvaluation result;
  result.model = path.string();
  result.provider = std::string(model.provider());
  result.rules = model.data().families.front().rules;
  result.target = std::string(word(target));
  result.device = table.device.name;
  result.warning = foreign_device_warning(model.device(), table.device);
  result.pool = options.pool;
  result.in_sample = options.in_sample;
  result.problems_given = table.problems.size();

  const auto trained = training_sizes(path);
  result.training_known = trained.has_value();
  const MeasurementTable judged = table_of_problems(table, [&](const Problem& problem) {
    const bool seen = trained && trained->contains(sizes_of(problem));
    result.trained_on += seen;
    if (seen && !options.in_sample) return false;
    const bool served = model.family(signature_of(problem)) != nullptr;
    result.without_family += !served;
    return served;
  });
  if (judged.problems.empty()) {
    fail(Errc::invalid_argument,
         "nothing to evaluate: of {} problems the model was trained on {} (their sizes) and has no family "
         "for {}; "
         "measure other sizes, or judge the training data themselves with --in-sample",
         result.problems_given, result.trained_on, result.without_family);
  }
  const PoolOf pool = options.pool == Pool::family ? family_pool(model, judged) : measured_pool(judged);
  result.evaluation = evaluate(judged, model_scorer(model, target, options.pool), pool);
  result.baselines =
      baselines(judged, pool, options.training,
                is_conv(judged.problems.front().op()) ? Scorer() : analytic_scorer(judged.device));
  return result;
}

std::vector<const ProblemResult*> worst_first(const Evaluation& evaluation) {
  std::vector<const ProblemResult*> order;
  for (const ProblemResult& result : evaluation.results) order.push_back(&result);
  std::ranges::stable_sort(order, {}, [](const ProblemResult* r) { return r->efficiency(); });
  return order;
}

}  // namespace kscout
