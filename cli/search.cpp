// `kscout search`: finds the best config of one problem, by timing few configs or by a model's scores.
#include "search/search.h"

#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "options.h"
#include "search/measured_search.h"
#include "sweep/isolated_timer.h"
#include "sweep/sweep.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

constexpr double kDefaultBudgetS = 60;
constexpr double kTimingShare = 0.8;  // of the budget; the rest is for the contenders' rounds
constexpr std::size_t kDefaultDraws = 64;

struct SearchVerb {
  std::string problem, model, filter;
  std::optional<std::string> rules;
  std::optional<std::size_t> evaluations;
  std::size_t top = 5;
  Format format = Format::text;
  // Options of the search by a model.
  std::string device;
  SearchStrategy strategy = SearchStrategy::all;
  std::uint64_t seed = 42;
  // Options of the search by measuring.
  bool measure = false;
  std::string backend = "cpu", provider, worker;
  std::optional<double> budget_s;
  double item_limit_s = 10;
  std::int64_t calls = 0;  ///< over which set-up is charged; 0: not at all
  CacheState cache = CacheState::warm;
};

// ----------------------------------------------------------------------------------------- by a model

std::string model_for(const SearchVerb& options, const Problem& problem) {
  if (!options.model.empty()) return options.model;
  const Device device = device_named(options.device.empty() ? "auto" : options.device);
  const DType dtype = signature_of(problem).dtype_a;
  const auto found = find_model_or_any_cpu(problem.op(), dtype, device);
  if (!found) {
    fail(Errc::not_found,
         "no model '{}' to search by; give --model FOLDER or --device of a shipped model, or time configs "
         "with "
         "--measure",
         model_folder_name(problem.op(), dtype, device));
  }
  return found->string();
}

void search_by_model(const SearchVerb& options, const Problem& problem) {
  const std::string path = model_for(options, problem);
  const Device device = options.device.empty() ? model_device(path) : device_named(options.device);
  const Model model = Model::load(path, &device);
  const Signature signature = signature_of(problem);
  const std::string rules = options.rules.value_or("full");
  check_formula(std::string(model.provider()), signature.op, "--filter", options.filter);
  const Family family = enumerate({.provider = std::string(model.provider()),
                                   .signature = signature,
                                   .device = device,
                                   .rules = rules,
                                   .filter = options.filter});
  const SearchSpace space(applicable_table(family, problem));
  const SearchResult found = Searcher(options.seed)
                                 .search(space, model_objective(model, problem, space),
                                         {.strategy = options.strategy,
                                          .evaluations = options.evaluations.value_or(kDefaultDraws),
                                          .top = options.top});

  std::vector<double> scores;
  for (const FoundConfig& one : found.best) scores.push_back(one.score);
  const std::vector<double> tflops = model.predicted_tflops(problem, scores);
  const Family* const known = model.family(signature);
  Table table({"rank", "config", "tflops", "time_us", "evaluation", "trained"});
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const KernelConfig config = space.configs()[found.best[i].config];
    bool trained = false;
    for (std::size_t c = 0; known && c < known->configs.size() && !trained; ++c)
      trained = known->configs[c] == config;
    table.add_row({number(static_cast<std::int64_t>(i + 1)), text(config_name(signature, config)),
                   number(tflops[i], 4), number(time_us_of(problem, tflops[i]), 4),
                   number(static_cast<std::int64_t>(found.best[i].evaluation)), flag(trained)});
  }
  table.print(options.format);
  fmt::print(stderr, "{} evaluations; {} legal configs of rule set '{}'; model: {}\n", found.evaluations,
             space.size(), rules, path);
}

// ----------------------------------------------------------------------------------------- by measuring

struct MeasuringModel {
  Model model;
  std::string path;
};

/// The model that orders the configs: the named one, else the one that `predict` would use. Nothing when
/// there is none for the device and the problem's types and layouts.
std::optional<MeasuringModel> ordering_model(const SearchVerb& options, const Problem& problem,
                                             Backend& backend) {
  const Signature signature = signature_of(problem);
  std::string path = options.model;
  if (path.empty()) {
    const auto found = find_model(problem.op(), signature.dtype_a, backend.device(), DevicePolicy::same_arch);
    if (!found) return std::nullopt;
    path = found->string();
  }
  const Device device = backend.device();
  Model model = Model::load(path, &device);
  std::string refusal;
  if (!model.family(signature)) {
    refusal = fmt::format("it was not trained for the types and layout of {}", print(problem));
  } else if (!backend.executes(model.provider())) {
    refusal = fmt::format("backend {} does not execute its provider {}", backend.name(), model.provider());
  } else if (!options.provider.empty() && options.provider != model.provider()) {
    refusal = fmt::format("it is of provider {}, --provider is {}", model.provider(), options.provider);
  }
  if (!refusal.empty() && options.model.empty()) return std::nullopt;
  if (!refusal.empty()) fail(Errc::invalid_argument, "--model {}: {}; leave it out", path, refusal);
  if (const std::string warning = foreign_device_warning(model.device(), backend.device()); !warning.empty())
    fmt::print(stderr, "kscout search: {}\n", warning);
  return MeasuringModel{std::move(model), std::move(path)};
}

