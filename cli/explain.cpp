#include "explain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <kscout/provider.h>

#include "core/json_fields.h"
#include "core/thread_limit.h"
#include "explain_ways.h"
#include "features/schema.h"
#include "select/explain.h"

namespace kscout::cli {

namespace {
constexpr std::size_t kShownMoves = 10;

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// A config of the ranking, or one requested by --config.
struct Line {
  KernelConfig config;
  std::optional<std::size_t> rank;  ///< nothing: a rule excludes it
  double time_us = Choice::unknown, tflops = Choice::unknown, score = Choice::unknown;
  const ExplainedConfig* explained = nullptr;  ///< the model's explanation
  std::vector<Rule> against;
  std::string left_out;  ///< other reason for its exclusion: the thread limit, KSCOUT_DISABLE
};

/// The contents of the explanation, for both formats.
struct Report {
  const ExplainRequest* request = nullptr;
  std::string model;                            ///< empty: no model was found
  std::vector<std::string> known_devices = {};  ///< of a model for any CPU
  std::optional<AgainstAnyCpu> against_any_cpu = {};
  std::string target;
  ChoiceSource source = ChoiceSource::fallback;
  double confidence = Choice::unknown;    ///< confidence of the first config
  double distance = Choice::unknown;      ///< to the trained problems, in octaves
  std::optional<Guard> guard = {};        ///< of the model
  double lead = Choice::unknown;          ///< of the model's first config, as Guard::lead
  bool guarded = false;                   ///< the guard's suggestion is the first config
  bool other_kernels = false;             ///< Model::other_kernels
  bool without_list = false;              ///< the model ranks the library's list, and there is none here
  std::optional<Signature> trained = {};  ///< Model::trained_signature, where the problem has another one
  ThreadLimit limit = {};
  std::size_t over_limit = 0;  ///< configs of the family that need more threads than the limit
  const Family* family = nullptr;
  const Schema* schema = nullptr;
  Explanation why = {};
  std::vector<Line> top = {}, asked = {};
  std::vector<Exclusion> excluded = {};
  std::vector<OtherWay> ways = {};
};

std::string name_of(const Report& report, const KernelConfig& config) {
  return config_name(signature_of(report.request->problem), config);
}

const ExplainedConfig* explained(const Explanation& why, const KernelConfig& config) {
  const auto found = std::ranges::find_if(
      why.configs, [&](const ExplainedConfig& of) { return why.family->configs[of.config] == config; });
  return found == why.configs.end() ? nullptr : &*found;
}

Line line_of(const Choice& choice, std::size_t rank, const Explanation& why) {
  return {choice.config,
          rank,
          choice.time_us,
          choice.tflops,
          choice.score,
          explained(why, choice.config),
          {},
          {}};
}

std::vector<std::size_t> positions_in(const Family& family, const std::vector<KernelConfig>& configs) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    if (std::ranges::find(configs, family.configs[i]) != configs.end()) positions.push_back(i);
  }
  return positions;
}

/// Fills in the lead of the model's first config over the library's first suggestion, and whether the guard
/// took the suggestion.
void explain_guard(Report& report, const Model& model, Target target, const std::vector<Choice>& ranked) {
  const ProblemRef problem = report.request->problem;
  const auto suggestion = model.compiled(signature_of(problem))->first_suggestion();
  if (!suggestion || ranked.size() < 2) return;
  const KernelConfig& suggested = report.family->configs[*suggestion];
  if (std::ranges::find(ranked, suggested, &Choice::config) == ranked.end()) return;
  // A model's own choice of a suggestion has a confidence. A suggestion that the guard took precedes the
  // model's first config.
  const bool first = ranked.front().config == suggested && std::isnan(report.confidence);
  std::vector<double> scores(report.family->configs.size());
  model.score(problem, target, scores);
  const std::vector<double> tflops = model.predicted_tflops(problem, target, scores);
  const auto own = positions_in(*report.family, {ranked[first ? 1 : 0].config});
  if (own.empty()) return;  // of the library's list
  report.lead = std::log(tflops[own.front()] / tflops[*suggestion]);
  report.guarded = first && model.guarded(*report.family, problem, target, report.lead);
}

