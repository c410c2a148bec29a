#include "evaluate/evaluate_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/numbers.h"
#include "dataset/operations.h"
#include "dataset/problem_sizes.h"
#include "family/listed.h"
#include "features/schema.h"
#include "op/operation.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "train_manifest.json";
constexpr const char* kSizesKey = "training_sizes";  // key in older manifests

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

/// Puts the library's first suggestion first where the model's guard does (FallbackChain::put_first).
void apply_guard(const Model& model, const Problem& problem, Target target,
                 std::span<const KernelConfig> configs, Scores& scores) {
  const CompiledFamily& family = *model.compiled(signature_of(problem));
  if (!family.first_suggestion()) return;
  const auto at = std::ranges::find_if(configs, is_first_suggestion);
  if (at == configs.end()) return;
  const auto suggestion = static_cast<std::size_t>(at - configs.begin());
  const auto top = static_cast<std::size_t>(std::ranges::max_element(scores.score) - scores.score.begin());
  const double lead = std::log(scores.tflops[top] / scores.tflops[suggestion]);
  if (top == suggestion || !model.guarded(family.family(), problem, target, lead)) return;
  scores.tflops[suggestion] = scores.tflops[top];
  scores.score[suggestion] = std::nextafter(scores.score[top], HUGE_VAL);
  scores.confidence = Measurement::unknown;
}

/// Times of the library's own choices for a problem.
struct SuggestedTimes {
  double first_us = Measurement::unknown, best_of_8_us = Measurement::unknown;
};

Speeds speeds_of(std::vector<double> ratios) {
  Speeds speeds{.min = std::ranges::min(ratios)};
  for (const double ratio : ratios) speeds.geomean += std::log(ratio);
  speeds.geomean = std::exp(speeds.geomean / static_cast<double>(ratios.size()));
  speeds.p10 = quantile(std::move(ratios), 0.1);
  return speeds;
}

/// The picks against the library's own choices, on the problems of a kind; nothing where none was measured.
std::optional<AgainstSuggestion> against_suggestion(
    const Evaluation& evaluation, const std::unordered_map<Problem, SuggestedTimes>& suggested,
    std::string_view kind) {
  AgainstSuggestion result{.kind = std::string(kind)};
  std::vector<double> first, best_of_8;
  double library_us = 0, picks_us = 0;
  for (const ProblemResult& of : evaluation.results) {
    if (!kind.empty() && operation(of.problem.kind()).kind_of(of.problem) != kind) continue;
    const auto found = suggested.find(of.problem);
    if (found == suggested.end() || of.picks.empty()) continue;
    const double pick_us = of.picks[0].measured.time_us;
    const auto [first_us, best_of_8_us] = found->second;
    if (!(pick_us > 0 && first_us > 0)) continue;
    first.push_back(first_us / pick_us);
    best_of_8.push_back(best_of_8_us / pick_us);
    library_us += of.problem.weight() * best_of_8_us;
    picks_us += of.problem.weight() * pick_us;
    result.fastest += std::log(std::fmax(first_us / of.oracle_measured.time_us, 1.0));
    result.same += is_first_suggestion(of.picks[0].config);
  }
  if (first.empty()) return std::nullopt;
  result.problems = first.size();
  result.first = speeds_of(std::move(first));
  result.best_of_8 = speeds_of(std::move(best_of_8));
  result.fastest = std::exp(result.fastest / static_cast<double>(result.problems));
  result.all_calls = library_us / picks_us;
  return result;
}

/// ModelEvaluation::against_suggestion.
std::vector<AgainstSuggestion> against_suggestion(const Evaluation& evaluation, const CompactTable& table) {
  std::unordered_map<Problem, SuggestedTimes> suggested;
  std::set<std::string> kinds = {""};
  for (std::size_t p = 0; p < table.problems.size(); ++p) {
    const Problem& problem = table.problems[p];
    kinds.insert(std::string(operation(problem.kind()).kind_of(problem)));
    table.for_each_row(p, [&](std::uint32_t config, const Measurement& measured, std::uint32_t) {
      const std::int32_t place = suggestion_place(table.configs[config]);
      if (!(measured.time_us > 0) || place < 1 || place > 8) return;
      SuggestedTimes& times = suggested[problem];
      if (place == 1 && !(times.first_us > 0)) times.first_us = measured.time_us;  // the last pass
      times.best_of_8_us = std::fmin(times.best_of_8_us, measured.time_us);
    });
  }
  std::vector<AgainstSuggestion> all;
  for (const std::string& kind : kinds)
    if (auto one = against_suggestion(evaluation, suggested, kind)) all.push_back(*std::move(one));
  return all;
}