/// The configs to choose from, those of a rule set or of the model, with their origin.
Family measured_family(const SearchVerb& options, const Problem& problem, Backend& backend,
                       const std::optional<MeasuringModel>& model) {
  const Signature signature = signature_of(problem);
  if (model && !options.rules && options.filter.empty()) {
    Family family = *model->model.family(signature);
    family.signature = signature;  // names are the problem's, whatever the model was trained for
    return family;
  }
  const std::string provider(!options.provider.empty() ? std::string_view(options.provider)
                             : model                   ? model->model.provider()
                                                       : backend.provider_for(problem.op()));
  check_formula(provider, signature.op, "--filter", options.filter);
  return enumerate({.provider = provider,
                    .signature = signature,
                    .device = backend.device(),
                    .rules = options.rules.value_or("default"),
                    .filter = options.filter});
}

/// The configs that can run here, so that no evaluation is spent on a kernel whose library or instruction set
/// is missing.
ConfigTable runnable_configs(const Family& family, const Problem& problem, Backend& backend) {
  const ConfigTable configs = applicable_table(family, problem);
  ConfigTable runnable(configs.space());
  std::string refusal;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    std::string why = backend.refusal(problem, configs[i]);
    if (why.empty()) runnable.push_back(configs[i]);
    if (refusal.empty()) refusal = std::move(why);
  }
  if (runnable.empty()) {
    fail(Errc::unsupported, "backend {} refuses all {} configs for {}; the first because: {}", backend.name(),
         configs.size(), print(problem), refusal);
  }
  return runnable;
}

SweepPlan plan_of(const SearchVerb& options, const Problem& problem, const SearchSpace& space,
                  Backend& backend) {
  SweepPlan plan;
  plan.provider = std::string(space.configs().space().provider);
  plan.backend = options.backend;
  plan.op = problem.op();
  plan.device = backend.device();
  // A faster protocol than a sweep's, for a user who waits.
  plan.protocol = {.cache = options.cache, .prune_factor = 2, .rounds_budget_us = 2e5};
  if (plan.device.kind == DeviceKind::gpu) plan.protocol.slack_us = 0;
  plan.problems = {problem};
  for (std::size_t i = 0; i < space.size(); ++i) plan.configs.push_back(space.configs()[i]);
  plan.candidates.resize(1);
  plan.candidates[0].resize(space.size());
  std::iota(plan.candidates[0].begin(), plan.candidates[0].end(), 0u);
  return plan;
}

/// Times configs in a worker and counts the reasons for failures. With `calls`, a time includes the config's
/// set-up over that many calls.
class WorkerTimer final : public ConfigTimer {
 public:
  WorkerTimer(const SweepPlan& plan, IsolatedTimerOptions options, std::int64_t calls)
      : protocol_(plan.protocol),
        timer_(plan, std::move(options)),
        calls_(static_cast<double>(calls)),
        setup_us_(plan.configs.size(), Measurement::unknown) {}

  double time_us(std::uint32_t config) override {
    double time_us = usable_us(config, timer_.coarse(config));
    // A thread that lost its CPU for a moment looks equally slow, so one more sample is taken.
    if (time_us > protocol_.prune_factor * best_us_ && time_us <= prune_limit_us(protocol_, best_us_))
      time_us = std::fmin(time_us, usable_us(config, timer_.coarse(config)));
    best_us_ = std::fmin(best_us_, time_us);
    return time_us;
  }

  std::vector<Retimed> retime(std::span<const std::uint32_t> configs) override {
    std::vector<Retimed> retimed;
    const auto outcomes = timer_.contenders({configs.begin(), configs.end()});
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      retimed.push_back({usable_us(configs[i], outcomes[i]), outcomes[i].measured.status == Status::ok});
    return retimed;
  }