/// `ranked`: all configs that apply to the problem here.
void explain_by_model(Report& report, const Model& model, const std::vector<Choice>& ranked) {
  const ExplainRequest& request = *report.request;
  const bool by_default = request.by == By::best || model.data().any_cpu;
  const Target target = by_default ? model.default_target() : parse<Target>(word(request.by));
  report.target = std::string(word(target));
  for (const Device& known : model.data().known_devices) report.known_devices.push_back(known.name);
  report.against_any_cpu = model.data().against_any_cpu;
  report.family = model.family(signature_of(request.problem));
  report.schema = model.data().schema.get();
  Signature trained = model.trained_signature(*report.family);
  trained.accumulate = signature_of(request.problem).accumulate;
  if (trained != signature_of(request.problem)) report.trained = trained;
  report.distance = model.distance(*report.family, request.problem);
  report.guard = model.data().guard;
  report.other_kernels = model.other_kernels(*report.family, request.problem);
  report.without_list = model.ranks_listed() && std::ranges::all_of(ranked, [&](const Choice& one) {
                          return !positions_in(*report.family, {one.config}).empty();
                        });
  explain_guard(report, model, target, ranked);
  // The configs that rank first here. With a thread limit these are not those of the highest scores.
  std::vector<KernelConfig> also = request.asked;
  for (const Choice& choice :
       std::span(ranked).first(std::min(std::max<std::size_t>(request.top, 2), ranked.size())))
    also.push_back(choice.config);
  report.why = explain(model, request.problem, target, 0, positions_in(*report.family, also));
}

/// Why a config of the family is not in the ranking, other than by a rule.
std::string left_out(const Report& report, const KernelConfig& config) {
  const int threads = host_threads(config);
  if (!report.limit.admits(threads)) return report.limit.refusal(threads);
  return positions_in(*report.family, {config}).empty() ? "" : "KSCOUT_DISABLE names it";
}

/// `ranked`: all configs that apply to the problem.
void add_lines(Report& report, const std::vector<Choice>& ranked) {
  const ExplainRequest& request = *report.request;
  for (std::size_t i = 0; i < std::min(request.top, ranked.size()); ++i) {
    report.top.push_back(line_of(ranked[i], i + 1, report.why));
  }
  for (const KernelConfig& config : request.asked) {
    const auto found = std::ranges::find(ranked, config, &Choice::config);
    if (found != ranked.end()) {
      report.asked.push_back(
          line_of(*found, static_cast<std::size_t>(found - ranked.begin()) + 1, report.why));
      continue;
    }
    Line line;
    line.config = config;
    line.against = rules_against(*report.family, request.problem, config);
    if (line.against.empty()) line.left_out = left_out(report, config);
    report.asked.push_back(std::move(line));
  }
  report.excluded = exclusions(*report.family, request.problem);
}

// ----------------------------------------------------------------------------------------------------
// text

std::vector<std::string> columns(const Report& report) {
  std::vector<std::string> names = {"rank", "config", "time_us", "tflops", "score"};
  if (report.request->has_measured) names.insert(names.end(), {"measured_us", "measured_percent", "status"});
  return names;
}

std::vector<Cell> cells(const Report& report, const Line& line) {
  std::vector<Cell> cells = {line.rank ? number(static_cast<std::int64_t>(*line.rank)) : text("-"),
                             text(name_of(report, line.config)), number(line.time_us, 4),
                             number(line.tflops, 4), number(line.score, 5)};
  if (!report.request->has_measured) return cells;
  const MeasuredRows& measured_rows = report.request->measured_rows;
  const Measurement* const measured = measured_rows.of(line.config);
  const bool ok = measured && measured->status == Status::ok;
  cells.push_back(number(measured ? measured->time_us : Measurement::unknown, 4));
  cells.push_back(number(ok ? 100 * measured_rows.best_us() / measured->time_us : Measurement::unknown, 4));
  cells.push_back(text(measured ? word(measured->status) : "not measured"));
  return cells;
}

void print_moves(const Report& report, const Line& first, const Line& second) {
  const auto moves = contribution_differences(*first.explained, *second.explained);
  const double difference = first.explained->score - second.explained->score;
  fmt::print(
      "\n"
      "why {} before {}: score {:.5g} against {:.5g}; contributions of the features to the difference of "
      "{:.3g}\n"
      "\n",
      *first.rank, *second.rank, first.explained->score, second.explained->score, difference);
  if (moves.empty()) {
    fmt::print(
        "nothing: every tree scores both equally, and of equal scores the first in family order is taken\n");
    return;
  }
  Table table({"feature", "of first", "of second", "adds", "meaning"});
  double rest = 0;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const std::size_t f = moves[i].feature;
    if (i >= kShownMoves) {
      rest += moves[i].difference;
      continue;
    }
    const Feature& feature = report.schema->features()[f];
    table.add_row({text(feature.id), number(first.explained->value[f], 5),
                   number(second.explained->value[f], 5), number(moves[i].difference, 3),
                   text(feature.meaning)});
  }
  if (moves.size() > kShownMoves) {
    drop_rounding({&rest, 1}, std::fabs(moves.front().difference));
    table.add_row({text(fmt::format("{} others", moves.size() - kShownMoves)), text(""), text(""),
                   number(rest, 3), text("")});
  }
  table.print(Format::text);
}

