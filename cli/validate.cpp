/// \file
/// Implements `kscout validate`: compares a model with existing or new measurements, in four modes.
#include <cmath>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/provider.h>

#include "backend/library/library_backend.h"
#include "compiler_options.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/links.h"
#include "core/names.h"
#include "core/problem_text.h"
#include "dataset/columns.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "evaluate/evaluate.h"
#include "evaluate/evaluate_model.h"
#include "evaluate_report.h"
#include "import/import.h"
#include "op/problem_sets.h"
#include "options.h"
#include "outputs.h"
#include "provider/ck_tile/evaluate/ck_report.h"
#include "sweep/journal.h"
#include "sweep_with_progress.h"
#include "verbs.h"
#include "work_folder.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

enum class Mode : std::uint8_t { oracle, hardware, training_shapes, backward };

}  // namespace

}  // namespace kscout::cli

template <>
struct kscout::EnumWords<kscout::cli::Mode> {
  static constexpr std::string_view what = "mode";
  static constexpr std::array<std::string_view, 4> words = {"oracle", "hardware", "training-shapes",
                                                            "backward"};
};

namespace kscout::cli {

namespace {

struct ValidateOptions {
  Mode mode = Mode::oracle;
  std::string model, data, from, device, predictions, backend = "cpu", library, work;
  Op op = Op::conv_fwd;
  std::string dtype;
  std::vector<std::string> problems;
  std::vector<Layout> layouts;
  std::size_t max_problems = 0, shapes = 5;
  std::uint64_t seed = 42;
  ModelEvaluationOptions how;
  std::string out, ck_out, ck_summary_out;
  bool targets = false, compile = false;
  CompilerOptions compiler;
  std::string kernels;  ///< folder of compiled kernels
  Format format = Format::text;
};

void write_if(const std::string& file, const std::string& text) {
  if (!file.empty()) write_out(file, text);
}

/// Prints criteria as a table, on stderr if stdout holds other output; exit code 1 when one is missed.
void check_criteria(const std::vector<Criterion>& criteria) {
  for (const Criterion& c : criteria)
    fmt::print(stderr, "{}: {} {:.4f}, asked for {}\n", c.met ? "met" : "MISSED", c.what, c.value, c.limit);
  if (!all_met(criteria)) throw CheckFailed{};
}

void report(const ModelEvaluation& e, const ValidateOptions& options) {
  print_evaluation(e, options.format);
  const auto& results = e.evaluation.results;
  write_if(options.out, evaluation_csv(e));
  write_if(options.ck_out, ck_problems_csv(results));
  write_if(options.ck_summary_out, ck_summary_csv(ck_picks(results)));
  if (options.targets) check_criteria(target_criteria(results.front().problem.op(), e.evaluation.overall));
}

// ---- oracle

MeasurementTable read_data(const ValidateOptions& options) {
  if (options.data.empty()) fail(Errc::invalid_argument, "against what? give --data FILE");
  if (options.from.empty()) {
    DatasetOptions how;
    if (!options.device.empty()) how.device = device_named(options.device);
    return read_dataset(options.data, how);
  }
  if (options.device.empty())
    fail(Errc::invalid_argument, "--from: on which device was it measured? give --device");
  ImportRequest request{.from = parse<ImportFormat>(options.from), .op = options.op};
  if (!options.dtype.empty()) request.dtype = parse<DType>(options.dtype);
  request.device = device_named(options.device);
  Imported imported = import_file(options.data, request);
  if (imported.skipped_count > 0)
    fmt::print(stderr, "{}: {} rows skipped (kscout import names them)\n", options.data,
               imported.skipped_count);
  return std::move(imported.table);
}

void validate_predictions(const ValidateOptions& options) {
  const std::string oracle = read_file(options.data);
  if (oracle.starts_with("PAR1")) {
    fail(Errc::invalid_argument,
         "--data {}: is a Parquet file, but beside --predictions it is the oracle's CSV; name the "
         "CSV, or give --model instead of --predictions",
         options.data);
  }
  const CkComparison c =
      compare_ck_tables(oracle, options.data, read_file(options.predictions), options.predictions);
  const std::string summary = ck_summary_csv(c.picks);
  fmt::print("{}", summary);
  if (c.without_pick + c.without_oracle > 0) {
    fmt::print(stderr,
               "{} problems without a prediction (count as 0), {} without a measured kernel (left out)\n",
               c.without_pick, c.without_oracle);
  }
  write_if(options.ck_out, c.problems_csv);
  write_if(options.ck_summary_out, summary);
}

void validate_oracle(const ValidateOptions& options) {
  if (!options.predictions.empty()) return validate_predictions(options);
  report(evaluate_model(options.model, read_data(options), options.how), options);
}

// ---- on hardware

/// Executes configs: a backend of the machine, or a kernel library.
class Executor {
 public:
  explicit Executor(const ValidateOptions& options) {
    if (!options.library.empty()) library_.emplace(read_library_index(options.library));
    request_ = library_ ? library_request(*library_) : PlanRequest{.backend = options.backend};
    backend_ = library_ ? &*library_ : &kscout::backend(options.backend);
  }
  Executor(const Executor&) = delete;  // request_ points to library_
  Executor& operator=(const Executor&) = delete;

