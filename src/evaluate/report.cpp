// Writes an evaluation as JSON and CSV.
#include <cmath>

#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/json_fields.h"
#include "dataset/columns.h"
#include "evaluate/evaluate_model.h"

namespace kscout {

namespace {
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json percent(double fraction) { return number(100 * fraction); }

std::string config_name(const Problem& problem, const KernelConfig& config) {
  return provider(config.space->provider).print(signature_of(problem), config);
}

Json efficiency_json(const Summary& s) {
  return {{"mean", percent(s.mean)}, {"p90", percent(s.p90)},
          {"p50", percent(s.p50)},   {"p10", percent(s.p10)},
          {"p1", percent(s.p1)},     {"min", percent(s.min)},
          {"max", percent(s.max)},   {"weighted_mean", percent(s.weighted_mean)}};
}

Json summary_json(const Summary& s) {
  Json top = Json::object();
  for (std::size_t t = 0; t < kTop.size(); ++t) {
    top[std::to_string(kTop[t])] = {{"mean", percent(s.top_mean[t])}, {"hit_rate", percent(s.hit_rate[t])}};
  }
  return {{"problems", s.problems},
          {"efficiency", efficiency_json(s)},
          {"top_k", top},
          {"pool_best", percent(s.pool_best)},
          {"ndcg_at_1", percent(s.hit_rate[0])},
          {"ndcg_at_8", percent(s.ndcg)},
          {"regret",
           {{"mean", percent(s.regret_mean)},
            {"p50", percent(s.regret_p50)},
            {"p95", percent(s.regret_p95)},
            {"max", percent(s.regret_max)}}},
          {"within_2", percent(s.within_2)},
          {"within_5", percent(s.within_5)},
          {"ties_within_noise", s.ties},
          {"unmeasured_picks", s.unmeasured},
          {"failed_picks", s.failed},
          {"coarse_picks", s.coarse},
          {"mean_without_coarse", percent(s.mean_without_coarse)}};
}

Json calibration_json(const Calibration& c) {
  if (c.rows == 0) return nullptr;
  Json decades = Json::array();
  for (const auto& d : c.decades) {
    decades.push_back({{"from_tflops", d.from},
                       {"rows", d.rows},
                       {"mape", percent(d.mape)},
                       {"median_ratio", d.median_ratio}});
  }
  return {{"rows", c.rows},          {"r2", c.r2},        {"rmse_tflops", c.rmse}, {"mae_tflops", c.mae},
          {"mape", percent(c.mape)}, {"decades", decades}};
}

Json reliability_json(const Reliability& r) {
  if (r.claims == 0) return nullptr;
  Json bins = Json::array();
  for (std::size_t i = 0; i < r.bins.size(); ++i) {
    const Reliability::Bin& bin = r.bins[i];
    if (bin.claims == 0) continue;
    bins.push_back({{"from", 10 * i},
                    {"problems", bin.claims},
                    {"claimed", percent(bin.claimed)},
                    {"observed", percent(bin.observed)},
                    {"standard_error", percent(bin.standard_error)},
                    {"checked", bin.checked()},
                    {"holds", bin.checked() ? Json(bin.holds()) : Json()}});
  }
  return {{"problems", r.claims},
          {"claimed", percent(r.claimed)},
          {"observed", percent(r.observed)},
          {"standard_error", percent(r.standard_error)},
          {"brier", r.brier},
          {"holds", r.checked() ? Json(r.holds()) : Json()},
          {"bins", std::move(bins)}};
}

/// A cell with a number; empty where the number is unknown.
std::string cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

/// A fraction in percent, the unit of all output.
std::string percent_cell(double fraction) { return cell(100 * fraction); }

std::string status_of(const PickedConfig& pick) {
  return pick.unmeasured ? "unmeasured" : std::string(word(pick.measured.status));
}

Json problem_json(const ModelEvaluation& e, const ProblemResult& r) {
  Json json = {{"problem", print(r.problem)},
               {"efficiency", percent(r.efficiency())},
               {"oracle", config_name(r.problem, r.oracle)},
               {"oracle_time_us", r.oracle_measured.time_us},
               {"confidence", percent(r.confidence)}};
  if (!r.picks.empty()) {
    const PickedConfig& pick = r.picks.front();
    json["pick"] = config_name(r.problem, pick.config);
    json["pick_time_us"] = number(pick.measured.time_us);
    json["pick_status"] = status_of(pick);
    json["pick_coarse"] = pick.coarse;
  }
  json["reproduce"] = reproduce_command(e, r);
  return json;
}

}  // namespace

std::string reproduce_command(const ModelEvaluation& evaluation, const ProblemResult& result) {
  return fmt::format("kscout predict {} --model {}", print(result.problem), evaluation.model);
}

std::string evaluation_json(const ModelEvaluation& e, std::size_t worst) {
  Json json = {{"model", e.model},
               {"target", e.target},
               {"device", e.device},
               {"provider", e.provider},
               {"rules", e.rules},
               {"pool", std::string(word(e.pool))},
               {"problems_given", e.problems_given},
               {"trained_on", e.trained_on},
               {"training_known", e.training_known},
               {"in_sample", e.in_sample},
               {"without_family", e.without_family},
               {"picks_outside_family", e.picks_outside_family},
               {"without_oracle", e.evaluation.without_oracle}};
  json.update(summary_json(e.evaluation.overall));
  json["shortlist"] = nullptr;
  if (e.all_scored) {
    json["shortlist"] = {{"configs", e.shortlisted},
                         {"efficiency_of_all", efficiency_json(*e.all_scored)},
                         {"mean_loss", percent(e.all_scored->mean - e.evaluation.overall.mean)},
                         {"p10_loss", percent(e.all_scored->p10 - e.evaluation.overall.p10)}};
  }
  json["against_suggestion"] = Json::array();
  for (const AgainstSuggestion& against : e.against_suggestion) {
    const auto speeds = [](const Speeds& of) {
      return Json{{"geomean", of.geomean}, {"p10", of.p10}, {"min", of.min}};
    };
    json["against_suggestion"].push_back({{"kind", against.kind},
                                          {"problems", against.problems},
                                          {"picks_of_suggestion", against.same},
                                          {"first", speeds(against.first)},
                                          {"best_of_8", speeds(against.best_of_8)},
                                          {"fastest_over_first", against.fastest},
                                          {"all_calls", against.all_calls}});
  }
  json["slices"] = Json::array();
  for (const Slice& slice : e.evaluation.slices) {
    Json line = {{"by", slice.by}, {"value", slice.value}};
    line.update(summary_json(slice.summary));
    line["confidence"] = reliability_json(slice.reliability);
    json["slices"].push_back(std::move(line));
  }
  json["baselines"] = Json::array();
  for (const Baseline& baseline : e.baselines) {
    Json line = {{"name", baseline.name}, {"note", baseline.note}};
    line.update(summary_json(baseline.summary));
    json["baselines"].push_back(std::move(line));
  }
  json["calibration"] = calibration_json(e.evaluation.calibration);
  json["confidence"] = reliability_json(e.evaluation.reliability);
  json["worst"] = Json::array();
  for (const ProblemResult* result : worst_first(e.evaluation)) {
    if (json["worst"].size() < worst) json["worst"].push_back(problem_json(e, *result));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string evaluation_csv(const ModelEvaluation& e) {
  std::string out =
      "problem,efficiency,top_3,top_5,top_8,ndcg_at_8,regret_us,tie,pick,pick_status,pick_time_us,"
      "pick_predicted_tflops,oracle,oracle_time_us,oracle_tflops,pool,pool_best,confidence,pick_coarse\n";
  for (const ProblemResult* r : worst_first(e.evaluation)) {
    const PickedConfig none;
    const PickedConfig& pick = r->picks.empty() ? none : r->picks.front();
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", print(r->problem),
                       percent_cell(r->efficiency()), percent_cell(r->top[1]), percent_cell(r->top[2]),
                       percent_cell(r->top[3]), percent_cell(r->ndcg), cell(r->regret_us), r->tie,
                       r->picks.empty() ? "" : config_name(r->problem, pick.config),
                       r->picks.empty() ? "none" : status_of(pick), cell(pick.measured.time_us),
                       cell(pick.predicted_tflops), config_name(r->problem, r->oracle),
                       r->oracle_measured.time_us, cell(tflops_of(r->problem, r->oracle_measured)), r->pool,
                       percent_cell(r->pool_best), percent_cell(r->confidence), pick.coarse);
  }
  return out;
}

std::string predictions_csv(const ModelEvaluation& e) {
  std::string out = "problem,rank,config,predicted_tflops,measured_tflops,efficiency,status,coarse\n";
  for (const ProblemResult& r : e.evaluation.results) {
    for (std::size_t i = 0; i < r.picks.size(); ++i) {
      const PickedConfig& pick = r.picks[i];
      out += fmt::format("{},{},{},{},{},{},{},{}\n", print(r.problem), i + 1,
                         config_name(r.problem, pick.config), cell(pick.predicted_tflops),
                         cell(tflops_of(r.problem, pick.measured)), percent_cell(pick.efficiency),
                         status_of(pick), pick.coarse);
    }
  }
  return out;
}

}  // namespace kscout
