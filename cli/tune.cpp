/// \file
/// Implements `kscout tune`, which does all steps for this machine. Sweeps a family within a time budget,
/// trains a model on all measurements so far, evaluates it on held-out problems, and installs it where it is
/// not worse than the previous model.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kscout/selector.h>

#include "core/device_facts.h"
#include "core/fail.h"
#include "core/json_fields.h"
#include "core/part_name.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "evaluate/evaluate_model.h"
#include "evaluate_report.h"
#include "family/family_file.h"
#include "features/schema.h"
#include "options.h"
#include "problems/problem_sets.h"
#include "progress_line.h"
#include "sibling.h"
#include "sweep/journal.h"
#include "sweep/sweep.h"
#include "sweep_with_progress.h"
#include "train/train.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

/// Short limits, because more problems are worth more than less noise per problem.
constexpr Protocol kThrifty{.contenders = 24, .rounds = 10, .rounds_budget_us = 5e4};

/// Seed of the hash that holds problems out. --seed does not change these problems. A smaller --held-out
/// releases some, and new models train on them. Models are compared on problems that neither was trained on.
constexpr std::uint64_t kHeldOutSeed = 1751477348;
/// Min common problems of two models; fewer do not show which model is better.
constexpr std::size_t kMinCompared = 10;

struct TuneOptions {
  double budget_s = 120, held_out = 0.3, max_gflop = 0;
  std::string rules = "default", out, schema = "gemm";
  std::vector<std::string> layouts = {"rcr", "rrr"};
  std::vector<std::string> targets = {"relative", "tflops"};
  std::uint32_t folds = 4;
  std::uint64_t seed = 1;
  bool replace = false, restart = false;
  Format format = Format::text;

  std::vector<Layout> parsed_layouts() const {
    std::vector<Layout> parsed;
    for (const auto& name : layouts) parsed.push_back(parse<Layout>(name));
    return parsed;
  }
};

/// Limits the problem sizes of a sweep, so that the budget allows a hundred problems or more: running a
/// config on the largest problem takes about 1/2000 of a short budget.
struct SweepSize {
  double gflop, bytes;
};
SweepSize sweep_size(const TuneOptions& options) {
  const double minutes = options.budget_s / 60;
  const double gflop = options.max_gflop > 0 ? options.max_gflop : std::clamp(0.2 * minutes, 0.1, 20.0);
  return {gflop, std::clamp(24e6 * minutes, 16e6, 1e9)};
}

/// Random sizes and shapes of language models that have not been measured, as many as the budget could ever
/// measure. The sweep takes them in a seeded order and stops when the time is over.
std::vector<Problem> problems_to_measure(const TuneOptions& options,
                                         const std::unordered_set<Problem>& measured) {
  const SweepSize largest = sweep_size(options);
  const auto count =
      static_cast<std::size_t>(std::clamp(options.budget_s * 4, 40.0, 4000.0)) + measured.size();
  std::vector<Problem> problems;
  for (const char* set : {"random", "llm"}) {
    const bool random = std::string_view(set) == "random";
    const auto some = make_problem_set({.set = set,
                                        .layouts = options.parsed_layouts(),
                                        .max_gflop = largest.gflop,
                                        .max_bytes = largest.bytes,
                                        .count = random ? count : count / 3,
                                        .seed = options.seed});
    problems.insert(problems.end(), some.begin(), some.end());
  }
  problems = merge_equal(problems);
  std::erase_if(problems, [&](const Problem& problem) { return measured.contains(problem); });
  return problems;
}

// ---- Existing state: the model that is installed for this machine, and measurements.