  const PlanRequest& request() const noexcept { return request_; }
  const Device& device() const { return backend_->device(); }
  bool executes(std::string_view provider) const { return backend_->executes(provider); }
  bool is_library() const noexcept { return library_.has_value(); }

 private:
  std::optional<LibraryBackend> library_;
  PlanRequest request_;
  Backend* backend_ = nullptr;
};

MeasurementTable measure(const SweepPlan& plan, const ValidateOptions& options) {
  if (plan.pairs() == 0)
    fail(Errc::unsupported, "no requested kernel applies to any of the {} problems", plan.problems.size());
  WorkFolder folder(options.work, "--work", "validate");
  const SweepReport report = sweep_with_progress(plan,
                                                 {.folder = folder.path,
                                                  .worker = default_worker(),
                                                  .batch = options.library.empty() ? 0 : kLibraryBatch},
                                                 "validate");
  if (report.ended == "interrupted") {
    folder.clear();
    end_by_signal();
  }
  MeasurementTable table = read_sweep(folder.path);
  const auto timed = [](const auto& row) { return was_timed(row.measured); };
  if (std::ranges::none_of(table.rows, timed)) {
    const auto reasons = sweep_status(folder.path).reasons;
    fail(Errc::unsupported, "none of the {} kernels to measure ran{}", plan.pairs(),
         reasons.empty() ? "" : "; the first reason: " + reasons.begin()->first);
  }
  return table;
}

/// Rejects a model whose kernels cannot be executed here, before any measuring.
void require_executable(const Model& model, const Executor& executor) {
  if (executor.executes(model.provider())) return;
  fail(Errc::unsupported,
       "the model chooses among kernels of provider '{}' for '{}', which backend '{}' does not execute; give "
       "--backend, or --library with the kernels",
       model.provider(), model.device().name, executor.request().backend);
}

/// Measures the model's own candidates on the requested problems.
void validate_hardware(ValidateOptions options) {
  if (options.problems.empty())
    fail(Errc::invalid_argument, "on which problems? give --problems SET or FILE");
  const Model model = Model::load(options.model);
  const Signature& covered = model.data().families.front().signature;
  const DType dtype = options.dtype.empty() ? covered.dtype_a : parse<DType>(options.dtype);
  auto problems = merge_equal(all_problems_of(options.problems, dtype, options.layouts));
  const Executor executor(options);
  require_executable(model, executor);
  const std::size_t others =
      std::erase_if(problems, [&](const Problem& problem) { return problem.op() != covered.op; });
  if (problems.empty())
    fail(Errc::invalid_argument, "--problems: none of the {} problems is of {}, which the model chooses for",
         others, word(covered.op));
  PlanRequest request = executor.request();
  request.provider = model.provider();
  if (!executor.is_library()) request.rules = model.data().families.front().rules;
  request.max_problems = options.max_problems;
  request.seed = options.seed;
  const SweepPlan plan = make_plan(problems, request, executor.device(), Protocol{});
  options.how.pool = executor.is_library() ? Pool::measured : Pool::family;
  ModelEvaluation evaluation = evaluate_model(options.model, measure(plan, options), options.how);
  evaluation.problems_given += others;
  evaluation.without_family += others;
  report(evaluation, options);
}

// ---- training shapes, measured again

struct ShapePair {
  Problem problem;
  KernelConfig oracle, pick;
  double predicted_tflops;
};

/// Draws problems with enough measured kernels, without replacement. Each gets two kernels: the fastest in
/// the data, and the model's first choice among the same kernels.
std::vector<ShapePair> choose_pairs(const Model& model, const MeasurementTable& table,
                                    const ValidateOptions& options) {
  constexpr std::size_t kMinKernels = 5;
  const auto rows = final_rows(table);
  std::vector<std::uint32_t> eligible;
  for (std::uint32_t p = 0; p < rows.size(); ++p) {
    const auto timed =
        std::ranges::count_if(rows[p], [](const FinalRow& row) { return was_timed(row.measured); });
    if (oracle_of(rows[p]) && timed >= static_cast<std::ptrdiff_t>(kMinKernels)) eligible.push_back(p);
  }
  if (eligible.empty())
    fail(Errc::invalid_argument, "{}: no problem has {} measured kernels", options.data, kMinKernels);
  std::vector<ShapePair> pairs;
  for (const std::uint32_t at : seeded_order(eligible.size(), options.seed)) {
    if (pairs.size() == options.shapes) break;
    const std::uint32_t p = eligible[at];
    const Problem& problem = table.problems[p];
    ConfigTable configs(*table.configs.front().space);
    for (const FinalRow& row : rows[p]) {
      if (was_timed(row.measured)) configs.push_back(table.configs[row.config]);
    }
    const auto scores = model.score_configs(problem, configs);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
    pairs.push_back({problem, table.configs[oracle_of(rows[p])->config], configs[best],
                     model.predicted_tflops(problem, scores)[best]});
  }
  return pairs;
}

/// Plans both kernels of each pair.
SweepPlan plan_of(const std::vector<ShapePair>& pairs, const Model& model, const ValidateOptions& options) {
  const Executor executor(options);
  require_executable(model, executor);
  SweepPlan plan;
  plan.provider = std::string(model.provider());
  plan.op = pairs.front().problem.op();
  plan.backend = executor.request().backend;
  plan.rules = "training-shapes";
  plan.device = executor.device();
  plan.seed = options.seed;
  plan.provenance = host_provenance();
  const auto index_of = [&](const KernelConfig& config) {
    const auto at = std::ranges::find(plan.configs, config);
    const auto index = static_cast<std::uint32_t>(at - plan.configs.begin());
    if (at == plan.configs.end()) plan.configs.push_back(config);
    return index;
  };
  for (const ShapePair& pair : pairs) {
    plan.problems.push_back(pair.problem);
    std::vector<std::uint32_t> both = {index_of(pair.oracle), index_of(pair.pick)};
    std::ranges::sort(both);
    both.erase(std::unique(both.begin(), both.end()), both.end());
    plan.candidates.push_back(both);
  }
  return plan;
}

/// Compiles the kernels of the pairs, which then have complete names. Returns the index of their library.
std::string compile_pairs(std::vector<ShapePair>& pairs, const ValidateOptions& options) {
  std::vector<NamedConfig> kernels;
  for (const ShapePair& pair : pairs) {
    const Signature signature = signature_of(pair.problem);
    kernels.push_back({signature, pair.oracle});
    kernels.push_back({signature, pair.pick});
  }
  const std::filesystem::path index = compile_here(kernels, options.compiler, options.kernels);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].oracle = kernels[2 * i].config;
    pairs[i].pick = kernels[2 * i + 1].config;
  }
  return index.string();
}

