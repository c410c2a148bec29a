// Gathers what a report shows of choices: of a model, or of the best fixed config of a dataset.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/json_fields.h"
#include "core/numbers.h"
#include "dataset/columns.h"
#include "dataset/operations.h"
#include "op/operation.h"
#include "op/problem_sets.h"
#include "report/report.h"
#include "report/report_json.h"

namespace kscout {

namespace {

/// A selector whose efficiency is shown, by the word that the plots use.
struct Chooser {
  std::string_view word, name;
  std::string_view baseline;  ///< its name in baselines(); empty: the model
};
constexpr Chooser kChoosers[] = {{"model", "the model", ""},
                                 {"first", "the library's first suggestion", "first suggestion"},
                                 {"fixed", "the best fixed config", "best static"},
                                 {"analytic", "the analytic model", "analytic model"}};

/// Choices to show: of a model, or of the best fixed config.
struct Choices {
  const Evaluation& evaluation;
  const std::vector<Baseline>& baselines;
  const ModelEvaluation* model;  ///< null: the best fixed config
  const Device& device;

  /// The efficiency of a chooser on a problem; nothing when it has no choice for it.
  std::optional<double> efficiency(const Chooser& of, const ProblemResult& result) const {
    if (of.baseline.empty()) return model ? std::optional(result.efficiency()) : std::nullopt;
    const auto line = std::ranges::find(baselines, of.baseline, &Baseline::name);
    if (line == baselines.end()) return std::nullopt;
    const auto found = line->efficiency.find(result.problem);
    return found == line->efficiency.end() ? std::nullopt : std::optional(found->second);
  }
};

Json rounded(double value, int digits) {
  return std::isfinite(value) ? Json(with_digits(value, digits)) : Json(nullptr);
}

Json percent(double share) {
  return std::isfinite(share) ? Json(std::round(1e4 * share) / 100) : Json(nullptr);
}

std::string kernel_name(const Problem& problem, const KernelConfig& config) {
  return provider(config.space->provider).print(signature_of(problem), config);
}

/// The axis by which kernels differ most, with its name for people.
struct KindAxis {
  std::string_view axis, name;
  std::string_view unit = {};  ///< of an axis of numbers
};
constexpr KindAxis kKindAxes[] = {{"kind", "kind of kernel"},
                                  {"by", "library"},
                                  {"pipeline", "pipeline"},
                                  {"engine", "cuDNN engine", "engine"},
                                  {"algorithm", "algorithm", "algorithm"},
                                  {"tile_n", "tile width", "width"}};

const KindAxis* kind_axis_of(const ConfigSpace& space) {
  for (const KindAxis& kind : kKindAxes) {
    if (std::ranges::find(space.axes, kind.axis, &Axis::name) != space.axes.end()) return &kind;
  }
  return nullptr;
}

std::string kind_text(const KernelConfig& config) {
  const KindAxis* const kind = kind_axis_of(*config.space);
  if (!kind) return {};
  const auto axis_of = [&](std::string_view name) {
    return std::ranges::find(config.space->axes, name, &Axis::name);
  };
  const Axis& axis = *axis_of(kind->axis);
  std::string text = axis_value_text(axis, config[kind->axis]);
  std::ranges::replace(text, '_', ' ');
  if (!axis.words.empty()) return text;
  const bool suggested = axis_of("suggestion") != config.space->axes.end() && config["suggestion"] > 0;
  return suggested ? "a suggestion" : fmt::format("{} {}", kind->unit, text);
}

/// A class of sizes: its label, and its place among the others.
struct SizeClass {
  std::string by, label;
  std::size_t place;
};

SizeClass rows_class(const ImplicitGemm& product) {
  const std::string labels[] = {fmt::format("below {}", kTinyM), fmt::format("{} to {}", kTinyM, kSmallM - 1),
                                fmt::format("{} to {}", kSmallM, kMediumM - 1),
                                fmt::format("{} and more", kMediumM)};
  const auto at = static_cast<std::size_t>(shape_family(product));
  return {"rows of the result (M)", labels[at], at};
}

SizeClass depth_class(const ImplicitGemm& product) {
  const std::string labels[] = {fmt::format("below {}", kShallowK),
                                fmt::format("{} to {}", kShallowK, kMediumK - 1),
                                fmt::format("{} and more", kMediumK)};
  const auto at = static_cast<std::size_t>(depth_regime(product));
  return {"depth of the sums (K)", labels[at], at};
}

SizeClass outline_class(const ImplicitGemm& product) {
  const std::string labels[] = {"nearly square", fmt::format("tall (M from {} N)", kOutlineRatio),
                                fmt::format("wide (N from {} M)", kOutlineRatio)};
  const auto at = static_cast<std::size_t>(outline(product));
  return {"outline of the result", labels[at], at};
}

/// The classes that a result belongs to, in the order of the report.
std::vector<SizeClass> classes_of(const ProblemResult& result) {
  const ImplicitGemm product = product_of(result.problem);
  const Signature signature = signature_of(result.problem);
  std::vector<SizeClass> classes = {rows_class(product), depth_class(product), outline_class(product)};
  classes.push_back({"element type", std::string(word(signature.dtype_a)), 0});
  classes.push_back({"layout", std::string(word(signature.layout)), 0});
  const Operation& of = operation(result.problem.op());
  if (!of.kind_name.empty())
    classes.push_back({std::string(of.kind_name), std::string(of.kind_of(result.problem)), 0});
  if (const KindAxis* const kind = kind_axis_of(*result.oracle.space))
    classes.push_back({fmt::format("{} that is fastest", kind->name), kind_text(result.oracle), 0});
  return classes;
}

/// Mean, tenth percentile and others of one chooser.
Json score_json(const Chooser& of, std::vector<double> efficiencies) {
  double sum = 0;
  for (const double one : efficiencies) sum += one;
  const auto count = static_cast<double>(efficiencies.size());
  return {{"who", of.word},
          {"problems", efficiencies.size()},
          {"mean", percent(sum / count)},
          {"p50", percent(quantile(efficiencies, 0.5))},
          {"p10", percent(quantile(efficiencies, 0.1))},
          {"min", percent(quantile(efficiencies, 0))}};
}

/// The scores of every chooser on some results.
Json scores_json(const Choices& choices, const std::vector<const ProblemResult*>& results) {
  Json scores = Json::array();
  for (const Chooser& of : kChoosers) {
    std::vector<double> efficiencies;
    for (const ProblemResult* const result : results) {
      if (const auto one = choices.efficiency(of, *result)) efficiencies.push_back(*one);
    }
    if (!efficiencies.empty()) scores.push_back(score_json(of, std::move(efficiencies)));
  }
  return scores;
}

/// Classes with the scores of their problems; a grouping into a single class says nothing and is left out.
Json slices_json(const Choices& choices) {
  std::vector<std::string> order;
  std::map<std::string, std::map<std::pair<std::size_t, std::string>, std::vector<const ProblemResult*>>>
      groups;
  for (const ProblemResult& result : choices.evaluation.results) {
    for (const SizeClass& one : classes_of(result)) {
      if (!groups.contains(one.by)) order.push_back(one.by);
      groups[one.by][{one.place, one.label}].push_back(&result);
    }
  }
  Json slices = Json::array();
  for (const std::string& by : order) {
    if (groups[by].size() < 2) continue;
    Json values = Json::array();
    for (const auto& [key, results] : groups[by]) {
      values.push_back(
          {{"value", key.second}, {"problems", results.size()}, {"scores", scores_json(choices, results)}});
    }
    slices.push_back({{"by", by}, {"values", std::move(values)}});
  }
  return slices;
}

/// The command that times both kernels of a result side by side; empty for kernels that `run` cannot launch.
std::string run_command(const ProblemResult& result, const Device& device) {
  std::string command = fmt::format("kscout run {} --config {}", print(result.problem),
                                    kernel_name(result.problem, result.oracle));
  if (!result.picks.empty() && result.picks[0].config != result.oracle)
    command += fmt::format(" --config {}", kernel_name(result.problem, result.picks[0].config));
  if (device.kind == DeviceKind::cpu) return command;
  if (device.vendor == "NVIDIA") return command + " --backend cuda";
  return result.oracle.space->provider == "ck_tile" ? command + " --compile" : std::string();
}

Json worst_json(const Choices& choices) {
  Json worst = Json::array();
  for (const ProblemResult* const result : worst_first(choices.evaluation)) {
    if (worst.size() == kReportedWorst) break;
    const PickedConfig* const pick = result->picks.empty() ? nullptr : &result->picks.front();
    worst.push_back({{"problem", print(result->problem)},
                     {"efficiency", percent(result->efficiency())},
                     {"pick", pick ? kernel_name(result->problem, pick->config) : ""},
                     {"pick_us", pick ? rounded(pick->measured.time_us, 5) : Json(nullptr)},
                     {"best", kernel_name(result->problem, result->oracle)},
                     {"best_us", rounded(result->oracle_measured.time_us, 5)},
                     {"command", choices.model ? reproduce_command(*choices.model, *result)
                                               : run_command(*result, choices.device)}});
  }
  return worst;
}

Json problem_json(const Choices& choices, const ProblemResult& result) {
  const ImplicitGemm product = product_of(result.problem);
  Json json = {{"problem", print(result.problem)},
               {"m", product.m},
               {"n", product.n},
               {"k", product.k},
               {"intensity", rounded(flop_count(result.problem) / min_bytes(result.problem), 4)},
               {"best", kernel_name(result.problem, result.oracle)},
               {"best_tflops", rounded(tflops_of(result.problem, result.oracle_measured), 4)}};
  const KernelConfig* shown = &result.oracle;
  if (!result.picks.empty()) {
    const PickedConfig& pick = result.picks.front();
    json["pick"] = kernel_name(result.problem, pick.config);
    json["pick_tflops"] = rounded(tflops_of(result.problem, pick.measured), 4);
    json["predicted_tflops"] = rounded(pick.predicted_tflops, 4);
    if (choices.model) shown = &pick.config;
  }
  json["kind"] = kind_text(*shown);
  for (const Chooser& of : kChoosers) {
    if (const auto one = choices.efficiency(of, result)) json[std::string(of.word)] = percent(*one);
  }
  return json;
}

/// The speeds of the first configs of each problem, as predicted and as measured.
Json calibration_json(const std::vector<const ProblemResult*>& shown) {
  Json pairs = Json::array();
  for (std::size_t rank = 0; rank < kTop.back(); ++rank) {
    for (const ProblemResult* const result : shown) {
      if (pairs.size() >= kMaxShownProblems || rank >= result->picks.size()) continue;
      const PickedConfig& pick = result->picks[rank];
      const double measured = tflops_of(result->problem, pick.measured);
      if (!(measured > 0) || !(pick.predicted_tflops > 0)) continue;
      pairs.push_back({{"problem", print(result->problem)},
                       {"config", kernel_name(result->problem, pick.config)},
                       {"predicted_tflops", rounded(pick.predicted_tflops, 4)},
                       {"measured_tflops", rounded(measured, 4)}});
    }
  }
  return pairs;
}

Json confidence_json(const Reliability& reliability) {
  Json bins = Json::array();
  for (const Reliability::Bin& bin : reliability.bins) {
    if (bin.claims == 0) continue;
    bins.push_back(
        {{"problems", bin.claims}, {"claimed", percent(bin.claimed)}, {"observed", percent(bin.observed)}});
  }
  return bins;
}

/// The limits of the device: its peaks where they are known, else the highest measured values.
Json roof_json(const Choices& choices) {
  double fastest = 0, widest = 0;
  bool fp32 = true;
  for (const ProblemResult& result : choices.evaluation.results) {
    const double tflops = tflops_of(result.problem, result.oracle_measured);
    if (!std::isfinite(tflops)) continue;
    fastest = std::max(fastest, tflops);
    widest = std::max(widest, gb_s_of(result.problem, result.oracle_measured));
    fp32 = fp32 && signature_of(result.problem).dtype_acc == DType::fp32;
  }
  double peak = fp32 ? peak_fp32_gflops(choices.device) / 1e3 : Device::unknown;
  if (peak < fastest) peak = Device::unknown;  // a virtual machine may hide the CPU's clock
  const double memory = choices.device.memory_gb_s;
  return {{"tflops", rounded(std::isfinite(peak) ? peak : fastest, 4)},
          {"tflops_known", std::isfinite(peak)},
          {"gb_s", rounded(std::isfinite(memory) ? memory : widest, 4)},
          {"gb_s_known", std::isfinite(memory)}};
}

/// As many results as the plots may show, evenly spread over all.
std::vector<const ProblemResult*> shown_results(const Evaluation& evaluation, std::size_t max) {
  const std::size_t all = evaluation.results.size(), count = std::min(all, max);
  std::vector<const ProblemResult*> shown;
  for (std::size_t i = 0; i < count; ++i) shown.push_back(&evaluation.results[i * all / count]);
  return shown;
}

std::string efficiency_sentence(const Choices& choices) {
  const Summary& s = choices.evaluation.overall;
  return fmt::format(
      "{} {:.1f} % of the speed of the fastest measured kernel, on average over {}. On one problem "
      "in "
      "ten it is {:.1f} % or less; on the worst, {:.1f} %.",
      choices.model ? "The model's choices reach" : "The best fixed config reaches", 100 * s.mean,
      counted(s.problems, "problem"), 100 * s.p10, 100 * s.min);
}

/// The means of the baselines, in one sentence; empty without a baseline.
std::string baselines_sentence(const Choices& choices) {
  std::vector<std::string> parts;
  for (const Baseline& line : choices.baselines) {
    const auto of = std::ranges::find(kChoosers, line.name, &Chooser::baseline);
    if (of == std::end(kChoosers) || (!choices.model && of->word == "fixed")) continue;
    const std::string on = line.summary.problems == choices.evaluation.results.size()
                               ? std::string()
                               : fmt::format(" (on {} problems)", with_commas(line.summary.problems));
    parts.push_back(fmt::format("{} {:.1f} %{}", of->name, 100 * line.summary.mean, on));
  }
  if (parts.empty()) return {};
  return fmt::format("For comparison: {}.", fmt::join(parts, ", "));
}

Json summary_json(const Choices& choices) {
  Json sentences = {efficiency_sentence(choices)};
  if (const std::string other = baselines_sentence(choices); !other.empty()) sentences.push_back(other);
  const ModelEvaluation* const model = choices.model;
  if (!model) return sentences;
  const Summary& s = choices.evaluation.overall;
  const auto share = [&](double count) { return 100 * count / static_cast<double>(s.problems); };
  sentences.push_back(
      fmt::format("{:.0f} % of the choices are the fastest kernel, another {:.0f} % equal it within the "
                  "noise of the measurement.",
                  100 * s.hit_rate[0], share(static_cast<double>(s.ties))));
  if (!model->against_suggestion.empty()) {
    const AgainstSuggestion& against = model->against_suggestion.front();
    sentences.push_back(fmt::format(
        "The choices run {:.2f} times as fast as the library's first suggestion (geometric mean of {} "
        "problems; one in ten at most {:.2f} times, worst {:.2f} times).",
        against.first.geomean, with_commas(against.problems), against.first.p10, against.first.min));
  }
  if (const Calibration& c = choices.evaluation.calibration; c.rows > 0)
    sentences.push_back(
        fmt::format("Predicted speeds are off by {:.0f} % on average, over {} measured kernels.",
                    100 * c.mape, with_commas(c.rows)));
  sentences.push_back(
      !model->training_known
          ? "The model does not record the sizes that it was trained on, so some may be among these."
      : model->in_sample && model->trained_on > 0
          ? fmt::format("The model was trained on the sizes of {} of these problems.", model->trained_on)
          : "The model was trained on none of these sizes.");
  if (!model->warning.empty()) sentences.push_back(fmt::format("Warning: {}.", model->warning));
  return sentences;
}

/// What a model of this target predicts.
std::string target_meaning(std::string_view target) {
  constexpr std::string_view kMeanings[] = {
      "the speed of each kernel", "the time of each kernel", "the bandwidth of each kernel",
      "the speed relative to the fastest kernel", "the order of the kernels"};
  return fmt::format("{} (target {})", kMeanings[static_cast<std::size_t>(parse<Target>(target))], target);
}

Json facts_json(const Choices& choices, const CompactTable& table) {
  const Device& device = choices.device;
  Json facts = Json::array();
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) facts.push_back({name, value});
  };
  const Op op = table.problems.front().op();
  const Operation& of = operation(op);
  add("operation", of.ops.size() > 1 ? fmt::format("{} ({})", of.noun, word(op)) : std::string(of.noun));
  add("device", device.model.empty() ? device.name : fmt::format("{} ({})", device.name, device.model));
  if (const ModelEvaluation* const model = choices.model) {
    add("kernels", fmt::format("provider {}, rule set {}", model->provider, model->rules));
    add("learns", target_meaning(model->target));
  } else {
    add("kernels", fmt::format("provider {}", table.configs.front().space->provider));
  }
  add("measurements",
      fmt::format("{} of {} on {}", counted(table.row_count(), "row"),
                  counted(table.configs.size(), "config"), counted(table.problems.size(), "problem")));
  return facts;
}

