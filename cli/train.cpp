#include "train/train.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "dataset/compact_table.h"
#include "evaluate/reference_problems.h"
#include "features/schema.h"
#include "measure/timing.h"
#include "op/problem_sets.h"
#include "options.h"
#include "outputs.h"
#include "progress_line.h"
#include "provider/ck_tile/ck_tile.h"
#include "sweep_with_progress.h"
#include "table.h"
#include "train/checkpoint.h"
#include "train/timings.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct TrainArguments {
  std::vector<std::string> data, db;
  std::string out, schema, rules, op, variant;
  bool any_cpu = false, fold_by_given = false, folds_given = false;
  std::vector<std::string> features, exclude;
  std::vector<std::string> targets;
  std::vector<Epilogue> epilogues;
  double handicap_percent = 6;
  TrainOptions train;
  Format format = Format::text;
};

/// Prints, per device, choices beside those that need no training.
void print_devices(const TrainingResult& result, Format format) {
  Table table({"device", "cpu", "problems", "mean", "p10", "min", "analytic_mean", "analytic_p10",
               "best_fixed_mean", "best_fixed_p10"});
  for (const DeviceResult& of : result.devices) {
    table.add_row({text(of.device.name), text(cpu_of(of.device)),
                   number(static_cast<std::int64_t>(of.model.problems)), number(100 * of.model.mean, 4),
                   number(100 * of.model.p10, 4), number(100 * of.model.min, 4),
                   number(100 * of.analytic.mean, 4), number(100 * of.analytic.p10, 4),
                   number(100 * of.best_fixed.mean, 4), number(100 * of.best_fixed.p10, 4)});
  }
  table.print(format);
}

void print_summary(const TrainingResult& result, Format format) {
  Table table({"target", "trees", "efficiency_mean", "efficiency_p10", "efficiency_p50", "efficiency_min",
               "default"});
  for (std::size_t i = 0; i < result.targets.size(); ++i) {
    const TrainedTarget& target = result.targets[i];
    const EfficiencySummary& e = target.validation.efficiency;
    table.add_row({text(word(target.target)), number(std::int64_t{target.validation.rounds}),
                   number(100 * e.mean, 4), number(100 * e.p10, 4), number(100 * e.p50, 4),
                   number(100 * e.min, 4), flag(i == 0)});
  }
  table.print(format);
}

/// The schema with the requested features, and with the features of the problem alone, from which the speed
/// of its best config is predicted.
std::shared_ptr<const Schema> chosen_schema(TrainArguments& options, Op op, const CompactTable& data) {
  const std::string_view provider =
      data.configs.empty() ? std::string_view("native") : data.configs.front().space->provider;
  const std::string name =
      !options.schema.empty() ? options.schema
                              : std::string(options.any_cpu ? any_cpu_schema(op)
                                                            : default_schema(op, provider, data.device.kind));
  const Schema whole = Schema::named(name).for_op(op);
  if (options.features.empty()) return std::make_shared<Schema>(whole);
  std::vector<std::uint32_t> positions;
  std::set<std::size_t> scored;
  for (const auto& feature : options.features) scored.insert(whole.index(feature));
  for (std::uint32_t i = 0; i < whole.size(); ++i) {
    const bool level = whole.depends(i).problem_only();
    if (scored.contains(i) || level) positions.push_back(i);
    if (level && !scored.contains(i)) options.train.parameters.unscored.push_back(whole.features()[i].id);
  }
  return std::make_shared<Schema>(whole.only(positions));
}

/// Drops the problems of a file or a set, whatever their types: they are held out. With
/// `asked` (--exclude), "0 problems" is reported, too.
void leave_out(const std::string& source, std::vector<CompactTable>& tables, bool asked) {
  std::set<ProblemSizes> sizes;
  const Operation* const of = operation_of_set(source);
  const auto problems = of ? of->named_set(source, DType::fp32, {}) : read_any_problems(source);
  for (const Problem& problem : problems) sizes.insert(sizes_of(problem));
  std::size_t dropped = 0;
  for (CompactTable& table : tables) {
    table.keep_problems([&](const Problem& problem) {
      const bool keep = !sizes.contains(sizes_of(problem));
      dropped += !keep;
      return keep;
    });
  }
  if (dropped != 0 || asked)
    fmt::print(stderr, "{}: {} problems left out of the training\n", source, dropped);
}