void print_rules(const std::vector<Rule>& rules) {
  Table table({"rule", "kind", "admits", "because"});
  for (const Rule& rule : rules) {
    table.add_row({text(rule.name), text(word(rule.kind)), text(rule.admits), text(rule.because)});
  }
  table.print(Format::text);
}

void print_asked(const Report& report, const Line& line) {
  if (line.rank) {
    fmt::print("\n{} ranks {}", name_of(report, line.config), *line.rank);
    const double slower = line.time_us / report.top.front().time_us - 1;
    if (*line.rank > 1 && std::isfinite(slower)) fmt::print(": {:.1f} % longer than the first", 100 * slower);
    fmt::print("\n");
    if (!report.guarded && line.explained && *line.rank > 1) print_moves(report, report.top.front(), line);
    return;
  }
  if (!line.left_out.empty()) {
    fmt::print("\n{} cannot be chosen: {}\n", name_of(report, line.config), line.left_out);
    return;
  }
  if (line.against.empty()) {
    fmt::print("\n{} is not among the {} configs of the family, although no current rule excludes it\n",
               name_of(report, line.config), report.family->configs.size());
    return;
  }
  fmt::print("\n{} cannot be chosen: these rules do not hold\n\n", name_of(report, line.config));
  print_rules(line.against);
}

void print_ways(const std::vector<OtherWay>& ways) {
  if (ways.empty()) return;
  fmt::print(
      "\nrows are no multiples of 16 bytes; a dispatcher takes the fastest of these where it needs "
      "clearly less time\n\n");
  Table table({"time_us", "copies_us", "config", "runs"});
  for (const OtherWay& way : ways)
    table.add_row({number(way.time_us, 4), number(way.copies_us, 4), text(way.config), text(way.runs)});
  table.print(Format::text);
}

/// "gemm fp32 rcr without an epilogue"
std::string trained_text(const Signature& s) {
  return fmt::format("{} {} {} {}", word(s.op), word(s.dtype_a), word(s.layout),
                     s.epilogue == Epilogue::none ? "without an epilogue"
                                                  : fmt::format("with epilogue {}", word(s.epilogue)));
}

/// The distance to the trained problems, and what follows from it.
void print_region(const Report& report) {
  if (report.trained)
    fmt::print("chosen as for {}: that is what the model was trained for\n", trained_text(*report.trained));
  if (std::isfinite(report.distance)) {
    fmt::print("distance: {:.2f} octaves from the nearest trained problems\n", report.distance);
  }
  if (std::isfinite(report.lead)) {
    fmt::print(
        "lead: {:.3f}, the predicted ln of (speed of the model's first config / speed of the library's "
        "first suggestion)\n",
        report.lead);
  }
  if (report.without_list) {
    fmt::print(
        "no list: where the library is installed, the model chooses among what it lists for the problem; "
        "here "
        "the library's first suggestion answers\n");
  } else if (report.guard) {
    fmt::print("guard: the suggestion answers from {:.3g} octaves on where the lead is below {:.3g}\n",
               report.guard->distance, report.guard->lead);
  }
  if (report.guarded && !report.without_list) {
    fmt::print(
        "guard: the library's first suggestion answers, because {} (KSCOUT_DISABLE=guard: the model "
        "answers)\n",
        report.other_kernels ? "the model was trained with the other 16-bit float, for which the library has "
                               "other kernels where rows are no multiples of 16 bytes"
                             : "the problem is far from the trained ones and the lead is small");
  }
  if (std::isfinite(report.confidence)) {
    fmt::print("confidence: {} ({:.0f} %) that the first is within 3 % of the best\n",
               confidence_level(report.confidence), 100 * report.confidence);
  }
}

