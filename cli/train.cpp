#include "train/train.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "dataset/dataset.h"
#include "features/schema.h"
#include "options.h"
#include "progress_line.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct Options {
  std::vector<std::string> data;
  std::string out, schema = "gemm", rules;
  std::vector<std::string> targets;
  TrainOptions train;
  Format format = Format::text;
};

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

void train_verb(Options& options) {
  for (const auto& name : options.targets) {
    const Target target = parse<Target>(name);
    auto& targets = options.train.targets;
    if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
  }
  if (options.targets.empty()) options.train.targets = TrainOptions{}.targets;
  std::vector<MeasurementTable> tables;
  Origin origin;
  for (const auto& file : options.data) {
    tables.push_back(read_dataset(file));
    origin.data_files.push_back(std::filesystem::path(file).filename().string());
    origin.data_rows += tables.back().rows.size();
    for (const auto& [key, value] : tables.back().metadata) origin.metadata.emplace(key, value);
  }
  ProgressLine line("train");
  const auto result = train(tables, families_of(tables, options.rules),
                            std::make_shared<Schema>(Schema::find(options.schema)), options.train,
                            [&line](const std::string& text) { line(text); });
  write_model_folder(options.out, result, origin);
  print_summary(result, options.format);
  fmt::print(
      stderr,
      "model: {} ({} problems, {} rows; out-of-fold efficiency in percent of the best measured config)\n",
      options.out, result.set.problems.size(), result.set.row_count());
}

}  // namespace

void setup_train(CLI::App& verb) {
  const auto options = std::make_shared<Options>();
  TrainParameters& p = options->train.parameters;
  options->train.targets.clear();
  verb.add_option("--data", options->data, "dataset: Parquet files of one device")->required();
  verb.add_option("--out", options->out, "model folder to write, usually models/<op>_<dtype>_<device>")
      ->required();
  verb.add_option("--targets", options->targets,
                  "what to learn: tflops|latency|bandwidth|relative|rank, parted by commas")
      ->delimiter(',')
      ->default_str("relative,rank,tflops");
  verb.add_option("--schema", options->schema, "feature schema")->capture_default_str();
  verb.add_option("--rules", options->rules, "rule set of the candidates (default: the dataset's)");
  verb.add_option("--folds", options->train.folds, "cross-validation folds over groups of problems")
      ->capture_default_str();
  add_word_option(verb, "--fold-by", options->train.fold_by,
                  "what a group has in common: m, n, k, batch; or n, k");
  verb.add_option("--leaves", p.leaves, "leaves of a tree")
      ->capture_default_str()
      ->check(CLI::Range(2, 4096));
  verb.add_option("--learning-rate", p.learning_rate, "weight of each tree")
      ->capture_default_str()
      ->check(CLI::Range(1e-4, 1.0));
  verb.add_option("--rounds", p.rounds, "most trees")->capture_default_str()->check(CLI::Range(1, 100000));
  verb.add_option("--patience", p.patience, "rounds without better choices before training stops")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  verb.add_option("--threads", p.threads, "threads; with 1 equal data gives equal bytes")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  verb.add_option("--seed", p.seed, "seed of every random choice")->capture_default_str();
  add_format_option(verb, options->format);
  verb.footer(
      "The target whose out-of-fold choices are fastest becomes the model's default.\n\n"
      "examples\n"
      "  kscout train --data data/gemm_fp32_zen3-2c.parquet --out models/gemm_fp32_zen3-2c\n"
      "  kscout train --data a.parquet b.parquet --out m --targets relative --folds 10\n\n"
      "exit status: 0 done, 2 wrong arguments or too little data, 4 file failure");
  verb.callback([options] { train_verb(*options); });
}

}  // namespace kscout::cli