void validate_training_shapes(ValidateOptions options) {
  const Model model = Model::load(options.model);
  auto pairs = choose_pairs(model, read_data(options), options);
  if (options.compile) options.library = compile_pairs(pairs, options);
  const MeasurementTable now = measure(plan_of(pairs, model, options), options);
  const auto rows = final_rows(now);
  Table table({"problem", "oracle", "oracle_tflops", "pick", "pick_tflops", "predicted_tflops",
               "predicted_over_measured", "efficiency"});
  double sum = 0;
  for (const ShapePair& pair : pairs) {
    const auto place = std::ranges::find(now.problems, pair.problem);
    const auto speed = [&](const KernelConfig& config) {
      if (place == now.problems.end()) return 0.0;
      for (const FinalRow& row : rows[static_cast<std::size_t>(place - now.problems.begin())]) {
        if (now.configs[row.config] == config && was_timed(row.measured))
          return tflops_of(pair.problem, row.measured);
      }
      return 0.0;  // failed in this run
    };
    const double oracle = speed(pair.oracle), pick = speed(pair.pick);
    const double efficiency = oracle > 0 ? pick / oracle : pick > 0 ? 1.0 : 0.0;
    sum += efficiency;
    const Signature signature = signature_of(pair.problem);
    table.add_row({text(print(pair.problem)), text(config_name(signature, pair.oracle)), number(oracle, 4),
                   text(config_name(signature, pair.pick)), number(pick, 4), number(pair.predicted_tflops, 4),
                   number(pair.predicted_tflops / pick, 3), number(100 * efficiency, 4)});
  }
  table.print(options.format);
  const double mean = 100 * sum / static_cast<double>(pairs.size());
  fmt::print(stderr, "mean efficiency {:.2f} %: {}\n", mean,
             mean >= 95   ? "excellent (95 or more)"
             : mean >= 90 ? "good (90 or more)"
                          : "below 90");
  if (options.targets) check_criteria({above("mean efficiency on training shapes", mean, 95)});
}