void print_text(const Report& report) {
  const ExplainRequest& request = *report.request;
  fmt::print("{} by {}{}\n\n", print(request.problem), word(report.source),
             report.model.empty() ? "" : fmt::format(" {} (target {})", report.model, report.target));
  Table table(columns(report));
  for (const Line& line : report.top) table.add_row(cells(report, line));
  for (const Line& line : report.asked) {
    if (!line.rank || *line.rank > report.top.size()) table.add_row(cells(report, line));
  }
  table.print(Format::text);
  print_ways(report.ways);
  if (request.has_measured && request.measured_rows.rows.empty()) {
    fmt::print("\nmeasured: nothing, the dataset does not hold this problem\n");
  } else if (request.has_measured) {
    fmt::print("\nmeasured: {} configs of this problem, the fastest takes {:.4g} us\n",
               request.measured_rows.rows.size(), request.measured_rows.best_us());
  }
  if (report.why.family) {
    fmt::print("\nmean score of the {} configs that apply to the problem: {:.5g}\n", report.why.candidates,
               report.why.expected);
    if (report.why.shortlisted < report.why.candidates)
      fmt::print("shortlist: {} of them, ranked by these scores; the others rank after them\n",
                 report.why.shortlisted);
  } else {
    fmt::print("\nno model answered: there are no trees to explain\n");
  }
  if (!report.known_devices.empty()) fmt::print("trained on: {}\n", fmt::join(report.known_devices, ", "));
  if (const auto& against = report.against_any_cpu) {
    fmt::print("mean efficiency on {} held-out problems: {:.2f} %; the model for any CPU: {:.2f} %\n",
               against->problems, 100 * against->mean, 100 * against->any_cpu_mean);
  }
  print_region(report);
  if (report.over_limit > 0) {
    fmt::print("threads: {} at most ({}); {} of the family's {} configs need more and are left out\n",
               report.limit.threads, report.limit.because, report.over_limit, report.family->configs.size());
  }
  if (!report.guarded && report.top.size() > 1 && report.top[0].explained && report.top[1].explained) {
    print_moves(report, report.top[0], report.top[1]);
  }
  for (const Line& line : report.asked) print_asked(report, line);
  if (report.excluded.empty()) return;
  fmt::print("\nrules that exclude configs for this problem\n\n");
  Table rules({"configs", "rule", "because"});
  for (const Exclusion& exclusion : report.excluded) {
    rules.add_row({number(static_cast<std::int64_t>(exclusion.configs)), text(exclusion.rule.name),
                   text(exclusion.rule.because)});
  }
  rules.print(Format::text);
}

// ----------------------------------------------------------------------------------------------------
// JSON

Json rule_json(const Rule& rule) {
  return {{"name", rule.name},
          {"kind", std::string(word(rule.kind))},
          {"admits", rule.admits},
          {"because", rule.because}};
}

Json line_json(const Report& report, const Line& line) {
  Json json;
  json["config"] = name_of(report, line.config);
  json["rank"] = line.rank ? Json(*line.rank) : Json(nullptr);
  json["time_us"] = number_json(line.time_us);
  json["tflops"] = number_json(line.tflops);
  json["score"] = number_json(line.score);
  if (report.request->has_measured) {
    json["measured"] = nullptr;
    if (const Measurement* const measured = report.request->measured_rows.of(line.config)) {
      const bool ok = measured->status == Status::ok;
      json["measured"] = {{"time_us", number_json(measured->time_us)},
                          {"status", std::string(word(measured->status))},
                          {"efficiency_percent",
                           number_json(ok ? 100 * report.request->measured_rows.best_us() / measured->time_us
                                          : Measurement::unknown)}};
    }
  }
  if (line.explained) {
    Json& features = json["features"] = Json::object();
    for (std::size_t f = 0; f < line.explained->contribution.size(); ++f) {
      features[report.schema->features()[f].id] = {{"value", number_json(line.explained->value[f])},
                                                   {"contribution", line.explained->contribution[f]}};
    }
  }
  if (!line.rank) {
    json["rules_against"] = Json::array();
    for (const Rule& rule : line.against) json["rules_against"].push_back(rule_json(rule));
    json["left_out"] = line.left_out.empty() ? Json(nullptr) : Json(line.left_out);
  }
  return json;
}