/// A folder beside the model's. It holds one folder per sweep whose measurements no installed model contains
/// yet, and the model that was not installed. One tune at a time uses it.
class TuneFolder {
 public:
  explicit TuneFolder(const fs::path& model) : path_(fs::path(model).concat(".sweep")) {
    const bool had_lock = fs::exists(path_ / kLock);
    // Another tune that ends removes its lock file, perhaps after this one has opened it. A lock on a removed
    // file excludes nobody, so the file is opened again.
    do {
      if (lock_ >= 0) close(lock_);
      open_lock();
      if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
        fail(Errc::device_failure, "another kscout tune works on {}: wait for it, or give another --out",
             model.string());
      }
    } while (!lock_is_there());
    if (const fs::path other = foreign_entry(); !other.empty()) {
      if (!had_lock) fs::remove(path_ / kLock);
      fail(Errc::invalid_argument,
           "{} is where kscout tune measures, but it holds {}: move that, or give another --out",
           path_.string(), other.lexically_relative(path_).string());
    }
  }
  ~TuneFolder() {
    if (lock_is_there() && holds_only_the_lock()) remove_lock();  // nothing was measured
    close(lock_);
  }
  TuneFolder(const TuneFolder&) = delete;
  TuneFolder& operator=(const TuneFolder&) = delete;

  const fs::path& path() const { return path_; }
  fs::path candidate() const { return path_ / "model"; }

  /// Folders of sweeps, in the order of their names. Earlier versions measured into this folder itself.
  std::vector<fs::path> sweeps() const {
    std::vector<fs::path> found;
    if (fs::exists(path_ / kManifestName)) found.push_back(path_);
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (fs::exists(entry.path() / kManifestName)) found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
  }
  fs::path new_sweep() const {
    for (int number = 1;; ++number) {
      if (const fs::path folder = path_ / std::to_string(number); !fs::exists(folder)) return folder;
    }
  }
  /// Removes the sweeps and the model that was not installed. Returns whether there were any.
  bool clear() const {
    bool any = remove_sweep(path_);
    for (const auto& entry : entries(path_)) {
      if (is_number(entry)) {
        any |= remove_sweep(entry);
        if (fs::is_empty(entry)) any |= fs::remove(entry);
      } else if (is_model(entry)) {
        any |= fs::remove_all(entry) > 0;
      }
    }
    return any;
  }
  void remove() const {
    clear();
    remove_lock();
  }

 private:
  static constexpr const char* kLock = "lock";

  void open_lock() {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error)
      fail(Errc::device_failure, "{}: cannot create the folder: {}", path_.string(), error.message());
    lock_ = open((path_ / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0)
      fail(Errc::device_failure, "{}: cannot write there: {}", path_.string(), std::strerror(errno));
  }
  bool holds_only_the_lock() const {
    std::error_code ignored;
    std::size_t count = 0;
    for (fs::directory_iterator entry(path_, ignored), end; entry != end; entry.increment(ignored)) ++count;
    return count == 1;
  }
  /// Removes the lock, and the folder when it is then empty.
  void remove_lock() const {
    std::error_code in_use;  // used by another tune, or contains foreign files
    fs::remove(path_ / kLock, in_use);
    fs::remove(path_, in_use);
  }
  /// Whether the locked file still has its name.
  bool lock_is_there() const {
    struct stat locked {
    }, named{};
    return fstat(lock_, &locked) == 0 && stat((path_ / kLock).c_str(), &named) == 0 &&
           locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
  }

  static std::vector<fs::path> entries(const fs::path& folder) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
    return found;
  }
  static bool is_sweep_part(const fs::path& entry) {
    return fs::is_regular_file(entry) && is_sweep_file(entry.filename().string());
  }
  static bool is_number(const fs::path& entry) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    return fs::is_directory(fs::symlink_status(entry)) &&
           std::ranges::all_of(entry.filename().string(), digit);
  }
  /// Whether an entry is the model that was not installed, finished or not.
  static bool is_model(const fs::path& entry) {
    const std::string name = entry.filename().string();
    if (!fs::is_directory(fs::symlink_status(entry)) || finished_name(name) != "model") return false;
    return name != "model" || fs::is_empty(entry) || fs::exists(entry / "model.ksf");
  }
  static bool remove_sweep(const fs::path& folder) {
    bool any = false;
    for (const fs::path& file : entries(folder)) any |= is_sweep_part(file) && fs::remove(file);
    return any;
  }
  /// An entry that tune did not create; empty when there is none.
  fs::path foreign_entry() const {
    for (const fs::path& entry : entries(path_)) {
      if (is_number(entry)) {
        for (const fs::path& file : entries(entry)) {
          if (!is_sweep_part(file)) return file;
        }
      } else if (entry.filename() == kLock) {
        if (!fs::is_regular_file(entry) || !fs::is_empty(entry)) return entry;
      } else if (!is_sweep_part(entry) && !is_model(entry)) {
        return entry;
      }
    }
    return {};
  }

  fs::path path_;
  int lock_ = -1;
};