std::string choices_json(const Choices& choices, const CompactTable& table, const std::string& title,
                         std::size_t max_shown) {
  const std::vector<const ProblemResult*> shown = shown_results(choices.evaluation, max_shown);
  std::vector<const ProblemResult*> all;
  for (const ProblemResult& result : choices.evaluation.results) all.push_back(&result);
  Json json = {{"title", title},
               {"subject", choices.model ? "model" : "fixed"},
               {"summary", summary_json(choices)},
               {"facts", facts_json(choices, table)},
               {"choosers", Json::object()},
               {"evaluated", all.size()},
               {"scores", scores_json(choices, all)},
               {"slices", slices_json(choices)},
               {"roof", roof_json(choices)},
               {"worst", worst_json(choices)},
               {"calibration", calibration_json(shown)},
               {"confidence", confidence_json(choices.evaluation.reliability)},
               {"problems", Json::array()}};
  for (const Chooser& of : kChoosers) json["choosers"][std::string(of.word)] = of.name;
  if (const KindAxis* const kind = kind_axis_of(*choices.evaluation.results.front().oracle.space))
    json["kind_name"] = kind->name;
  for (const ProblemResult* const result : shown) json["problems"].push_back(problem_json(choices, *result));
  return report_text(json);
}

/// The same with fewer problems in the plots until the text is short enough.
std::string short_choices_json(const Choices& choices, const CompactTable& table, const std::string& title) {
  for (std::size_t max = kMaxShownProblems;; max /= 2) {
    std::string text = choices_json(choices, table, title, max);
    if (text.size() <= kMaxReportData || max == 1) return text;
  }
}

}  // namespace

std::string model_report(const std::filesystem::path& model, const CompactTable& table,
                         ModelEvaluationOptions how) {
  how.pool = Pool::accepted;
  const ModelEvaluation evaluation = evaluate_model(model, table, how);
  const std::string name = model.lexically_normal().filename().string();
  return short_choices_json({evaluation.evaluation, evaluation.baselines, &evaluation, table.device}, table,
                            fmt::format("Model {}", name.empty() ? model.string() : name));
}

std::string dataset_report(const std::string& name, const CompactTable& table) {
  const Evaluation fixed = evaluate_best_static(table, std::nullopt);
  const auto lines = baselines(table, accepted_pool, std::nullopt, analytic_scorer(table));
  return short_choices_json({fixed, lines, nullptr, table.device}, table, fmt::format("Dataset {}", name));
}

}  // namespace kscout