void print_json(const Report& report) {
  Json json;
  json["problem"] = print(report.request->problem);
  json["source"] = std::string(word(report.source));
  json["model"] = report.model.empty() ? Json(nullptr) : Json(report.model);
  json["known_devices"] = report.known_devices;
  json["against_any_cpu"] = nullptr;
  if (const auto& against = report.against_any_cpu) {
    json["against_any_cpu"] = {{"problems", against->problems},
                               {"mean_percent", 100 * against->mean},
                               {"any_cpu_mean_percent", 100 * against->any_cpu_mean}};
  }
  json["target"] = report.target.empty() ? Json(nullptr) : Json(report.target);
  json["expected_score"] = report.why.family ? Json(report.why.expected) : Json(nullptr);
  json["confidence_percent"] = number_json(100 * report.confidence);
  json["confidence_level"] = std::string(confidence_level(report.confidence));
  json["chosen_as_for"] = report.trained ? Json(trained_text(*report.trained)) : Json(nullptr);
  json["distance"] = number_json(report.distance);
  json["guard"] = nullptr;
  json["lead"] = number_json(report.lead);
  json["without_list"] = report.without_list;
  if (report.other_kernels) {
    json["guard"] = {{"other_kernels", true}, {"answers", report.guarded}};
  } else if (report.guard) {
    json["guard"] = {
        {"distance", report.guard->distance}, {"lead", report.guard->lead}, {"answers", report.guarded}};
  }
  json["shortlisted"] = report.why.family ? Json(report.why.shortlisted) : Json(nullptr);
  json["candidates"] = report.why.family ? Json(report.why.candidates) : Json(nullptr);
  json["thread_limit"] = nullptr;
  if (!report.limit.because.empty()) {
    json["thread_limit"] = {{"threads", report.limit.threads},
                            {"because", report.limit.because},
                            {"configs_left_out", report.over_limit}};
  }
  if (report.request->has_measured) {
    json["measured_configs"] = report.request->measured_rows.rows.size();
    json["measured_best_us"] = number_json(report.request->measured_rows.best_us());
  }
  json["top"] = Json::array();
  for (const Line& line : report.top) json["top"].push_back(line_json(report, line));
  json["first_over_second"] = Json::array();
  if (!report.guarded && report.top.size() > 1 && report.top[0].explained && report.top[1].explained) {
    for (const ContributionDifference& move :
         contribution_differences(*report.top[0].explained, *report.top[1].explained)) {
      json["first_over_second"].push_back(
          {{"feature", report.schema->features()[move.feature].id}, {"adds", move.difference}});
    }
  }
  json["asked"] = Json::array();
  for (const Line& line : report.asked) json["asked"].push_back(line_json(report, line));
  json["other_ways"] = Json::array();
  for (const OtherWay& way : report.ways) {
    json["other_ways"].push_back(
        {{"config", way.config}, {"runs", way.runs}, {"copies_us", way.copies_us}, {"time_us", way.time_us}});
  }
  json["rules"] = Json::array();
  for (const Exclusion& exclusion : report.excluded) {
    Json rule = rule_json(exclusion.rule);
    rule["configs"] = exclusion.configs;
    json["rules"].push_back(std::move(rule));
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

double MeasuredRows::best_us() const noexcept {
  double best = Measurement::unknown;
  for (const auto& [config, measured] : rows) {
    if (measured.status == Status::ok && !(best <= measured.time_us)) best = measured.time_us;
  }
  return best;
}

const Measurement* MeasuredRows::of(const KernelConfig& config) const noexcept {
  for (const auto& [known, measured] : rows) {
    if (known == config) return &measured;
  }
  return nullptr;
}

void print_explanation(const Selector& selector, const FamilyRequest& family, const ExplainRequest& request,
                       Format format) {
  const auto ranked = selector.rank(request.problem, std::numeric_limits<std::uint32_t>::max(), request.by);
  std::optional<Model> model;
  std::optional<Family> enumerated;
  Report report{.request = &request,
                .model = {},
                .known_devices = {},
                .against_any_cpu = {},
                .target = {},
                .source = ranked.front().decided_by};
  report.confidence = ranked.front().confidence;
  report.limit = thread_limit(request.threads, selector.device());
  if (report.source == ChoiceSource::model || report.source == ChoiceSource::any_cpu) {
    report.model = selector.model_path(request.problem).string();
    model = with_facts_of(Model::load(report.model, &selector.device()), selector.device());
    explain_by_model(report, *model, ranked);
  } else {
    enumerated = enumerate(family);
    report.family = &*enumerated;
  }
  for (std::size_t i = 0; i < report.family->configs.size(); ++i)
    report.over_limit += !report.limit.admits(host_threads(report.family->configs[i]));
  add_lines(report, ranked);
  report.ways = other_ways(selector, request.problem);
  format == Format::json ? print_json(report) : print_text(report);
}

}  // namespace kscout::cli