// ---- backward models without measurements

void validate_backward(const ValidateOptions& options) {
  const Model model = Model::load(options.model);
  const BackwardCheck check = check_backward(model);
  Table table({"problem", "rank", "config", "predicted_tflops", "gap_percent"});
  for (const auto& line : check.lines) {
    for (std::size_t i = 0; i < line.best.size(); ++i) {
      table.add_row({text(print(line.problem)), number(static_cast<std::int64_t>(i + 1)),
                     text(config_name(signature_of(line.problem), line.best[i])), number(line.tflops[i], 4),
                     i == 0 ? number(100 * line.gap, 3) : number(std::nan(""))});
    }
  }
  table.print(options.format);
  std::string preferred;
  for (const auto& [pipeline, count] : check.pipelines)
    preferred += fmt::format("{}{} {}", preferred.empty() ? "" : ", ", pipeline, count);
  fmt::print(stderr,
             "first choices: predicted TFLOPS mean {:.3g}, least {:.3g}, most {:.3g}; pipelines {}; "
             "first over third {:.1f} %\n",
             check.mean, check.least, check.most, preferred, 100 * check.mean_gap);
}

/// Rejects options of other modes. The help of such an option begins with its modes ("hardware: ...").
void refuse_idle_options(const CLI::App& verb, Mode mode) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string help = option->get_description();
    const std::string modes = help.substr(0, help.find(':'));
    bool of_modes = false, of_this = false;
    for (std::string_view name : split(modes, ',')) {
      if (name.starts_with(' ')) name.remove_prefix(1);
      of_modes = of_modes || find_word(name, EnumWords<Mode>::words);
      of_this = of_this || name == word(mode);
    }
    if (option->count() > 0 && of_modes && !of_this)
      fail(Errc::invalid_argument, "{}: is for --mode {}; leave it out with --mode {}", option->get_name(),
           modes, word(mode));
  }
}

void validate(const ValidateOptions& options) {
  if (options.model.empty() && options.predictions.empty())
    fail(Errc::invalid_argument,
         "which model? give --model FOLDER, or --predictions FILE beside an oracle CSV");
  options.compiler.refuse_unless(options.compile, "--compile");
  switch (options.mode) {
    case Mode::oracle:
      return validate_oracle(options);
    case Mode::hardware:
      return validate_hardware(options);
    case Mode::training_shapes:
      return validate_training_shapes(options);
    case Mode::backward:
      return validate_backward(options);
  }
}

}  // namespace