/// Problems that the public models of an op are validated on; held out of training by default.
std::vector<std::string> usual_exclusions(Op op) {
  const auto sets = operation(op).validation_sets;
  return {sets.begin(), sets.end()};
}

/// Holds the finished targets during training.
std::filesystem::path checkpoint_folder(const TrainArguments& options) {
  return real_model_folder(options.out).concat(".train");
}

/// Limits threads to the number of processors: more would only wait for each other.
void cap_threads(int& threads) {
  const int processors = static_cast<int>(allowed_cpus().size());
  if (threads <= processors) return;
  fmt::print(stderr, "--threads {}: this process may use {} processor{}, so many threads are used\n", threads,
             processors, processors == 1 ? "" : "s");
  threads = processors;
}

/// Checks the text, because a negative number is no value of the option's type.
void check_folds(const std::string& text) {
  if (std::strtod(text.c_str(), nullptr) < 2)
    fail(Errc::invalid_argument, "--folds {}: cross-validation takes 2 or more", text);
}

/// Checks that need no data, so they run before the data are read.
void check_arguments(const TrainArguments& options) {
  if (!options.schema.empty()) Schema::named(options.schema);
  check_model_folder(options.out);
  check_checkpoint_folder(checkpoint_folder(options));
}

/// Shows progress, and ends the program after a signal; finished targets are kept.
Progress progress_or_end(ProgressLine& line, const std::filesystem::path& kept) {
  return [&line, kept](const std::string& text) {
    if (signal_came()) {
      fmt::print(stderr, "\nkscout train: stopped; {}; the same command {}\n",
                 std::filesystem::exists(kept) ? "what is finished is kept in " + kept.string()
                                               : "no target was finished yet",
                 std::filesystem::exists(kept) ? "goes on from there" : "begins anew");
      end_by_signal();
    }
    line(text);
  };
}

std::string_view provider_of(const CompactTable& table) {
  return table.configs.empty() ? std::string_view() : table.configs.front().space->provider;
}

std::string_view operation_of(const CompactTable& table) {
  return table.problems.empty() ? std::string_view() : problem_space(table.problems.front().op()).operation;
}

/// Makes one family of a joint provider's and its members' datasets. Throws invalid_argument for datasets
/// that no single model can choose from, naming two files.
void join(std::vector<CompactTable>& tables, const std::vector<std::string>& files) {
  if (in_one_space(tables)) return;
  for (std::size_t i = 1; i < tables.size(); ++i) {
    const std::string_view first = provider_of(tables.front()), other = provider_of(tables[i]);
    if (!first.empty() && !other.empty() && first != other) {
      fail(Errc::invalid_argument,
           "--data {} has kernels of provider {}, --data {} of {}: a model chooses among kernels of one "
           "provider; train one for each",
           files.front(), first, files[i], other);
    }
    const std::string_view op = operation_of(tables.front()), other_op = operation_of(tables[i]);
    if (!op.empty() && !other_op.empty() && op != other_op) {
      fail(Errc::invalid_argument,
           "--data {} has problems of {}, --data {} of {}: a model is for one operation; train one for each",
           files.front(), op, files[i], other_op);
    }
  }
}

/// Adds what applications timed.
void add_timings(const TrainArguments& options, std::vector<CompactTable>& tables, Origin& origin) {
  for (const auto& file : options.db) {
    if (!std::filesystem::exists(file)) fail(Errc::not_found, "--db {}: no such file", file);
    Timings used = read_timings(file, tables);
    fmt::print(
        stderr,
        "{}: {} timings of {} problems; left out: {} of other devices, {} of other kernels, {} of problems "
        "that --data has, {} problems with one timing\n",
        file, used.table.rows.size(), used.table.problems.size(), used.other_device, used.other_kernels,
        used.measured, used.alone);
    origin.data_files.push_back(std::filesystem::path(file).filename().string());
    origin.data_rows += used.table.rows.size();
    tables.push_back(std::move(used.table));
  }
}