  /// "1 crashed, 2 wrong".
  std::string failures() const {
    std::string listed;
    for (const auto& [status, count] : failed_)
      listed += fmt::format("{}{} {}", listed.empty() ? "" : ", ", count, word(status));
    return listed;
  }
  const std::string& last_reason() const noexcept { return last_reason_; }
  /// The first set-up time of a config; NaN when it has none.
  double setup_us(std::uint32_t config) const { return setup_us_[config]; }
  /// The part of a config's time that is its set-up.
  double share_us(std::uint32_t config) const {
    return calls_ > 0 && setup_us_[config] > 0 ? setup_us_[config] / calls_ : 0;
  }

 private:
  double usable_us(std::uint32_t config, const Outcome& outcome) {
    const Status status = outcome.measured.status;
    if (status == Status::ok || status == Status::pruned_early) {
      if (std::isnan(setup_us_[config])) setup_us_[config] = outcome.measured.setup_us;
      return outcome.measured.time_us + share_us(config);
    }
    ++failed_[status];
    last_reason_ = outcome.reason;
    return Measurement::unknown;
  }

  Protocol protocol_;
  IsolatedTimer timer_;
  double calls_;
  std::vector<double> setup_us_;  ///< of each config
  double best_us_ = HUGE_VAL;
  std::map<Status, std::size_t> failed_;
  std::string last_reason_;
};

void print_measured(const SearchVerb& options, const Problem& problem, const Device& device,
                    const SearchSpace& space, const SearchStart& start, const MeasuredSearchResult& found,
                    const std::string& model, double seconds, const WorkerTimer& timer) {
  const Signature signature = signature_of(problem);
  const std::string failures = timer.failures();
  std::vector<std::string> columns{"rank",         "config",     "time_us",  "tflops",
                                   "predicted_us", "evaluation", "in_rounds"};
  if (options.calls > 0) columns.insert(columns.begin() + 3, "setup_us");
  Table table(std::move(columns));
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const TimedConfig& one = found.best[i];
    const double time_us = one.time_us - timer.share_us(one.config);
    std::vector<Cell> cells{number(static_cast<std::int64_t>(i + 1)),
                            text(config_name(signature, space.configs()[one.config])),
                            number(time_us, 5),
                            number(flop_count(problem) / time_us * 1e-6, 4),
                            number(start.expected_us[one.config], 4),
                            number(static_cast<std::int64_t>(one.evaluation)),
                            flag(one.in_rounds)};
    if (options.calls > 0) cells.insert(cells.begin() + 3, number(timer.setup_us(one.config), 4));
    table.add_row(std::move(cells));
  }
  if (options.format == Format::json) {
    Json out{{"problem", print(problem)}, {"device", device.name},   {"backend", options.backend},
             {"model", nullptr},          {"configs", space.size()}, {"timed", found.timed},
             {"failed", found.failed},    {"seconds", seconds}};
    if (!model.empty()) out["model"] = model;
    out["best"] = Json::parse(table.to_string(Format::json));
    fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  if (options.format == Format::text) fmt::print("{} on {}\n", print(problem), device.name);
  table.print(options.format);
  fmt::print(stderr, "{} of {} configs timed in {:.1f} s{}; order: {}\n", found.timed, space.size(), seconds,
             failures.empty() ? "" : fmt::format(" ({})", failures),
             model.empty() ? "analytic costs, no model" : model);
}

void search_by_measuring(const SearchVerb& options, const Problem& problem) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Backend& backend = kscout::backend(options.backend);
  const auto model = ordering_model(options, problem, backend);
  const SearchSpace space(
      runnable_configs(measured_family(options, problem, backend, model), problem, backend));
  const SearchStart start = model ? start_by_model(model->model, problem, space.configs())
                                  : start_by_cost(problem, space.configs(), backend.device());
  const SweepPlan plan = plan_of(options, problem, space, backend);
  WorkerTimer timer(
      plan,
      {.worker = options.worker.empty() ? default_worker() : std::filesystem::path(options.worker),
       .item_limit_s = options.item_limit_s},
      options.calls);

  // A given limit applies alone; without any, both defaults apply.
  const double unlimited = options.evaluations ? HUGE_VAL : kDefaultBudgetS;
  const double timing_s = kTimingShare * options.budget_s.value_or(unlimited);
  const std::size_t usual = options.budget_s ? space.size() : start.evaluations;
  const MeasuredSearchResult found = kscout::search_by_measuring(
      space, timer,
      {.start = start, .evaluations = options.evaluations.value_or(usual), .top = options.top, .stop = [&] {
         return elapsed_s() >= timing_s;
       }});
  if (found.best.empty() && options.top > 0) {
    fail(Errc::unsupported, "none of the {} configs that were timed can be used for {} ({}); the last: {}",
         found.timed, print(problem), timer.failures(), timer.last_reason());
  }
  print_measured(options, problem, plan.device, space, start, found, model ? model->path : "", elapsed_s(),
                 timer);
}