/// Turns the model into a scorer. Configs that a selector would score come first, among them those outside
/// the family, which Predictor ranks by the same scores; configs that a shortlist drops follow. `shortlists`:
/// false scores as if the model had none.
Scorer model_scorer(const Model& model, Target target, bool shortlists, bool guard) {
  return [&model, target, shortlists, guard](const Problem& problem, std::span<const KernelConfig> configs) {
    const Family& family = *model.family(signature_of(problem));
    std::vector<double> exact(family.configs.size());
    model.exact_scores(problem, target, exact);
    const auto candidates =
        shortlists ? model.candidates(problem) : std::vector<std::uint8_t>(family.configs.size(), 1);
    std::unordered_map<KernelConfig, std::size_t> position;
    for (std::size_t i = 0; i < family.configs.size(); ++i) position.emplace(family.configs[i], i);
    Scores scores{.score = std::vector<double>(configs.size()), .tflops = {}};
    std::vector<std::uint8_t> runs(configs.size(), 1), first(configs.size(), 0);
    ConfigTable others(family.configs.space());
    std::vector<std::size_t> place;  // of each remaining config
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const auto found = position.find(configs[i]);
      if (found == position.end()) {
        others.push_back(configs[i]);
        place.push_back(i);
        continue;
      }
      scores.score[i] = exact[found->second];
      first[i] = (std::isfinite(scores.score[i]) ? 1 : 0) & candidates[found->second];
    }
    const std::vector<double> of_others = model.score_configs(problem, others, target);
    for (std::size_t i = 0; i < place.size(); ++i) {
      scores.score[place[i]] = of_others[i];
      first[place[i]] = 1;
    }
    std::vector<Traits> traits;
    for (const KernelConfig& config : configs)
      traits.push_back(provider(family.provider).traits(family.signature, config, family.device));
    model.leave_unknown_kinds(traits, scores.score);
    for (std::size_t i = 0; i < configs.size(); ++i) runs[i] = std::isfinite(scores.score[i]) ? 1 : 0;
    put_behind(scores.score, runs, first);
    scores.tflops = model.predicted_tflops(problem, target, scores.score);
    scores.confidence = model.confidence(family, problem, target, best_tflops(scores));
    if (guard) apply_guard(model, problem, target, configs, scores);
    return scores;
  };
}

PoolOf family_pool(const Model& model) {
  return [&model](const CompactTable& table, std::size_t problem) {
    const ConfigTable& configs = model.family(signature_of(table.problems[problem]))->configs;
    std::vector<KernelConfig> pool;
    for (std::size_t i = 0; i < configs.size(); ++i) pool.push_back(configs[i]);
    return pool;
  };
}

/// Number of picks that are not among the configs of the model's family.
std::size_t picks_outside_family(const Model& model, const Evaluation& evaluation) {
  std::unordered_map<const Family*, std::unordered_set<KernelConfig>> inside;
  std::size_t outside = 0;
  if (model.ranks_listed()) return outside;  // it also chooses among what the library lists
  for (const ProblemResult& result : evaluation.results) {
    if (result.picks.empty()) continue;
    const Family* const family = model.family(signature_of(result.problem));
    const auto [entry, is_new] = inside.try_emplace(family);
    for (std::size_t i = 0; is_new && i < family->configs.size(); ++i)
      entry->second.insert(family->configs[i]);
    outside += entry->second.contains(result.picks.front().config) ? 0 : 1;
  }
  return outside;
}

