// Learning from use, replayed from measurements: a model that does not know a distribution meets its problems
// one by one, and some are timed with the configs that it expects to be best. How much better are its choices
// for the others, after training on these timings, and after a full sweep?
//
//   learning [--seed N]
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench_program.h"
#include "core/fail.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "dataset/problem_sizes.h"
#include "evaluate/evaluate_model.h"
#include "features/schema.h"
#include "op/operation.h"
#include "select/decision_db.h"
#include "support/temporary_folder.h"
#include "train/families.h"
#include "train/timings.h"
#include "train/train.h"

namespace {

using namespace kscout;

constexpr const char* kData[] = {"data/gemm_fp32_zen3-2c.train.parquet",
                                 "data/gemm_fp32_zen3-2c.held_out.parquet"};
/// The set of problems that the model does not know.
constexpr const char* kSet = "llm";
/// Problems of the set; of these, the first are timed.
constexpr std::size_t kProblems = 200, kTimed = 40;
constexpr std::size_t kFolds = 5;
/// Configs that are timed.
constexpr std::size_t kTops[] = {8, 16};
constexpr int kThreads = 2;  // of the training

class Replay {
 public:
  explicit Replay(std::uint32_t seed) {
    std::vector<MeasurementTable> tables;
    for (const char* const file : kData) tables.push_back(read_dataset(file));
    all_ = final_table(merge(tables, Keep::first));
    // The model to start from knows the first file's problems outside the set.
    std::set<ProblemSizes> in_set;
    for (const Problem& problem : operation_of_set(kSet)->named_set(kSet, DType::fp32, {}))
      in_set.insert(sizes_of(problem));
    base_ = final_table(table_of_problems(
        tables.front(), [&](const Problem& problem) { return !in_set.contains(sizes_of(problem)); }));
    for (const Problem& problem : all_.problems) {
      if (in_set.contains(sizes_of(problem))) order_.push_back(problem);
    }
    std::mt19937 random(seed);
    std::ranges::shuffle(order_, random);
    order_.resize(std::min(order_.size(), kProblems));
    if (order_.size() <= kTimed)
      fail(Errc::invalid_argument, "{}, {}: {} problems of set {}", kData[0], kData[1], order_.size(), kSet);
  }

  int run() {
    const std::vector<Problem> rest(order_.begin() + static_cast<std::ptrdiff_t>(kTimed), order_.end());
    fmt::print("{} of {}: {} problems, the first {} are timed, the choices for the other {} count\n\n", kSet,
               kData[0], order_.size(), kTimed, rest.size());
    fmt::print("{:<44} {:>8} {:>8} {:>8}\n", "% of the fastest measured config", "mean", "P10", "worst");
    const Model unaware = trained({base_});
    const Summary before = judged({&unaware}, {rest});
    print("the model that does not know the set", before);
    std::vector<std::pair<std::size_t, Summary>> learned;
    for (const std::size_t top : kTops) {
      const Model model = trained({base_, timings(unaware, top)});
      learned.emplace_back(top, judged({&model}, {rest}));
      print(fmt::format("after timing {} configs of each of the {}", top, kTimed), learned.back().second);
    }
    const Summary full = swept(rest);
    print(fmt::format("after full sweeps of {} of {}", kFolds - 1, kFolds), full);
    fmt::print("\nRESULT learning.before {:.2f} %\nRESULT learning.full {:.2f} %\n", 100 * before.mean,
               100 * full.mean);
    for (const auto& [top, after] : learned) {
      fmt::print("RESULT learning.after_{} {:.2f} %\n", top, 100 * after.mean);
      fmt::print("RESULT learning.share_of_full_{} {:.3f} x\n", top,
                 (after.mean - before.mean) / (full.mean - before.mean));
    }
    return 0;
  }

 private:
  static void print(const std::string& who, const Summary& s) {
    fmt::print("{:<44} {:>8.2f} {:>8.2f} {:>8.2f}\n", who, 100 * s.mean, 100 * s.p10, 100 * s.min);
    std::fflush(stdout);
  }

  MeasurementTable part(const std::vector<Problem>& problems) const {
    const std::set<std::string> names = names_of(problems);
    return table_of_problems(all_, [&](const Problem& one) { return names.contains(kscout::print(one)); });
  }
  static std::set<std::string> names_of(const std::vector<Problem>& problems) {
    std::set<std::string> names;
    for (const Problem& problem : problems) names.insert(kscout::print(problem));
    return names;
  }