void train_verb(TrainArguments& options) {
  check_arguments(options);
  cap_threads(options.train.parameters.threads);
  for (const auto& name : options.targets) {
    const Target target = parse<Target>(name);
    auto& targets = options.train.targets;
    if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
  }
  if (options.targets.empty())
    options.train.targets = options.any_cpu ? std::vector{Target::rank} : TrainOptions{}.targets;
  if (options.any_cpu && !options.db.empty())
    fail(Errc::invalid_argument,
         "--db: timings are of one machine, and --any-cpu trains on several; leave it out");
  if (options.any_cpu) {
    options.train.devices = TrainFor::any_cpu;
    if (!options.fold_by_given) options.train.fold_by = FoldBy::device;
  }
  if (options.folds_given && options.train.fold_by == FoldBy::device)
    fail(Errc::invalid_argument,
         "--folds with folds by device: there is one fold for each CPU; leave it out");
  options.train.handicap.share = options.handicap_percent / 100;
  std::vector<CompactTable> tables;
  Origin origin;
  for (const auto& file : options.data) {
    tables.push_back(read_compact({{file}}));
    origin.data_files.push_back(std::filesystem::path(file).filename().string());
    origin.data_rows += tables.back().row_count();
  }
  join(tables, options.data);
  add_timings(options, tables, origin);
  origin.metadata = merge_metadata(heads_of(tables));
  const Op op = tables.front().problems.empty() ? Op::gemm : tables.front().problems.front().op();
  if (!options.op.empty() && parse<Op>(options.op) != op) {
    fail(Errc::invalid_argument, "--op {}: the datasets are of {}", options.op, word(op));
  }
  if (!options.variant.empty() && options.variant != ck_variant(op)) {
    fail(Errc::invalid_argument, "--variant {}: the datasets are of {}", options.variant, word(op));
  }
  const bool asked = !options.exclude.empty();
  if (!asked) options.exclude = usual_exclusions(op);
  for (const auto& file : options.exclude) {
    if (file != "none") leave_out(file, tables, asked);
  }
  const std::filesystem::path kept = checkpoint_folder(options);
  options.train.checkpoint = kept;
  const auto schema = chosen_schema(options, op, tables.front());
  watch_signals();
  ProgressLine line("train");
  TrainingInput input =
      training_input(tables, families_of(tables, options.rules, options.train.devices, options.epilogues),
                     *schema, options.train);
  std::vector<CompactTable> tried;
  for (const CompactTable& table : tables) tried.push_back(tried_problems(table));
  tables.clear();  // their memory is needed
  const auto result = train(std::move(input), schema, options.train, progress_or_end(line, kept));
  write_model_folder(options.out, result, origin);
  record_reference_times(options.out, tried);
  remove_checkpoint(kept);
  print_summary(result, options.format);
  if (options.any_cpu) print_devices(result, options.format);
  fmt::print(
      stderr,
      "model: {} ({} problems, {} rows; out-of-fold efficiency in percent of the best measured config)\n",
      options.out, result.set.problems.size(), result.set.row_count());
}

}  // namespace