/// Brings the table's configs into the space of the model: those of a member of the model's joint provider
/// are converted.
void bring_into_space_of(const Model& model, CompactTable& table) {
  const ConfigSpace& space = model.data().families.front().configs.space();
  if (table.configs.empty()) fail(Errc::invalid_argument, "the dataset has no configs");
  for (KernelConfig& config : table.configs) {
    if (config.space == &space) continue;
    const auto own = provider(space.provider).own(config);
    if (!own || own->space != &space) {
      fail(Errc::invalid_argument, "the model chooses among kernels of {}, the dataset holds kernels of {}",
           space.provider, config.space->provider);
    }
    config = *own;
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
  // CK Tile's trainer writes a file of this name, too.
  if (json.is_object() && json.contains("total_n_estimators") && !json.contains("kscout_version"))
    return std::nullopt;
  if (!json.is_object() || found == json.end() || !found->is_array()) {
    fail(
        Errc::corrupt_data,
        "{}: the sizes that the model was trained on are missing: neither {} is there nor '{}' in this file; "
        "restore the folder or train the model again",
        file.string(), kTrainingSizesFile, kSizesKey);
  }
  std::vector<std::size_t> lengths;  // numbers of sizes of the operations
  for (const Operation* const one : operations()) {
    const Problem problem = one->make(one->ops.front());
    // Operations with lists of sizes are younger than such manifests.
    if (std::ranges::find(problem.space().fields, FieldType::list, &ProblemField::type) ==
        problem.space().fields.end())
      lengths.push_back(sizes_of(problem).size());
  }
  std::set<ProblemSizes> sizes;
  for (const auto& entry : *found) {
    const bool whole = entry.is_array() &&
                       std::ranges::all_of(entry, [](const auto& size) { return size.is_number_integer(); });
    if (!whole || std::ranges::find(lengths, entry.size()) == lengths.end())
      fail(Errc::corrupt_data, "{}: '{}' holds {}, not the {} sizes of a problem", file.string(), kSizesKey,
           entry.dump(), fmt::join(lengths, " or "));
    sizes.insert(entry.get<ProblemSizes>());
  }
  return sizes;
}

ModelEvaluation evaluate_model(const fs::path& path, CompactTable table,
                               const ModelEvaluationOptions& options) {
  const Model stored = Model::load(path, &table.device), model = with_facts_of(stored, table.device);
  bring_into_space_of(model, table);
  const Target target = options.target.value_or(model.default_target());
  ModelEvaluation result;
  result.model = path.string();
  result.provider = std::string(model.provider());
  result.rules = model.data().families.front().rules;
  result.target = std::string(word(target));
  result.device = table.device.name;
  result.warning = foreign_device_warning(stored.device(), table.device);
  result.pool = options.pool;
  result.in_sample = options.in_sample;
  result.problems_given = table.problems.size();

  const auto trained = training_sizes(path);
  result.training_known = trained.has_value();
  table.keep_problems([&](const Problem& problem) {
    const bool seen = trained && trained->contains(sizes_of(problem));
    result.trained_on += seen;
    if (seen && !options.in_sample) return false;
    const bool has_family = model.family(signature_of(problem)) != nullptr;
    result.without_family += !has_family;
    return has_family;
  });
  if (table.problems.empty()) {
    fail(Errc::invalid_argument,
         "nothing to evaluate: of {} problems the model was trained on {} (their sizes) and has no family "
         "for {}; "
         "measure other sizes, or evaluate the training data themselves with --in-sample",
         result.problems_given, result.trained_on, result.without_family);
  }
  const PoolOf pool = options.pool == Pool::family     ? family_pool(model)
                      : options.pool == Pool::accepted ? accepted_pool
                                                       : PoolOf(measured_pool);
  result.evaluation = evaluate(table, model_scorer(model, target, /*shortlists=*/true, options.guard), pool);
  result.picks_outside_family = picks_outside_family(model, result.evaluation);
  if (model.data().shortlist || model.data().first_trees > 0)
    result.all_scored =
        evaluate(table, model_scorer(model, target, /*shortlists=*/false, options.guard), pool).overall;
  if (result.all_scored) result.shortlisted = model.data().shortlist ? kShortlisted : kKeptByFirstTrees;
  result.baselines = baselines(table, pool, options.training, analytic_scorer(table));
  result.against_suggestion = against_suggestion(result.evaluation, table);
  return result;
}

std::vector<const ProblemResult*> worst_first(const Evaluation& evaluation) {
  std::vector<const ProblemResult*> order;
  for (const ProblemResult& result : evaluation.results) order.push_back(&result);
  std::ranges::stable_sort(order, {}, [](const ProblemResult* r) { return r->efficiency(); });
  return order;
}

}  // namespace kscout