// ----------------------------------------------------------------------------------------- options

/// Rejects options that have no effect with the other options.
void refuse_idle_options(const SearchVerb& options, const CLI::App& verb) {
  const auto refuse = [&](std::initializer_list<const char*> names, std::string_view because) {
    for (const char* const name : names) {
      if (verb.count(name) > 0) fail(Errc::invalid_argument, "{}: {}", name, because);
    }
  };
  if (options.measure) {
    refuse({"--device"}, "--measure times on the device of --backend");
    refuse({"--strategy", "--seed"}, "how a model is searched; --measure has one way and draws nothing");
    return;
  }
  refuse({"--budget"}, "seconds, only with --measure; --evaluations N limits what a model scores");
  refuse({"--backend", "--provider", "--cache", "--timeout", "--worker"}, "only with --measure");
  refuse({"--calls"}, "set-up times are measured, only with --measure");
  if (options.strategy == SearchStrategy::all) {
    refuse({"--evaluations", "--seed"}, "strategy 'all' scores every config; give --strategy random or de");
  }
}

void search(const SearchVerb& options, const CLI::App& verb) {
  refuse_idle_options(options, verb);
  const Problem problem = parse_any_problem(options.problem);
  check(problem);
  options.measure ? search_by_measuring(options, problem) : search_by_model(options, problem);
}

}  // namespace

void setup_search(CLI::App& verb) {
  const auto options = std::make_shared<SearchVerb>();
  verb.add_option("problem", options->problem,
                  "one-line form, e.g. conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1")
      ->required();
  verb.add_flag("--measure", options->measure, "time configs on this machine; else a model scores them");
  verb.add_option("--model", options->model,
                  "model folder or .ksf file; otherwise looked for as `predict` does");
  verb.add_option("--rules", options->rules, "rule set to search in, or FILE.toml[:SET] with one of your own")
      ->default_str("full; with --measure the model's configs, else default");
  verb.add_option("--filter", options->filter, "only configs for which this formula holds");
  verb.add_option("--evaluations", options->evaluations, "configs that may be timed, or scored by a model")
      ->default_str("5 %, at least 16, without a model 24; 64 for --strategy random or de")
      ->check(above_zero(), "POSITIVE");
  verb.add_option("--top", options->top, "number of configs to show")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));

  verb.add_option("--backend", options->backend, "--measure: backend that executes, cpu or cuda")
      ->capture_default_str();
  verb.add_option("--budget", options->budget_s, "--measure: seconds after which to stop")
      ->default_str("60, or none with --evaluations")
      ->check(above_zero(), "POSITIVE");
  verb.add_option("--provider", options->provider, "--measure: provider of the kernels")
      ->default_str("the model's, else the backend's");
  add_word_option(verb, "--cache", options->cache, "--measure: caches before each run");
  add_calls_option(verb, options->calls);
  verb.add_option("--timeout", options->item_limit_s, "--measure: seconds that one config may take")
      ->capture_default_str()
      ->check(above_zero(), "POSITIVE");
  verb.add_option("--worker", options->worker)->group("");  // hidden; tests pass their own worker

  verb.add_option("--device", options->device,
                  "by a model: a preset's name or auto; without it, the model's own device");
  add_word_option(verb, "--strategy", options->strategy, "by a model: which configs it scores");
  verb.add_option("--seed", options->seed,
                  "by a model: seed of random and de; equal seeds give equal results")
      ->capture_default_str();
  add_format_option(verb, options->format);
  verb.footer(
      "With --measure, kernels are verified and timed in a process of their own: a crash affects only one "
      "config.\n"
      "The order starts from the model, without one from the vendor's suggestions and analytic costs, and "
      "follows what\n"
      "was timed. The fastest are timed again in interleaved rounds (in_rounds) before one is called the "
      "best.\n"
      "evaluation: position in the order of timing or scoring; trained: the model was trained on it\n"
      "\n"
      "examples\n"
      "  kscout search gemm:16x4096x4096 --measure\n"
      "  kscout search gemm:16x4096x4096:bf16 --measure --backend cuda --cache cold --budget 30\n"
      "  kscout search conv_fwd:32x128x28x28:128x3x3:bf16:nhwgc:pad=1 --device gfx950\n"
      "\n"
      "exit status: 0 done, 2 wrong arguments, 3 no config can take the problem, 4 no model, or a file or "
      "worker failure");
  verb.callback([options, &verb] { search(*options, verb); });
}

}  // namespace kscout::cli
