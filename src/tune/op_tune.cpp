#include "tune/op_tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "core/device_facts.h"
#include "core/fail.h"
#include "core/indexing.h"
#include "core/owners.h"
#include "evaluate/baselines.h"
#include "evaluate/reference_problems.h"
#include "family/family_file.h"
#include "family/rules.h"
#include "features/schema.h"
#include "measure/measured_backend.h"
#include "measure/timing.h"
#include "op/problem_sets.h"
#include "sweep/journal.h"
#include "tune/stages.h"
#include "tune/target.h"

namespace kscout {

namespace {

namespace fs = std::filesystem;

/// Short limits, because more problems are worth more than less noise per problem.
constexpr Protocol kThrifty{.contenders = 24, .rounds = 10, .rounds_budget_us = 5e4};
/// On a GPU, whose caches a program's other kernels fill between two calls.
constexpr Protocol kThriftyOnGpu{
    .cache = CacheState::cold, .contenders = 24, .rounds = 10, .rounds_budget_us = 5e4};

/// For building the kernels of one problem; those that take longer are not worth it.
constexpr int kCompileBudgetS = 3;

/// Of problems with longer calls a few configs are measured, because more problems are worth more.
constexpr double kFewAboveUs = 50;
/// A sweep of a stage takes this long at least; a share of the budget below this stays unused.
constexpr double kMinStageS = 0.2, kUnusedShare = 0.05;
/// More threads make training no faster.
constexpr std::size_t kMaxThreads = 8, kRowsPerThread = 10000;

/// Other choices than the library's first suggestion must be worth their risk (docs/bench/models_h200.md,
/// docs/bench/tune_gpu.md).
Handicap handicap_of_others(Op op) { return {"c.suggestion != 1", is_direction(op) ? 0.01 : 0.02}; }

/// Min common problems of two models; fewer do not show which model is better.
constexpr std::size_t kMinCompared = 10;
/// The same against the model for any CPU: a short tune holds few problems out.
constexpr std::size_t kMinComparedWithShared = 5;

/// How trees are added to the model for any CPU. Few problems may change its scores only a little: with the
/// usual rate they make it worse (docs/bench/any_cpu.md).
constexpr int kAddedLeaves = 63;
constexpr std::size_t kFewProblems = 100;
constexpr double kAddedRate = 0.03, kAddedRateOfFew = 0.01;
/// On so few problems cross-validation finds the best number of trees by luck.
constexpr int kMinAddedTrees = 100;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unordered_set<Problem> problems_of_all(const std::vector<MeasurementTable>& tables) {
  std::unordered_set<Problem> problems;
  for (const MeasurementTable& table : tables) {
    for (const auto& row : table.rows) problems.insert(table.problems[row.problem]);
  }
  return problems;
}

/// Number of groups that the problems are split by.
std::size_t groups_in(const MeasurementTable& table, SplitBy by) {
  std::set<ProblemSizes> groups;
  for (const Problem& problem : table.problems) groups.insert(group_of(problem, by));
  return groups.size();
}

/// What is missing for a model; empty when nothing is. The model has no family for a signature, a layout for
/// example, that only held-out problems have: those do not count.
std::string missing_for_model(Op op, const TableParts& parts) {
  const Operation& of = operation(op);
  const std::vector<Signature> trained = signatures_of(parts.training.problems);
  const MeasurementTable evaluated = table_of_problems(parts.held_out, [&](const Problem& problem) {
    return std::ranges::find(trained, signature_of(problem)) != trained.end();
  });
  const std::size_t training = groups_in(parts.training, of.tune_split),
                    held_out = groups_in(evaluated, of.tune_split);
  if (training >= 2 && held_out >= 1) return {};
  return fmt::format("{} {}s to train on and {} to evaluate on, at least 2 and 1 are needed", training,
                     of.split_noun, held_out);
}

}  // namespace

void OpTune::note(const std::string& text) const {
  if (progress_.note) progress_.note(text);
}

OpTune::OpTune(Op op, const TuneRequest& options, const TuneProgress& progress, const Device& device,
               double share_s)
    : op_(op),
      options_(options),
      progress_(progress),
      device_(device),
      target_(checked_target(op, options, device)),
      folder_(target_),
      provider_(options.provider_for(op)),
      budget_s_(share_s) {
  if (options_.restart && folder_.clear())
    note(fmt::format("removed the measurements in {}", folder_.path().string()));
  tables_ = read_tune_folder();
  shared_ = find_shared();
  installed_ = find_installed();
  if (!tables_.empty())
    note(fmt::format("continues from {} problems in {} (--restart removes them)",
                     problems_of_all(tables_).size(), folder_.path().string()));
  if (installed_.measurements) tables_.insert(tables_.begin(), *installed_.measurements);
  std::set<Layout> layouts = options_.layouts_of(op_);
  const std::unordered_set<Problem> known = problems_of_all(tables_);
  for (const Problem& problem : known) layouts.insert(signature_of(problem).layout);
  check_comparable(layouts);
  own_ = computable(options_.own_problems(op_));
  const auto own = own_left();
  if (!own.empty()) own_plan_ = plan_for(own, 0);
  const auto stages = stages_left();
  if (!stages.empty() || own.empty())  // without any problem it says so
    plan_ =
        plan_for(stages.empty() ? std::vector<Problem>() : stages.front().problems, options_.max_problems);
}

bool OpTune::lists() const { return options_.on_gpu() && options_.rules == kUsualRules; }

std::string OpTune::chosen_among() const {
  return lists() ? "the library's list" : fmt::format("rule set '{}'", options_.rules);
}

SweepPlan OpTune::plan_for(const std::vector<Problem>& problems, std::size_t max_problems) const {
  PlanRequest request{.provider = provider_,
                      .backend = options_.backend,
                      .rules = options_.rules,
                      .max_problems = max_problems,
                      .seed = options_.seed};
  if (!options_.on_gpu()) {
    GuidedBy few = few_above(kFewAboveUs, op_, options_.dtype, provider_, device_);
    few.winners = winners_of(tables_);
    // The comparison with the best fixed config needs it everywhere.
    if (!few.winners.empty()) few.always = {best_static(merge(tables_, Keep::last))};
    request.narrow = guided_by(few, request, device_);
  }
  const Protocol& protocol = options_.on_gpu() ? kThriftyOnGpu : kThrifty;
  SweepPlan plan = make_plan(problems, request, device_, protocol);
  plan.provenance.merge(kscout::backend(options_.backend).versions());
  return plan;
}

std::vector<TuneStage> OpTune::stages_left() const {
  std::unordered_set<Problem> known = problems_of_all(tables_);
  known.insert(own_.begin(), own_.end());
  return tune_stages(op_, options_, device_, budget_s_, known);
}

std::vector<Problem> OpTune::computable(std::vector<Problem> own) const {
  if (own.empty()) return own;
  const std::size_t given = own.size();
  const std::string reason = leave_out_uncomputable(own, provider_, device_, options_.rules);
  if (own.empty())
    fail(Errc::unsupported, "--problems: no config computes any of the {} problems of {}; the first: {}",
         given, word(op_), reason);
  if (own.size() < given)
    note(fmt::format("{}: {} of {} problems of --problems are left out; the first: {}", word(op_),
                     given - own.size(), given, reason));
  return own;
}

std::vector<Problem> OpTune::own_left() const {
  std::vector<Problem> own = own_;
  const std::unordered_set<Problem> known = problems_of_all(tables_);
  std::erase_if(own, [&](const Problem& problem) { return known.contains(problem); });
  return own;
}

std::size_t OpTune::measure_own(double budget_s) {
  const std::size_t all = own_plan_->problems.size();
  if (const auto weightiest = weightiest_of(*own_plan_, budget_s); weightiest.size() < all)
    own_plan_ = plan_for(weightiest, 0);
  const std::size_t now = own_plan_->problems.size();
  note(fmt::format(
      "{}: first measures {} problems of --problems{}{}", word(op_), now,
      now < all ? fmt::format(", which take most of the time; {} are left for a later tune", all - now) : "",
      own_plan_->left_out.empty() ? "" : "; left out: " + left_out_text(own_plan_->left_out)));
  measure(*own_plan_, budget_s);
  return problems_of_all({tables_.back()}).size();
}

std::size_t OpTune::measure_drawn(double budget_s, std::size_t max_problems) {
  const std::size_t known = problems_of_all(tables_).size();
  const auto start = std::chrono::steady_clock::now();
  const auto new_problems = [&] { return problems_of_all(tables_).size() - known; };
  for (const TuneStage& stage : stages_left()) {
    const double left_s = budget_s - seconds_since(start);
    if (new_problems() > 0 && (left_s <= 0 || new_problems() == max_problems)) break;
    const double share_s = std::max(stage.share * left_s, kMinStageS);
    const double share_of_problems = stage.share * static_cast<double>(max_problems - new_problems());
    plan_ = plan_for(stage.problems,
                     max_problems == 0 ? 0 : static_cast<std::size_t>(std::ceil(share_of_problems)));
    note(fmt::format(
        "{}: {}, {} problems of {} to draw from, {:.0f} s", word(op_),
        lists() ? chosen_among() : fmt::format("{} configs of {}", plan_.configs.size(), chosen_among()),
        plan_.problems.size(), stage.name, share_s));
    measure(plan_, share_s);
  }
  return new_problems();
}

TunedOp OpTune::run(double budget_s) {
  TunedOp done{.op = op_, .target = target_, .before = installed_.model, .candidate = folder_.candidate()};
  const auto start = std::chrono::steady_clock::now();
  const auto left_s = [&] { return budget_s - seconds_since(start); };
  const std::size_t most = options_.max_problems;
  if (own_plan_) done.new_problems += measure_own(left_s());
  MeasurementTable measured;
  TableParts parts;
  for (std::size_t drawn = 0;;) {
    const std::size_t more = measure_drawn(left_s(), most == 0 ? 0 : most - drawn);
    drawn += more;
    done.new_problems += more;
    // Rows may be in both the installed model and a sweep, if a tune was killed after installing.
    measured = merge(tables_, Keep::last);
    parts = split_table(measured, options_.held_out, kHeldOutSeed, operation(op_).tune_split);
    const std::string missing = missing_for_model(op_, parts);
    const bool all = (most > 0 && drawn >= most) || stages_left().empty();
    // Once more where a class had fewer problems than its share paid for.
    if (missing.empty() && (all || more == 0 || left_s() < kUnusedShare * budget_s)) break;
    if (missing.empty()) continue;
    if (all)
      fail(Errc::invalid_argument,
           "too little was measured: {}; the measurements are kept, and the same command adds more", missing);
    note(fmt::format("{}: the budget is over with {}; it goes on", word(op_), missing));
  }
  done.measured_s = seconds_since(start);
  done.device = measured.device.name;
  done.chosen_among = chosen_among();
  done.training_problems = parts.training.problems.size();
  for (const Problem& problem : parts.training.problems) {
    const double gflop = flop_count(problem) / 1e9;
    done.smallest_gflop = std::min(done.smallest_gflop, gflop);
    done.largest_gflop = std::max(done.largest_gflop, gflop);
  }
  done.held_out_problems = parts.held_out.problems.size();
  done.configs = measured.configs.size();
  done.rows = measured.rows.size();

  const TrainingResult trained = train_on(parts.training);
  write_model_folder(folder_.candidate(), trained,
                     {.data_files = {std::string(kKeptMeasurements)},
                      .metadata = measured.metadata,
                      .data_rows = parts.training.rows.size()});
  write_dataset(folder_.candidate() / kKeptMeasurements, measured);
  record_reference_times(folder_.candidate(), {{parts.held_out}});
  if (!shared_.empty())
    done.by_class = keep_best_trees({folder_.candidate(), shared_, installed_.model}, parts.held_out);
  done.verdict = compare_models(parts);
  evaluate_own_problems(done, measured);
  // With --replace the new model answers whatever the comparison says.
  if (!shared_.empty() && !options_.replace) store_against_shared(parts.held_out);
  if (done.verdict.why_not.empty()) {
    install_model_folder(folder_.candidate(), target_);
    folder_.remove();
    done.verdict.candidate.model = target_.string();
  }
  return done;
}

void OpTune::evaluate_own_problems(TunedOp& done, const MeasurementTable& measured) const {
  OwnRequest request{.problems = options_.own_problems(op_),
                     .against = options_.compared_with(op_),
                     .rules = options_.rules,
                     .max_load = options_.max_load,
                     .before = installed_.model.string(),
                     .held_out = options_.held_out,
                     .seed = kHeldOutSeed,
                     .by = operation(op_).tune_split};
  if (request.problems.empty()) return;
  const CallTimes& all = done.own.emplace(evaluate_own(request, folder_.candidate(), measured)).all;
  if (!all.before_us || options_.replace) return;
  done.verdict.why_not =
      *all.before_us < all.model_us
          ? fmt::format("its choices are faster on the problems of --problems: {:.4g} ms against {:.4g} ms",
                        *all.before_us * 1e-3, all.model_us * 1e-3)
          : "";
}

/// Why rows of a table cannot be trained on together with new ones; empty when they can.
std::string OpTune::foreign(const MeasurementTable& table) const {
  if (const std::string why = device_difference(table.device, device_); !why.empty())
    return "was measured on another device: " + why;
  if (const Op of = table.problems.empty() ? op_ : table.problems.front().op(); of != op_)
    return fmt::format("is of {}, not {}", word(of), word(op_));
  if (!table.problems.empty()) {
    const Signature signature = signature_of(table.problems.front());
    if (signature.dtype_a != options_.dtype)
      return fmt::format("is of {}, not {}", word(signature.dtype_a), word(options_.dtype));
    for (const KernelConfig& config : table.configs) {
      if (lists()) break;  // rows of each release of the library train the same model
      const std::string why = kscout::backend(options_.backend).absence(signature, config);
      if (!why.empty()) return "cannot be continued: " + why;
    }
  }
  const auto rules = table.metadata.find("rules");
  const std::string named = rules == table.metadata.end() ? "" : rules->second;
  if (named != rules_name(options_.rules))
    return fmt::format("is of rule set '{}', not '{}'", named, rules_name(options_.rules));
  return {};
}

/// Measurements of earlier sweeps that no installed model contains.
std::vector<MeasurementTable> OpTune::read_tune_folder() const {
  std::vector<MeasurementTable> tables;
  for (const fs::path& folder : folder_.sweeps()) {
    const auto remedy = "give --restart to measure without it, or another --out";
    try {
      MeasurementTable table = read_sweep(folder);
      if (table.rows.empty()) continue;
      if (const std::string why = foreign(table); !why.empty())
        fail(Errc::invalid_argument, "what an interrupted kscout tune left in {} {}; {}", folder.string(),
             why, remedy);
      tables.push_back(std::move(table));
    } catch (const Error& error) {
      if (error.code() == Errc::invalid_argument) throw;
      fail(error.code(), "what an interrupted kscout tune left cannot be read: {}; {}", error.what(), remedy);
    }
  }
  return tables;
}

fs::path OpTune::find_shared() const {
  if (options_.on_gpu()) return {};
  const auto found = find_model(op_, DType::fp32, any_cpu());
  if (!found) return {};
  const Model model = Model::load(*found, &device_);
  const bool fits = (options_.schema.empty() || options_.schema == any_cpu_schema(op_)) &&
                    rules_name(model.data().families.front().rules) == rules_name(options_.rules);
  const auto known = [&](Target target) { return model.has(target); };
  return fits && std::ranges::all_of(options_.targets, known) ? *found : fs::path();
}

OpTune::InstalledModel OpTune::find_installed() const {
  InstalledModel installed;
  if (fs::exists(target_ / "model.ksf")) {
    installed.model = target_;
  } else if (options_.out.empty()) {
    installed.model = find_model(op_, options_.dtype, device_).value_or(shared_);
  }
  if (installed.model.empty()) return installed;
  if (const fs::path kept = installed.model / kKeptMeasurements; fs::exists(kept)) {
    MeasurementTable table = read_dataset(kept);
    if (const std::string why = foreign(table); why.empty()) {
      installed.measurements = std::move(table);
    } else {
      note(fmt::format("{} is not used: it {}", kept.string(), why));
    }
  }
  return installed;
}

/// Rejects options that make the new model incomparable with the installed one, before measuring.
void OpTune::check_comparable(const std::set<Layout>& layouts) const {
  if (installed_.model.empty() || installed_.model == shared_) return;
  const Model model = Model::load(installed_.model);
  if (const Op of = model.data().families.front().signature.op; of != op_) {
    fail(Errc::invalid_argument, "{} is a model of {}, not of {}; give another --out",
         installed_.model.string(), word(of), word(op_));
  }
  if (options_.replace) return;
  const auto refuse = [&](const std::string& why) {
    fail(Errc::invalid_argument,
         "{} {}: whether a new model is better cannot be decided; give --replace to install the new one "
         "anyway, or another --out",
         installed_.model.string(), why);
  };
  if (model.device().name != device_.name)
    refuse(fmt::format("is of device '{}', not '{}'", model.device().name, device_.name));
  for (const Family& family : model.data().families) {
    const bool both_list = lists() && model.ranks_listed();
    if (!both_list && rules_name(family.rules) != rules_name(options_.rules))
      refuse(fmt::format("chooses among rule set '{}', not '{}'", family.rules, rules_name(options_.rules)));
    if (!layouts.contains(family.signature.layout))
      refuse(fmt::format("knows layout {}, which --layout leaves out", word(family.signature.layout)));
  }
}

void OpTune::measure(SweepPlan plan, double budget_s) {
  if (options_.on_gpu()) name_suggestions(plan, kscout::backend(options_.backend));
  const fs::path folder = folder_.new_sweep();
  const SweepReport report =
      progress_.sweep(plan, {.folder = folder,
                             .worker = options_.worker,
                             .workers = options_.on_gpu() ? measured_backend(options_.backend)->devices() : 1,
                             .budget_s = budget_s,
                             .whole_problems = true,
                             .compile_budget_s = kCompileBudgetS,
                             .stop = progress_.stop});
  if (report.ended == "interrupted") throw TuneStopped{folder_.path()};
  tables_.push_back(read_sweep(folder));
}

TrainingResult OpTune::train_on(const MeasurementTable& training) const {
  TrainOptions train_options;
  const Operation& of = operation(op_);
  train_options.fold_by = of.tune_split == SplitBy::weights ? FoldBy::weights : FoldBy::sizes;
  train_options.folds =
      static_cast<std::uint32_t>(std::min<std::size_t>(options_.folds, groups_in(training, of.tune_split)));
  if (train_options.folds < options_.folds)
    note(fmt::format("{} folds, one for each {} that was measured", train_options.folds, of.split_noun));
  train_options.targets = options_.targets;
  if (lists()) train_options.handicap = handicap_of_others(op_);
  train_options.warm_start = shared_;
  if (!shared_.empty()) {
    train_options.parameters.leaves = kAddedLeaves;
    train_options.parameters.min_rounds = kMinAddedTrees;
    train_options.parameters.learning_rate =
        training.problems.size() < kFewProblems ? kAddedRateOfFew : kAddedRate;
  }
  if (train_options.targets.empty() && (options_.on_gpu() || !shared_.empty()))
    train_options.targets = {Target::rank};
  if (train_options.targets.empty()) train_options.targets = {Target::relative, Target::tflops};
  if (options_.on_gpu()) {
    const std::size_t most = std::min(allowed_cpus().size(), kMaxThreads);
    train_options.parameters.threads =
        static_cast<int>(std::clamp<std::size_t>(training.rows.size() / kRowsPerThread, 1, most));
  }
  const CompactTable tables[] = {training};
  return train(tables, families_of(tables, options_.rules),
               std::make_shared<Schema>(tune_schema(op_, options_, !shared_.empty())), train_options,
               [&](const std::string& text) {
                 if (progress_.stop && *progress_.stop) throw TuneStopped{folder_.path()};
                 if (progress_.training) progress_.training(text);
               });
}

/// Evaluates the candidate on the layouts that the installed model does not know.
void OpTune::add_new_layouts(TuneVerdict& verdict, const Model& installed, const TableParts& parts) const {
  const auto is_new = [&](const Problem& problem) { return !installed.family(signature_of(problem)); };
  for (const MeasurementTable* part : {&parts.training, &parts.held_out}) {
    for (const Problem& problem : part->problems) {
      if (is_new(problem)) verdict.new_layouts.insert(signature_of(problem).layout);
    }
  }
  ModelEvaluationOptions how;
  how.training = parts.training;
  // A layout that was measured on held-out problems only has no family in the candidate.
  const Model candidate = Model::load(folder_.candidate());
  const MeasurementTable held_out = table_of_problems(parts.held_out, [&](const Problem& problem) {
    return is_new(problem) && candidate.family(signature_of(problem));
  });
  const auto has_oracle = [](const auto& rows) { return oracle_of(rows).has_value(); };
  if (std::ranges::any_of(final_rows(held_out), has_oracle))
    verdict.on_new_layouts = evaluate_model(folder_.candidate(), held_out, how);
}

void OpTune::store_against_shared(const MeasurementTable& held_out) const {
  ModelEvaluationOptions how;
  how.in_sample = true;
  const auto mean = [&](const fs::path& model) {
    return evaluate_model(model, held_out, how).evaluation.overall.mean;
  };
  store_against_any_cpu(folder_.candidate(),
                        {.mean = mean(folder_.candidate()),
                         .any_cpu_mean = mean(shared_),
                         .problems = static_cast<std::uint32_t>(held_out.problems.size())});
}

TuneVerdict OpTune::compare_models(const TableParts& parts) const {
  ModelEvaluationOptions how;
  how.training = parts.training;
  const auto whole = [&] { return evaluate_model(folder_.candidate(), parts.held_out, how); };
  if (installed_.model.empty()) return {whole(), std::nullopt, ""};
  const bool shared = installed_.model == shared_;
  const auto trained = training_sizes(installed_.model);
  const Model model = Model::load(installed_.model, &device_);
  // The shared model saw sizes on other CPUs, which is no advantage to forbid here.
  how.in_sample = shared;
  const MeasurementTable unseen = table_of_problems(parts.held_out, [&](const Problem& problem) {
    return (shared || (trained && !trained->contains(sizes_of(problem)))) &&
           model.family(signature_of(problem));
  });
  if (unseen.problems.size() < (shared ? kMinComparedWithShared : kMinCompared)) {
    const std::string why =
        trained ? fmt::format("only {} problems are new to both models; {} are needed",
                              unseen.problems.size(), shared ? kMinComparedWithShared : kMinCompared)
                : "it does not record which sizes it was trained on";
    TuneVerdict verdict{whole(), std::nullopt,
                        options_.replace ? "" : "whether the new one is better cannot be decided: " + why};
    add_new_layouts(verdict, model, parts);
    return verdict;
  }
  TuneVerdict verdict{evaluate_model(folder_.candidate(), unseen, how),
                      evaluate_model(installed_.model, unseen, how), ""};
  const double is = verdict.candidate.evaluation.overall.mean, was = verdict.before->evaluation.overall.mean;
  if (is < was && !options_.replace)
    verdict.why_not = fmt::format("it is better than the new one: {:.2f} % against {:.2f} % on {} problems",
                                  100 * was, 100 * is, unseen.problems.size());
  for (const Problem& problem : unseen.problems)
    verdict.compared_layouts.insert(signature_of(problem).layout);
  add_new_layouts(verdict, model, parts);
  return verdict;
}

}  // namespace kscout