/// Why rows of a table cannot be trained on together with new ones; empty when they can.
std::string foreign(const MeasurementTable& table, const TuneOptions& options, const Device& device) {
  if (const std::string why = device_difference(table.device, device); !why.empty())
    return "was measured on another device: " + why;
  const auto rules = table.metadata.find("rules");
  const std::string named = rules == table.metadata.end() ? "" : rules->second;
  if (named != rules_name(options.rules))
    return fmt::format("is of rule set '{}', not '{}'", named, rules_name(options.rules));
  return {};
}

/// Measurements of earlier sweeps that no installed model contains.
std::vector<MeasurementTable> read_tune_folder(const TuneFolder& tune_folder, const TuneOptions& options,
                                               const Device& device) {
  std::vector<MeasurementTable> tables;
  for (const fs::path& folder : tune_folder.sweeps()) {
    const auto remedy = "give --restart to measure without it, or another --out";
    try {
      MeasurementTable table = read_sweep(folder);
      if (table.rows.empty()) continue;
      if (const std::string why = foreign(table, options, device); !why.empty())
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

/// The installed model of this machine, and the data that a replacement needs.
struct Installed {
  fs::path model;  ///< empty: none
  std::optional<MeasurementTable> measurements;
};

Installed find_installed(const fs::path& target, const TuneOptions& options, const Device& device) {
  Installed installed;
  if (fs::exists(target / "model.ksf")) {
    installed.model = target;
  } else if (options.out.empty()) {
    installed.model = find_model(Op::gemm, DType::fp32, device).value_or(fs::path());
  }
  if (installed.model.empty()) return installed;
  if (const fs::path kept = installed.model / kKeptMeasurements; fs::exists(kept)) {
    MeasurementTable table = read_dataset(kept);
    if (const std::string why = foreign(table, options, device); why.empty()) {
      installed.measurements = std::move(table);
    } else {
      fmt::print(stderr, "kscout tune: {} is not used: it {}\n", kept.string(), why);
    }
  }
  return installed;
}

/// Rejects options that make the new model incomparable with the installed one, before measuring.
void check_comparable(const Installed& installed, const TuneOptions& options, const Device& device,
                      const std::set<Layout>& layouts) {
  if (installed.model.empty() || options.replace) return;
  const Model model = Model::load(installed.model);
  const auto refuse = [&](const std::string& why) {
    fail(Errc::invalid_argument,
         "{} {}: whether a new model is better cannot be decided; give --replace to install the new one "
         "anyway, or another --out",
         installed.model.string(), why);
  };
  if (model.device().name != device.name)
    refuse(fmt::format("is of device '{}', not '{}'", model.device().name, device.name));
  for (const Family& family : model.data().families) {
    if (rules_name(family.rules) != rules_name(options.rules))
      refuse(fmt::format("chooses among rule set '{}', not '{}'", family.rules, rules_name(options.rules)));
    if (!layouts.contains(family.signature.layout))
      refuse(fmt::format("knows layout {}, which --layout leaves out", word(family.signature.layout)));
  }
}

std::unordered_set<Problem> problems_of_all(const std::vector<MeasurementTable>& tables) {
  std::unordered_set<Problem> problems;
  for (const MeasurementTable& table : tables) {
    for (const auto& row : table.rows) problems.insert(table.problems[row.problem]);
  }
  return problems;
}

// ---- The work.

/// Checks the arguments before any measuring.
void check_tune_arguments(const TuneOptions& options) {
  if (!(options.budget_s >= 1))
    fail(Errc::invalid_argument, "--budget {}: seconds, 1 or more", options.budget_s);
  if (!(options.max_gflop >= 0)) fail(Errc::invalid_argument, "--max-gflop {}: 0 or more", options.max_gflop);
  if (!(options.held_out >= 0.05))
    fail(Errc::invalid_argument, "--held-out {}: a share of 0.05 to 0.9", options.held_out);
  for (const Layout layout : options.parsed_layouts()) {
    if (is_gemm_layout(layout)) continue;
    fail(Errc::invalid_argument, "--layout {}: tune measures GEMMs, whose layouts are {}", word(layout),
         fmt::join(kGemmLayoutWords, ", "));
  }
  check_rules("native", Op::gemm, options.rules);
  const Schema schema = Schema::find(options.schema);
  if (schema.data().op != Op::gemm ||
      !(schema.data().provider.empty() || schema.data().provider == "native")) {
    fail(Errc::invalid_argument, "--schema {}: it is of {} {}; tune measures GEMMs of provider native",
         options.schema, word(schema.data().op),
         schema.data().provider.empty() ? "problems" : "kernels of provider " + schema.data().provider);
  }
}

SweepReport sweep_for(const TuneOptions& options, const SweepPlan& plan, const fs::path& folder) {
  fmt::print(stderr, "kscout tune: {} configs of rule set '{}', {} problems to draw from, {:.0f} s\n",
             plan.configs.size(), options.rules, plan.problems.size(), options.budget_s);
  return sweep_with_progress(
      plan, {.folder = folder, .worker = default_worker(), .budget_s = options.budget_s}, "tune");
}

std::size_t sizes_in(const MeasurementTable& table) {
  std::set<ProblemSizes> sizes;
  for (const Problem& problem : table.problems) sizes.insert(sizes_of(problem));
  return sizes.size();
}

[[noreturn]] void end_interrupted(const fs::path& kept) {
  fmt::print(stderr,
             "\n"
             "kscout tune: what was measured is kept in {}; the next kscout tune continues from it, with any "
             "options but another --rules\n",
             kept.string());
  end_by_signal();
  std::abort();  // the signal that ends this process has just been raised
}

TrainingResult train_on(const MeasurementTable& training, const TuneOptions& options, const fs::path& kept) {
  TrainOptions train_options;
  train_options.folds = static_cast<std::uint32_t>(std::min<std::size_t>(options.folds, sizes_in(training)));
  if (train_options.folds < options.folds)
    fmt::print(stderr, "kscout tune: {} folds, one for each size that was measured\n", train_options.folds);
  train_options.targets.clear();
  for (const auto& name : options.targets) train_options.targets.push_back(parse<Target>(name));
  ProgressLine line("tune");
  const MeasurementTable tables[] = {training};
  return train(tables, families_of(tables, options.rules),
               std::make_shared<Schema>(Schema::find(options.schema)), train_options,
               [&](const std::string& text) {
                 if (signal_came()) end_interrupted(kept);
                 line(text);
               });
}

/// The evaluation of both models on the problems that neither was trained on.
struct Verdict {
  ModelEvaluation candidate;
  std::optional<ModelEvaluation>
      before;           ///< nothing without an installed model, or when it cannot be evaluated
  std::string why_not;  ///< why the candidate is not installed; empty when it is installed
};

Verdict compare_models(const TuneFolder& tune_folder, const Installed& installed, const TableParts& parts,
                       const TuneOptions& options) {
  ModelEvaluationOptions how;
  how.training = parts.training;
  const auto whole = [&] { return evaluate_model(tune_folder.candidate(), parts.held_out, how); };
  if (installed.model.empty()) return {whole(), std::nullopt, ""};
  const auto trained = training_sizes(installed.model);
  const Model model = Model::load(installed.model);
  const MeasurementTable unseen = table_of_problems(parts.held_out, [&](const Problem& problem) {
    return trained && !trained->contains(sizes_of(problem)) && model.family(signature_of(problem));
  });
  if (unseen.problems.size() < kMinCompared) {
    const std::string why = trained ? fmt::format("only {} problems are new to both models; {} are needed",
                                                  unseen.problems.size(), kMinCompared)
                                    : "it does not record which sizes it was trained on";
    return {whole(), std::nullopt,
            options.replace ? "" : "whether the new one is better cannot be decided: " + why};
  }
  Verdict verdict{evaluate_model(tune_folder.candidate(), unseen, how),
                  evaluate_model(installed.model, unseen, how), ""};
  const double is = verdict.candidate.evaluation.overall.mean, was = verdict.before->evaluation.overall.mean;
  if (is < was && !options.replace)
    verdict.why_not = fmt::format("it is better than the new one: {:.2f} % against {:.2f} % on {} problems",
                                  100 * was, 100 * is, unseen.problems.size());
  return verdict;
}

/// The model's results beside its baselines.
Table results_table(const Verdict& verdict) {
  Table table({"% of the fastest measured config", "mean", "p10", "worst"});
  const auto add = [&](std::string_view who, const Summary& s) {
    const auto percent = [](double share) { return Cell{fmt::format("{:.1f}", 100 * share), false}; };
    table.add_row({text(who), percent(s.mean), percent(s.p10), percent(s.min)});
  };
  add("model", verdict.candidate.evaluation.overall);
  if (verdict.before) add("model before", verdict.before->evaluation.overall);
  for (const Baseline& baseline : verdict.candidate.baselines) {
    if (baseline.name == "best static") add("best fixed config", baseline.summary);
    if (baseline.name == "analytic model") add(baseline.name, baseline.summary);
  }
  return table;
}

struct Done {
  SweepReport report;
  fs::path target, before;  ///< folder to install to; folder of the model used so far
  std::size_t new_problems = 0;
  MeasurementTable measured = {};
  TableParts parts = {};
  Verdict verdict = {};
};

/// Prints a dozen lines for people; the last is the command that prints the rest.
void print_summary(const TuneOptions& options, const Done& done, const TuneFolder& tune_folder) {
  const std::size_t training = done.parts.training.problems.size(),
                    held_out = done.parts.held_out.problems.size();
  const ModelEvaluation& evaluation = done.verdict.candidate;
  fmt::print("measured   {} problems, {} configs of rule set '{}', {} rows in {:.0f} s{}, on {}\n",
             training + held_out, done.measured.configs.size(), options.rules, done.measured.rows.size(),
             done.report.progress.elapsed_s,
             done.new_problems < training + held_out
                 ? fmt::format(" and before ({} problems are new)", done.new_problems)
                 : "",
             done.measured.device.name);
  const std::size_t evaluated = evaluation.evaluation.results.size();
  fmt::print("trained    on {} problems (target {}), evaluated on {} held-out problem{}\n\n", training,
             evaluation.target, evaluated, evaluated == 1 ? "" : "s");
  results_table(done.verdict).print(Format::text);
  fs::path shown = done.target;
  if (done.verdict.why_not.empty()) {
    fmt::print("\ninstalled  {}{}\n", done.target.string(),
               options.out.empty() ? "" : " (name it to run and predict with --model)");
    if (done.before == done.target) fmt::print("before     {}\n", (done.target / kPreviousModel).string());
  } else {
    shown = tune_folder.candidate();
    fmt::print("\nkept       {}: {}\n", done.before.string(), done.verdict.why_not);
    fmt::print("new        {} (--replace installs; a later tune trains on these measurements, too)\n",
               shown.string());
  }
  fmt::print("evaluate   {} evaluate --model {}\n", shell_word(program_invocation_name),
             shell_word(shown.string()));
}

/// Prints the evaluation, and whether the model was installed.
void print_json(const Done& done, const TuneFolder& tune_folder) {
  Json json = Json::parse(evaluation_json(done.verdict.candidate));
  const bool installed = done.verdict.why_not.empty();
  json["model"] = (installed ? done.target : tune_folder.candidate()).string();
  json["installed"] = installed;
  json["why_not_installed"] = installed ? Json(nullptr) : Json(done.verdict.why_not);
  json["model_before"] = nullptr;
  if (!done.before.empty()) {
    const bool moved = installed && done.before == done.target;
    const auto& evaluation = done.verdict.before;
    json["model_before"] = {
        {"model", (moved ? done.target / kPreviousModel : done.before).string()},
        {"efficiency_mean", evaluation ? Json(100 * evaluation->evaluation.overall.mean) : Json(nullptr)}};
  }
  fmt::print("{}\n", json.dump(2));
}

void check_enough(const TableParts& parts) {
  const std::size_t training = sizes_in(parts.training), held_out = sizes_in(parts.held_out);
  if (training >= 2 && held_out >= 1) return;
  fail(Errc::invalid_argument,
       "too little was measured: {} sizes to train on and {} to evaluate on, at least 2 and 1 are needed; "
       "the measurements are kept, and the same command adds more",
       training, held_out);
}

void tune_verb(const TuneOptions& options) {
  check_tune_arguments(options);
  const Device device = detect_cpu();
  const fs::path target = real_model_folder(
      options.out.empty() ? user_model_folder() / model_folder_name(Op::gemm, DType::fp32, device)
                          : fs::path(options.out));
  check_model_folder(target);
  default_worker();
  const TuneFolder tune_folder(target);
  if (options.restart && tune_folder.clear())
    fmt::print(stderr, "kscout tune: removed the measurements in {}\n", tune_folder.path().string());

  std::vector<MeasurementTable> tables = read_tune_folder(tune_folder, options, device);
  const Installed installed = find_installed(target, options, device);
  if (!tables.empty())
    fmt::print(stderr, "kscout tune: continues from {} problems in {} (--restart removes them)\n",
               problems_of_all(tables).size(), tune_folder.path().string());
  if (installed.measurements) tables.insert(tables.begin(), *installed.measurements);
  std::set<Layout> layouts;
  for (const Layout layout : options.parsed_layouts()) layouts.insert(layout);
  const std::unordered_set<Problem> known = problems_of_all(tables);
  for (const Problem& problem : known) layouts.insert(signature_of(problem).layout);
  check_comparable(installed, options, device, layouts);
  const SweepPlan plan = make_plan(problems_to_measure(options, known),
                                   {.rules = options.rules, .seed = options.seed}, device, kThrifty);

  const fs::path sweep_folder = tune_folder.new_sweep();
  Done done{.report = sweep_for(options, plan, sweep_folder), .target = target, .before = installed.model};
  if (done.report.ended == "interrupted") end_interrupted(tune_folder.path());
  tables.push_back(read_sweep(sweep_folder));
  done.new_problems = problems_of_all({tables.back()}).size();
  // Rows may be in both the installed model and a sweep, if a tune was killed after installing.
  done.measured = merge(tables, Keep::last);
  done.parts = split_table(done.measured, options.held_out, kHeldOutSeed);
  check_enough(done.parts);

  const TrainingResult trained = train_on(done.parts.training, options, tune_folder.path());
  write_model_folder(tune_folder.candidate(), trained,
                     {.data_files = {std::string(kKeptMeasurements)},
                      .metadata = done.measured.metadata,
                      .data_rows = done.parts.training.rows.size()});
  write_dataset(tune_folder.candidate() / kKeptMeasurements, done.measured);
  done.verdict = compare_models(tune_folder, installed, done.parts, options);
  if (done.verdict.why_not.empty()) {
    install_model_folder(tune_folder.candidate(), target);
    tune_folder.remove();
    done.verdict.candidate.model = target.string();
  }
  switch (options.format) {
    case Format::text:
      return print_summary(options, done, tune_folder);
    case Format::json:
      return print_json(done, tune_folder);
    case Format::csv:
      return print_evaluation(done.verdict.candidate, options.format);
  }
}

}  // namespace

void setup_tune(CLI::App& verb) {
  const auto options = std::make_shared<TuneOptions>();
  verb.add_option("--budget", options->budget_s, "seconds to measure; training and evaluation come on top")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
  verb.add_option("--rules", options->rules, "rule set to choose from")->capture_default_str();
  check_gemm_layouts(verb.add_option("--layout", options->layouts, "layouts to measure, comma-separated")
                         ->delimiter(',')
                         ->default_str("rcr,rrr"));
  check_words<Target>(
      verb.add_option("--targets", options->targets,
                      "what to learn: tflops|latency|bandwidth|relative|rank, comma-separated")
          ->delimiter(',')
          ->default_str("relative,tflops"));
  verb.add_option("--folds", options->folds, "cross-validation folds over problem sizes")
      ->capture_default_str()
      ->check(CLI::Range(2, 20));
  verb.add_option("--held-out", options->held_out,
                  "share of the sizes held out for the evaluation; a smaller share than before releases some "
                  "to training")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 0.9));
  verb.add_option("--max-gflop", options->max_gflop, "leave larger problems out; 0 = what the budget affords")
      ->capture_default_str();
  verb.add_option("--schema", options->schema, "feature schema")->capture_default_str();
  verb.add_option("--seed", options->seed, "seed of problems and their order")->capture_default_str();
  verb.add_flag("--replace", options->replace, "install the new model even if it is worse");
  verb.add_flag("--restart", options->restart,
                "remove what was measured since a model was last installed; without it, every tune continues "
                "from there");
  verb.add_option("--out", options->out,
                  "model folder (default: the user's models, where run and predict look)");
  add_format_option(verb, options->format, false);
  verb.footer(
      "Measurements add up: a later tune measures other problems and trains on all. The new model is "
      "installed\n"
      "where run and predict find it, if it is at least as good as the model that is used there now, on "
      "problems\n"
      "that neither was trained on; the model before it is kept in the folder, under previous. Ctrl-C keeps "
      "what was\n"
      "measured. The measurements stay in the model's folder, so that kscout evaluate --model FOLDER prints "
      "the\n"
      "full evaluation.\n"
      "\n"
      "Example:\n"
      "  kscout tune --budget 60");
  verb.callback([options] { tune_verb(*options); });
}

}  // namespace kscout::cli