  Model trained(const std::vector<CompactTable>& tables) const {
    TrainOptions train_options;
    train_options.targets = {Target::rank};
    train_options.folds = 4;
    train_options.parameters.threads = kThreads;
    const auto schema = std::make_shared<Schema>(
        Schema::find(default_schema(Op::gemm, base_.configs.front().space->provider, base_.device.kind))
            .for_op(Op::gemm));
    return train(tables, families_of(tables, "", TrainFor::one_device, {}), schema, train_options, {}).model;
  }

  /// Each model's choices on its problems, together.
  Summary judged(const std::vector<const Model*>& models,
                 const std::vector<std::vector<Problem>>& problems) const {
    std::vector<Problem> every;
    std::vector<std::set<std::string>> names;
    for (const auto& of : problems) {
      every.insert(every.end(), of.begin(), of.end());
      names.push_back(names_of(of));
    }
    const MeasurementTable table = part(every);
    const Scorer scorer = [&](const Problem& problem, std::span<const KernelConfig> configs) {
      std::size_t of = 0;
      while (!names[of].contains(kscout::print(problem))) ++of;
      return Scores{
          .score = models[of]->score_configs(problem, as_table(configs)), .tflops = {}, .confidence = {}};
    };
    return evaluate(table, scorer, measured_pool).overall;
  }

  static ConfigTable as_table(std::span<const KernelConfig> configs) {
    ConfigTable table(*configs.front().space);
    for (const KernelConfig& config : configs) table.push_back(config);
    return table;
  }

  /// What an application times at first use, in the file where it stores it.
  MeasurementTable timings(const Model& model, std::size_t top) const {
    const test::TemporaryFolder folder;
    const DecisionDb db(folder.path() / "decisions.sqlite");
    const std::vector<Problem> first(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kTimed));
    const MeasurementTable table = part(first);
    std::vector<StoredTiming> timed;
    const auto rows = final_rows(table);
    for (std::size_t p = 0; p < rows.size(); ++p) {
      std::vector<KernelConfig> configs;
      std::vector<double> times_us;
      for (const FinalRow& row : rows[p]) {
        if (row.measured.status != Status::ok && row.measured.status != Status::pruned_early) continue;
        configs.push_back(table.configs[row.config]);
        times_us.push_back(row.measured.time_us);
      }
      const auto scores = model.score_configs(table.problems[p], as_table(configs));
      std::vector<std::size_t> by_score(scores.size());
      std::iota(by_score.begin(), by_score.end(), std::size_t{0});
      std::ranges::stable_sort(by_score, std::ranges::greater{}, [&](std::size_t i) { return scores[i]; });
      by_score.resize(std::min(by_score.size(), top));
      for (const std::size_t i : by_score) {
        Problem problem = table.problems[p];
        problem.set_weight(1);
        timed.push_back({.problem = kscout::print(problem),
                         .config = config_name(signature_of(problem), configs[i]),
                         .device = device_identity(table.device),
                         .driver = "",
                         .version = "",
                         .backend = "cpu",
                         .time_us = times_us[i],
                         .at = 0});
      }
    }
    db.put({}, timed);
    return read_timings(db.file(), std::vector<CompactTable>{base_}).table;
  }

  /// Cross-validation over the set, fully measured; judged on `rest` alone.
  Summary swept(const std::vector<Problem>& rest) const {
    const std::set<std::string> counts = names_of(rest);
    std::vector<Model> models;
    std::vector<std::vector<Problem>> judged_by;
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      std::vector<Problem> known, asked;
      for (std::size_t i = 0; i < order_.size(); ++i) {
        if (i % kFolds != fold) known.push_back(order_[i]);
        if (i % kFolds == fold && counts.contains(kscout::print(order_[i]))) asked.push_back(order_[i]);
      }
      models.push_back(trained({base_, part(known)}));
      judged_by.push_back(std::move(asked));
    }
    std::vector<const Model*> pointers;
    for (const Model& model : models) pointers.push_back(&model);
    return judged(pointers, judged_by);
  }

  MeasurementTable all_, base_;
  std::vector<Problem> order_;  ///< of the set, in the order in which they arrive
};

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t seed = 7;
  CLI::App app("learning from use, replayed from measurements");
  app.add_option("--seed", seed, "of the order in which problems arrive")->capture_default_str();
  return kscout::bench::run_bench("learning", app, argc, argv, [&] { return Replay(seed).run(); });
}