void setup_validate(CLI::App& verb) {
  const auto options = std::make_shared<ValidateOptions>();
  add_word_option(verb, "--mode", options->mode, "what to evaluate the model against");
  reads_file(verb.add_option("--model", options->model, "model folder or .ksf file"));
  reads_file(
      verb.add_option("--data", options->data,
                      "oracle, training-shapes: a dataset, or with --from a file of the CK Tile tools"));
  check_words<ImportFormat>(
      verb.add_option("--from", options->from,
                      "what --data is: ck-csv|ck-log|ck-json|ck-profiler|parquet (default: a dataset)"));
  add_word_option(verb, "--op", options->op, "with --from: the operation");
  check_words<DType>(verb.add_option(
      "--dtype", options->dtype,
      "element type, where --from does not tell (fp16) or for sets of --problems (the model's)"));
  verb.add_option("--device", options->device, "with --from, or CSV: the device that was measured");
  reads_file(verb.add_option(
      "--predictions", options->predictions,
      "oracle: a CSV of predictions (problem_idx, kernel_name, rank) instead of a model; --data is then an "
      "oracle CSV with problem_idx"));
  add_word_option(verb, "--pool", options->how.pool, "oracle: where picks come from");
  verb.add_flag("--in-sample", options->how.in_sample, "evaluate also sizes that the model was trained on");
  verb.add_option("--backend", options->backend, "hardware, training-shapes: backend that executes")
      ->capture_default_str();
  auto* library = reads_file(
      verb.add_option("--library", options->library,
                      "hardware, training-shapes: execute the kernels of a library, by its index file"));
  auto* compile = verb.add_flag("--compile", options->compile,
                                "training-shapes: generate and compile the kernels (ck_tile, cutlass) first");
  compile->excludes(library);
  verb.add_option("--kernels", options->kernels,
                  "training-shapes: folder of the sources and the library of --compile")
      ->default_str("in $XDG_CACHE_HOME/kscout, else ~/.cache/kscout")
      ->needs(compile);
  options->compiler.add_to(verb);
  reads_file(verb.add_option("--problems", options->problems,
                             "hardware: sets or files; problems of other operations are left out"));
  add_layouts_option(verb, options->layouts, "hardware: ");
  verb.add_option("--max-problems", options->max_problems,
                  "hardware: max problems, the first of the seeded order; 0 = all")
      ->capture_default_str();
  verb.add_option("--shapes", options->shapes, "training-shapes: number of problems to measure again")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  verb.add_option("--seed", options->seed, "of what is drawn")->capture_default_str();
  verb.add_option(
      "--work", options->work,
      "hardware, training-shapes: folder of the sweep; kept, and the same command goes on from it");
  add_out_option(verb, "--out", options->out, "write the problems, one a line, as CSV");
  add_out_option(verb, "--ck-out", options->ck_out,
                 "write the same CSV in the columns of the public CK Tile tools");
  add_out_option(verb, "--ck-summary-out", options->ck_summary_out,
                 "write metric,value as CSV, with the public tools' words and definitions");
  verb.add_flag("--targets", options->targets,
                "exit 1 unless the public tools' target metrics of the operation are met");
  add_format_option(verb, options->format);
  verb.footer(
      "examples\n"
      "  kscout validate --model models/conv_fwd_bf16_gfx950 --data other.parquet --targets --out new.csv\n"
      "  kscout validate --model M --data oracle.csv --from ck-csv --op conv_fwd --device gfx950\n"
      "  kscout validate --mode hardware --model models/gemm_fp32_any_cpu --problems smoke\n"
      "  kscout validate --mode hardware --model M --library ck.kscout-library.json --problems convs.csv\n"
      "  kscout validate --mode training-shapes --model M --data train.parquet\n"
      "  kscout validate --mode training-shapes --model M --data train.parquet --compile --ck-root ck\n"
      "  kscout validate --mode backward --model models/conv_bwd_data_bf16_gfx950\n\n"
      "exit status: 0 done, 1 a target is missed, 2 wrong arguments or nothing to evaluate, 3 nothing can "
      "run "
      "here, "
      "4 file or device failure");
  verb.callback([options, &verb] {
    refuse_idle_options(verb, options->mode);
    validate(*options);
  });
}

}  // namespace kscout::cli