void setup_train(CLI::App& verb) {
  const auto options = std::make_shared<TrainArguments>();
  TrainParameters& p = options->train.parameters;
  options->train.targets.clear();
  verb.add_option("--data", options->data, "dataset: Parquet files of one device, with --any-cpu of several")
      ->required();
  reads_file(
      verb.add_option("--db", options->db,
                      "files of decisions whose timings of the same device join the training data: what "
                      "first-use refinement and kscout run --db timed"));
  verb.add_flag(
      "--any-cpu", options->any_cpu,
      "one model for every CPU, also for those that nobody measured (--out: models/<op>_<dtype>_any_cpu)");
  verb.add_option("--out", options->out, "model folder to write, usually models/<op>_<dtype>_<device>")
      ->required();
  check_words<Target>(
      verb.add_option("--targets", options->targets,
                      "what to learn: tflops|latency|bandwidth|relative|rank, comma-separated")
          ->delimiter(',')
          ->default_str("relative,rank,tflops"));
  check_words<Op>(
      verb.add_option("--op", options->op, "operation that the datasets must be of (default: theirs)"));
  verb.add_option("--variant", options->variant,
                  "direction that datasets of convolutions must be of, as CK Tile's trainer names it: "
                  "forward|bwd_data|bwd_weight (the same as --op conv_fwd, ...)")
      ->check(CLI::IsMember({"forward", "bwd_data", "bwd_weight"}));
  verb.add_option("--schema", options->schema,
                  "feature schema, or FILE.toml with one of your own, which the model then carries (default: "
                  "by operation, provider and device)");
  verb.add_option("--features", options->features, "scores read only these features, comma-separated")
      ->delimiter(',');
  verb.add_option("--increasing", p.increasing, "features that may only raise a score, comma-separated")
      ->delimiter(',');
  verb.add_option("--exclude", options->exclude,
                  "problems (a file or a set of convolutions) to leave out, whatever their types; none "
                  "(default for convolutions: the public validation sets)")
      ->delimiter(',');
  verb.add_option("--warm-start", options->train.warm_start,
                  "a model of ours (folder or .ksf file) or a folder of CK Tile's trainer: its trees stay, "
                  "--rounds more are added");
  verb.add_flag_callback(
      "--no-guard", [options] { options->train.guard = false; },
      "a model of a library with suggestions also answers far from the trained problems; default: the "
      "library's first suggestion answers there");
  verb.add_option("--hard-rounds", options->train.hard_rounds,
                  "number of retrainings with more weight on problems with bad choices; the weights that "
                  "choose best out of fold are kept")
      ->capture_default_str()
      ->check(CLI::Range(0, 20));
  verb.add_option("--handicap", options->train.handicap.where,
                  "configs for which this formula holds count as slower while choices are learned, e.g. a "
                  "library's own suggestions: \"c.suggestion > 0\"");
  verb.add_option("--handicap-percent", options->handicap_percent, "by this share of their speed")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 99.0));
  verb.add_option(
      "--rules", options->rules,
      "rule set of the candidates (default: the dataset's; if it names several, the measured configs)");
  add_epilogues_option(
      verb, "--epilogues", options->epilogues,
      "GEMMs measured without epilogue: answer also for these, where the rule set has configs "
      "for them, comma-separated");
  CLI::Option* const folds =
      verb.add_option("--folds", options->train.folds, "cross-validation folds over groups of problems")
          ->capture_default_str();
  check_text(folds, check_folds);
  CLI::Option* const fold_by =
      add_word_option(verb, "--fold-by", options->train.fold_by,
                      "what a group has in common: every size; the shape of its weights; every "
                      "size but the number of images (of a GEMM: n, k); or the "
                      "CPU, whatever its instruction set and number "
                      "of threads (default with --any-cpu)");
  verb.add_option("--leaves", p.leaves, "leaves of a tree")
      ->capture_default_str()
      ->check(CLI::Range(2, 4096));
  verb.add_option("--learning-rate", p.learning_rate, "weight of each tree")
      ->capture_default_str()
      ->check(CLI::Range(1e-4, 1.0));
  verb.add_option("--rounds", p.rounds, "most trees")->capture_default_str()->check(CLI::Range(1, 100000));
  verb.add_option("--min-rounds", p.min_rounds, "fewest trees")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  verb.add_option("--patience", p.patience, "rounds without better choices before training stops")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  verb.add_option("--threads", p.threads,
                  "threads, at most one for each processor; with 1 equal data gives equal bytes")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  add_word_option(verb, "--growth", p.growth,
                  "how the folds grow: together; one_by_one, in a third of the memory and up to twice the "
                  "time, to the same model; auto: one by one from 134 million feature values");
  verb.add_option("--seed", p.seed, "seed of every random choice")->capture_default_str();
  add_format_option(verb, options->format);
  verb.footer(
      "The target whose out-of-fold choices are fastest becomes the model's default. Ctrl-C keeps the "
      "targets\n"
      "that are finished in OUT.train; the same command goes on from them.\n\n"
      "examples\n"
      "  kscout train --data data/gemm_fp32_zen3-2c.parquet --out models/gemm_fp32_zen3-2c\n"
      "  kscout train --data a.parquet b.parquet --out m --targets relative --folds 10\n"
      "  kscout train --data more.parquet --out m2 --warm-start m --targets tflops --rounds 200\n"
      "  kscout train --data old.parquet --db decisions.sqlite --out m2 --warm-start m --targets rank "
      "--rounds 60\n"
      "  kscout train --any-cpu --data one.parquet other.parquet --out models/gemm_fp32_any_cpu\n\n"
      "exit status: 0 done, 2 wrong arguments or too little data, 4 file failure");
  verb.callback([=] {
    options->folds_given = folds->count() > 0;
    options->fold_by_given = fold_by->count() > 0;
    train_verb(*options);
  });
}

}  // namespace kscout::cli
