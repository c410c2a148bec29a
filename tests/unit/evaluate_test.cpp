#include "evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include <kscout/family.h>

#include "core/csv.h"
#include "dataset/operations.h"
#include "dataset/problem_sizes.h"
#include "dataset_fixture.h"
#include "evaluate/baselines.h"
#include "evaluate/evaluate_model.h"
#include "op/conv/conv_sets.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::timed;
using test::toy_config;

/// A table from times[problem][config]: 0 = not measured, below 0 = crashed.
MeasurementTable table_of(const std::vector<std::vector<double>>& times) {
  MeasurementTable table;
  table.device = test::toy_device();
  for (std::size_t c = 0; c < times.front().size(); ++c) {
    table.configs.push_back(toy_config(c % 2 == 0 ? 0 : 1, static_cast<int>(8 * (c + 1))));
  }
  for (std::size_t p = 0; p < times.size(); ++p) {
    table.problems.push_back(make_gemm(static_cast<std::int64_t>(16 << p), 64, 1024));
    for (std::size_t c = 0; c < times[p].size(); ++c) {
      const double time = times[p][c];
      if (time == 0) continue;
      table.rows.push_back({static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(c),
                            time < 0 ? test::failed(Status::crashed) : timed(time)});
    }
  }
  return table;
}

/// Scores by tile size: the larger the better.
Scores larger_is_better(const Problem&, std::span<const KernelConfig> configs) {
  Scores scores;
  for (const KernelConfig& config : configs) scores.score.push_back(config[1]);
  return scores;
}

/// Scores by what the table says.
Scorer perfect(const MeasurementTable& table) {
  return [&table](const Problem& problem, std::span<const KernelConfig> configs) {
    Scores scores;
    for (const KernelConfig& config : configs) {
      double score = -1e9;
      for (const auto& row : table.rows) {
        const bool same = table.problems[row.problem] == problem && table.configs[row.config] == config;
        if (same && row.measured.status == Status::ok) score = -row.measured.time_us;
      }
      scores.score.push_back(score);
    }
    return scores;
  };
}

TEST(Evaluate, TwoShapesGiveTheSpecifiedMeanAndNdcg) {
  // Shape 0: the pick (config 1) takes 4 times as long as the oracle; shape 1: the pick is the oracle.
  const MeasurementTable table = table_of({{25, 100}, {80, 50}});
  const Evaluation e = evaluate(table, larger_is_better, measured_pool);
  EXPECT_DOUBLE_EQ(e.overall.mean, 0.625);
  EXPECT_DOUBLE_EQ(e.overall.hit_rate[0], 0.5);
  EXPECT_DOUBLE_EQ(e.overall.min, 0.25);
  EXPECT_DOUBLE_EQ(e.overall.max, 1);
  EXPECT_DOUBLE_EQ(e.overall.p50, 0.625);  // linear between neighbours
  EXPECT_DOUBLE_EQ(e.overall.p10, 0.325);
  EXPECT_DOUBLE_EQ(e.overall.top_mean[1], 1);  // both configs are among the first 3
  EXPECT_DOUBLE_EQ(e.overall.regret_mean, 1.5);
  EXPECT_DOUBLE_EQ(e.overall.regret_p50, 1.5);
  EXPECT_DOUBLE_EQ(e.overall.regret_max, 3);
  EXPECT_DOUBLE_EQ(e.overall.within_2, 0.5);
}

TEST(Evaluate, TheSecondPassDecides) {
  MeasurementTable table = table_of({{100, 90}});
  table.rows.push_back({0, 0, timed(80, Status::ok, 2)});
  table.rows.push_back({0, 1, timed(160, Status::ok, 2)});
  const Evaluation e = evaluate(table, larger_is_better, measured_pool);
  EXPECT_DOUBLE_EQ(e.overall.mean, 0.5);
  EXPECT_EQ(e.results[0].oracle, table.configs[0]);
}

TEST(Evaluate, FailedAndUnmeasuredPicksCountAsZero) {
  const MeasurementTable table = table_of({{10, -1}, {10, 0}, {20, 10}});
  const auto whole_family = [&](const CompactTable&, std::size_t) { return table.configs; };
  const Evaluation e = evaluate(table, larger_is_better, whole_family);
  EXPECT_DOUBLE_EQ(e.overall.mean, 1.0 / 3);
  EXPECT_EQ(e.overall.failed, 1u);
  EXPECT_EQ(e.overall.unmeasured, 1u);
  EXPECT_TRUE(std::isnan(e.results[0].regret_us));
  EXPECT_DOUBLE_EQ(e.overall.top_mean[1], 1);
  // In the measured pool the second problem has only its one config.
  EXPECT_DOUBLE_EQ(evaluate(table, larger_is_better, measured_pool).overall.mean, 2.0 / 3);
}

TEST(Evaluate, ConfigsThatASweepLeftOutAreNoPicks) {
  MeasurementTable table = table_of({{25, 100}, {80, 50}});
  table.rows[0].measured.status = Status::left_out;
  EXPECT_EQ(measured_pool(table, 0), (std::vector{table.configs[1]}));
  EXPECT_EQ(accepted_pool(table, 0), (std::vector{table.configs[1]}));
  table.rows[0].measured.status = Status::unsupported;
  EXPECT_EQ(measured_pool(table, 0).size(), 2u);
  EXPECT_EQ(accepted_pool(table, 0).size(), 1u);
}

TEST(Evaluate, ProblemsWithoutAnOracleAreCountedApart) {
  const MeasurementTable table = table_of({{-1, -1}, {20, 10}});
  const Evaluation e = evaluate(table, larger_is_better, measured_pool);
  EXPECT_EQ(e.without_oracle, 1u);
  EXPECT_EQ(e.overall.problems, 1u);
  const MeasurementTable none = table_of({{-1, -1}});
  EXPECT_THROW(evaluate(none, larger_is_better, measured_pool), Error);
}

TEST(Evaluate, TiesWithinNoiseAreShownAndNotForgiven) {
  const MeasurementTable table = table_of({{100, 101}, {100, 150}});  // spreads of 0.01
  const Evaluation e = evaluate(table, larger_is_better, measured_pool);
  EXPECT_EQ(e.overall.ties, 1u);
  EXPECT_DOUBLE_EQ(e.results[0].efficiency(), 100.0 / 101);
  EXPECT_DOUBLE_EQ(e.overall.hit_rate[0], 0);
}

TEST(Evaluate, PicksTimedLessPreciselyThanTheOracleAreFlaggedAndCounted) {
  MeasurementTable table = table_of({{50, 90}, {50, 90}, {50, 90}, {50, 90}});
  const auto again = [&](std::uint32_t problem, std::uint32_t config, double us, Status status, int repeats) {
    Measurement measured = timed(us, status, 2);
    measured.repeats = repeats;
    table.rows.push_back({problem, config, measured});
  };
  for (std::uint32_t p = 0; p < 4; ++p) again(p, 0, 50, Status::ok, 24);
  again(0, 1, 90, Status::ok, 24);                                  // as carefully
  again(1, 1, 90, Status::pruned_early, 24);                        // given up after its screening samples
  again(2, 1, 90, Status::ok, 11);                                  // its rounds ended early
  Evaluation e = evaluate(table, larger_is_better, measured_pool);  // of the last only a first pass
  ASSERT_EQ(e.results.size(), 4u);
  for (std::size_t p = 0; p < 4; ++p) EXPECT_EQ(e.results[p].picks[0].coarse, p > 0) << p;
  EXPECT_EQ(e.overall.coarse, 3u);
  EXPECT_DOUBLE_EQ(e.overall.mean_without_coarse, 50.0 / 90);

  // In every output efficiencies are in percent.
  ModelEvaluation report;
  report.evaluation = std::move(e);
  for (ProblemResult& result : report.evaluation.results) {
    result.picks[0].measured.time_us = 90;
    // Names are the provider's; that of these tests is not registered.
    for (KernelConfig* config : {&result.oracle, &result.picks[0].config, &result.picks[1].config})
      *config =
          enumerate({"native", signature_of(make_gemm(1, 1, 1)), device_preset("epyc-7763"), "tiny", ""})
              .configs[0];
  }
  const CsvSheet csv = read_csv(evaluation_csv(report), "e.csv");
  const auto cell = [&](const char* name) { return csv.rows.at(0).at(*csv.column(name)); };
  EXPECT_NEAR(std::stod(cell("efficiency")), 100 * 50.0 / 90, 1e-9);
  EXPECT_NEAR(std::stod(cell("top_3")), 100, 1e-9);
  EXPECT_NEAR(std::stod(cell("pool_best")), 100, 1e-9);
  const CsvSheet predictions = read_csv(predictions_csv(report), "p.csv");
  EXPECT_NEAR(std::stod(predictions.rows.at(0).at(*predictions.column("efficiency"))), 100 * 50.0 / 90, 1e-9);
  const auto json = nlohmann::json::parse(evaluation_json(report));
  EXPECT_NEAR(json["worst"][0]["efficiency"].get<double>(), 100 * 50.0 / 90, 1e-9);
  EXPECT_EQ(json["coarse_picks"], 3);
}

TEST(Evaluate, BinsOfClaimsAreInPercent) {
  ModelEvaluation report;
  report.evaluation.reliability = reliability(std::vector<Claim>{{0.75, true}});
  const auto bin = nlohmann::json::parse(evaluation_json(report))["confidence"]["bins"][0];
  EXPECT_EQ(bin["from"], 70);
  EXPECT_EQ(bin["claimed"], 75);
}

TEST(Evaluate, EqualScoresKeepFamilyOrder) {
  const MeasurementTable table = table_of({{10, 20, 30}});
  const auto equal = [](const Problem&, std::span<const KernelConfig> configs) {
    return Scores{std::vector<double>(configs.size(), 1.0), {}};
  };
  EXPECT_EQ(evaluate(table, equal, measured_pool).results[0].picks[0].config, table.configs[0]);
}

TEST(Evaluate, ConfigsThatCannotRunAreNeverPicked) {
  const MeasurementTable table = table_of({{10, 5}});
  const auto only_first = [](const Problem&, std::span<const KernelConfig>) {
    return Scores{{1.0, -std::numeric_limits<double>::infinity()}, {}};
  };
  const Evaluation e = evaluate(table, only_first, measured_pool);
  EXPECT_DOUBLE_EQ(e.overall.mean, 0.5);
  EXPECT_EQ(e.results[0].pool, 1u);
}

TEST(Evaluate, ClaimsAreComparedWithTheBestOfThePool) {
  // The pool lacks the fastest config of the first problem; of the second it has both and the slower one is
  // picked.
  const MeasurementTable table = table_of({{100, 102, 50}, {100, 110, 200}});
  const auto surely_second = [](const Problem&, std::span<const KernelConfig>) {
    return Scores{{1.0, 2.0}, {}, 0.97};
  };
  const Evaluation e = evaluate(table, surely_second, [&](const CompactTable&, std::size_t) {
    return std::vector{table.configs[0], table.configs[1]};
  });
  EXPECT_DOUBLE_EQ(e.results[0].pool_best, 0.5);
  EXPECT_DOUBLE_EQ(e.results[0].efficiency(), 50.0 / 102);
  EXPECT_TRUE(e.results[0].within_claim());
  EXPECT_DOUBLE_EQ(e.results[1].pool_best, 1);
  EXPECT_FALSE(e.results[1].within_claim());
  EXPECT_DOUBLE_EQ(e.overall.pool_best, 0.75);
  EXPECT_DOUBLE_EQ(e.reliability.observed, 0.5);
}

TEST(Evaluate, EachLayoutsClaimsAreCheckedByThemselves) {
  // Always right in one layout, always wrong in the other: 50 % claimed of both looks right.
  MeasurementTable table = table_of({{10, 20}, {20, 10}, {10, 20}, {20, 10}});
  const auto first = [](const Problem&, std::span<const KernelConfig>) {
    return Scores{{2.0, 1.0}, {}, 0.5};
  };
  for (const std::size_t p : {1, 3}) {
    GemmProblem problem = table.problems[p].as<GemmProblem>();
    problem.layout = Layout::rrr;
    table.problems[p] = problem;
  }
  const Evaluation e = evaluate(table, first, measured_pool);
  EXPECT_DOUBLE_EQ(e.reliability.claimed, e.reliability.observed);
  EXPECT_DOUBLE_EQ(e.reliability.standard_error, 0.25);
  std::map<std::string, Reliability> by_layout;
  for (const Slice& slice : e.slices) {
    if (slice.by == "layout") by_layout[slice.value] = slice.reliability;
  }
  ASSERT_EQ(by_layout.size(), 2u);
  for (const auto& [layout, r] : by_layout) {
    EXPECT_EQ(r.claims, 2u);
    EXPECT_DOUBLE_EQ(r.claimed, 0.5);
    EXPECT_DOUBLE_EQ(r.observed, layout == "rcr" ? 1 : 0);
  }
}

TEST(Evaluate, CallWeightsWeigh) {
  MeasurementTable table = table_of({{25, 100}, {80, 50}});
  table.problems[0].set_weight(3);
  EXPECT_DOUBLE_EQ(evaluate(table, larger_is_better, measured_pool).overall.weighted_mean,
                   (3 * 0.25 + 1) / 4);
}

TEST(Evaluate, TrueNdcgDiscountsByRank) {
  const MeasurementTable table = table_of({{10, 20}});  // the pick has relevance 0.5, the second 1
  const double wanted = (0.5 + 1 / std::log2(3.0)) / (1 + 0.5 / std::log2(3.0));
  EXPECT_DOUBLE_EQ(evaluate(table, larger_is_better, measured_pool).overall.ndcg, wanted);
}

TEST(Evaluate, SlicesPartTheProblems) {
  const MeasurementTable table = table_of({{25, 100}, {80, 50}});  // m = 16 and 32
  const Evaluation e = evaluate(table, larger_is_better, measured_pool);
  std::map<std::string, std::size_t> problems;
  for (const Slice& slice : e.slices) problems[slice.by] += slice.summary.problems;
  for (const auto& [by, count] : problems) EXPECT_EQ(count, 2u) << by;
  EXPECT_EQ(problems.size(), 6u);
  const auto small = std::ranges::find(e.slices, "small_m", &Slice::value);
  ASSERT_NE(small, e.slices.end());
  EXPECT_DOUBLE_EQ(small->summary.mean, 1);
}

TEST(Evaluate, PerfectPredictionsCalibrate) {
  const MeasurementTable table = table_of({{25, 100}, {80, 5000}});
  const auto exact = [&](const Problem& problem, std::span<const KernelConfig> configs) {
    Scores scores = perfect(table)(problem, configs);
    for (const double score : scores.score) scores.tflops.push_back(flop_count(problem) / -score / 1e6);
    return scores;
  };
  const Calibration c = evaluate(table, exact, measured_pool).calibration;
  EXPECT_EQ(c.rows, 4u);
  EXPECT_NEAR(c.r2, 1, 1e-12);
  EXPECT_NEAR(c.mape, 0, 1e-12);
  std::size_t rows = 0;
  for (const auto& decade : c.decades) rows += decade.rows;
  EXPECT_EQ(rows, 4u);
}

TEST(Baselines, StaticsAreChosenOnTrainingProblemsOnly) {
  const MeasurementTable training = table_of({{10, 20, 40}, {10, 20, 40}});  // config 0 wins everywhere
  const MeasurementTable held_out = table_of({{40, 20, 10}});
  EXPECT_EQ(best_static(training), training.configs[0]);
  const auto lines = baselines(held_out, measured_pool, training, {});
  EXPECT_EQ(lines.front().name, "best static");
  EXPECT_DOUBLE_EQ(lines.front().summary.mean, 0.25);
  EXPECT_DOUBLE_EQ(lines.back().summary.mean, 1);  // oracle
  const auto random = std::ranges::find(lines, "random", &Baseline::name);
  ASSERT_NE(random, lines.end());
  EXPECT_DOUBLE_EQ(random->summary.mean, (0.25 + 0.5 + 1) / 3);
}

TEST(Baselines, GreedyAddsWhatHelpsMost) {
  // Config 0 is fair everywhere; 1 and 2 are best on one problem each and useless elsewhere.
  const MeasurementTable table = table_of({{20, 10, 1000}, {20, 1000, 10}, {10, 1000, 1000}, {10, 1000, 20}});
  const auto chosen = best_statics(table, 2);
  EXPECT_EQ(chosen[0], table.configs[0]);
  EXPECT_EQ(best_statics(table, 99).size(), 3u);
}

TEST(Prune, KeepsTheFewestThatReachTheMean) {
  // Config 0 is fair everywhere and taken first; 1 and 2 together do all of its work.
  const MeasurementTable table = table_of({{11, 10, 16}, {11, 16, 10}});
  EXPECT_EQ(prune(table, {.keep = 0.8}).configs, std::vector{table.configs[0]});
  const PrunedConfigs all = prune(table, {.keep = 1});
  EXPECT_EQ(all.configs, (std::vector{table.configs[1], table.configs[2]}));
  EXPECT_DOUBLE_EQ(all.mean, 1);
  EXPECT_EQ(all.problems, 2u);
  EXPECT_EQ(all.candidates, 3u);
}

TEST(Prune, KeepsBothMeansAndTheWorst) {
  // Config 0 is best on two problems of three, config 1 on the one that is called most.
  MeasurementTable table = table_of({{10, 40}, {10, 40}, {40, 10}});
  EXPECT_EQ(prune(table, {.keep = 0.75}).configs, std::vector{table.configs[0]});
  table.problems[2].set_weight(98);
  const PrunedConfigs one = prune(table, {.keep = 0.4});
  EXPECT_EQ(one.configs, std::vector{table.configs[1]});
  EXPECT_DOUBLE_EQ(one.mean, 0.5);
  EXPECT_DOUBLE_EQ(one.mean_of_calls, 0.985);
  EXPECT_DOUBLE_EQ(one.least, 0.25);
  EXPECT_EQ(prune(table, {.keep = 0.75}).configs.size(), 2u);
  EXPECT_EQ(prune(table, {.keep = 0.4, .keep_each = 0.3}).configs.size(), 2u);
}

TEST(Prune, AllCanBeKeptWhateverTheSumsRoundTo) {
  // Ten tenths add up to a little less than 1.
  const MeasurementTable table = table_of(std::vector<std::vector<double>>(10, {10, 20}));
  EXPECT_EQ(prune(table, {.keep = 1}).configs, std::vector{table.configs[0]});
}

TEST(Prune, WhatIsGivenNeedNotBeReachedAgain) {
  const MeasurementTable table = table_of({{10, 40}, {40, 10}, {-1, -1}});
  const PrunedConfigs rest = prune(table, {.keep = 1, .given = {table.configs[1]}});
  EXPECT_EQ(rest.configs, std::vector{table.configs[0]});
  EXPECT_EQ(rest.problems, 2u);
  EXPECT_THROW(prune(table_of({{-1, -1}}), {}), Error);
  EXPECT_THROW(prune(table, {.keep = 99}), Error);
}

TEST(TrainingSizes, ComeFromTheirParquetFile) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "train_manifest.json") << R"({"training_sizes": [[9, 9, 9, 1]]})";
  const std::set<ProblemSizes> gemms = {{1, 2, 3, 1}, {4, 5, 6, 2}};
  write_problem_sizes(folder / kTrainingSizesFile, Op::gemm, gemms);
  EXPECT_EQ(training_sizes(folder.path()), gemms);
  EXPECT_EQ(training_sizes(folder / "model.ksf"), gemms);
  ConvProblem conv = make_conv(Op::conv_fwd);
  conv.n = 8;
  conv.right_pad_w = 3;
  write_problem_sizes(folder / kTrainingSizesFile, conv.op, {sizes_of(conv)});
  EXPECT_EQ(training_sizes(folder.path()), std::set<ProblemSizes>{sizes_of(conv)});
  EXPECT_THROW(write_problem_sizes(folder / "x", Op::gemm, {{1, 2}}), Error);
  EXPECT_THROW(write_problem_sizes(folder / "x", Op::gemm, {{1, 2, 3, 1}, {1, 2}}), Error);
  write_problem_sizes(folder / kTrainingSizesFile, Op::gemm, {{-1, 2, 3, 1}});
  EXPECT_THROW(training_sizes(folder.path()), Error);
  std::ofstream(folder / kTrainingSizesFile) << "no Parquet";
  EXPECT_THROW(training_sizes(folder.path()), Error);
}

TEST(TrainingSizes, ComeFromAnOlderManifest) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(training_sizes(folder.path()).has_value());
  const auto manifest = [&](std::string_view text) { std::ofstream(folder / "train_manifest.json") << text; };
  manifest(R"({"training_sizes": [[1, 2, 3, 1], [4, 5, 6, 2]]})");
  EXPECT_EQ(training_sizes(folder.path()), (std::set<ProblemSizes>{{1, 2, 3, 1}, {4, 5, 6, 2}}));
  for (const auto text :
       {R"({"training_sizes": [[1, 2, 3]]})", R"({"training_sizes": [[1, 2, 3, "x"]]})", "{}", "[]", "{"}) {
    manifest(text);
    EXPECT_THROW(training_sizes(folder.path()), Error) << text;
  }
}

RC_GTEST_PROP(EvaluateProperty, NumbersStayInBounds, ()) {
  const auto problems = *rc::gen::inRange(1, 6);
  const auto configs = *rc::gen::inRange(1, 12);
  std::vector<std::vector<double>> times(static_cast<std::size_t>(problems));
  for (auto& line : times) {
    line = *rc::gen::container<std::vector<double>>(
        static_cast<std::size_t>(configs),
        rc::gen::map(rc::gen::inRange(-20, 500), [](int t) { return t < 0 ? -1.0 : t; }));
  }
  times.front().front() = 7;  // at least one problem has an oracle
  const MeasurementTable table = table_of(times);
  const auto whole_family = [&](const CompactTable&, std::size_t) { return table.configs; };
  const Evaluation e = evaluate(table, larger_is_better, whole_family);
  for (const ProblemResult& r : e.results) {
    for (std::size_t t = 0; t < kTop.size(); ++t) {
      RC_ASSERT(r.top[t] >= 0 && r.top[t] <= 1);
      RC_ASSERT(t == 0 || r.top[t] >= r.top[t - 1]);
      RC_ASSERT(!r.hit[t] || r.top[t] == 1);
    }
    RC_ASSERT(r.ndcg >= 0 && r.ndcg <= 1 + 1e-12);
  }
  const Summary& s = e.overall;
  RC_ASSERT(s.min <= s.p1 && s.p1 <= s.p10 && s.p10 <= s.p50 && s.p50 <= s.p90 && s.p90 <= s.max);
  RC_ASSERT(s.problems + e.without_oracle == times.size());
  const Summary best = evaluate(table, perfect(table), whole_family).overall;
  RC_ASSERT(best.mean > 1 - 1e-12 && best.min == 1 && best.hit_rate[3] == 1);
}

TEST(EvaluateModel, RanksKernelsOutsideTheFamilyAsThePredictorDoes) {
  const auto folder = paths::in_repository("models/conv_fwd_bf16_gfx950");
  const Model model = Model::load(folder);
  const Problem problem = parse_any_problem("conv_fwd:2x40x24x24:72x3x3:bf16:nhwgc:pad=1");
  MeasurementTable table;
  table.device = model.device();
  table.problems = {problem};
  for (const char* const tile : {"16x64x64", "64x64x64", "128x128x64", "128x64x128"}) {
    for (const char* const pipeline : {"compv3", "compv5"}) {  // the family has no compv5
      const std::string name = fmt::format("grouped_conv_forward_bf16_2d_{}_{}", tile, pipeline);
      table.rows.push_back({0, static_cast<std::uint32_t>(table.configs.size()), timed(20)});
      table.configs.push_back(parse_config_name(name).config);
    }
  }
  ConfigTable named(*table.configs.front().space);
  for (const KernelConfig& config : table.configs) named.push_back(config);
  const std::vector<double> scores = model.score_configs(problem, named);
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  const auto unknown = [](std::size_t i) { return i % 2 == 1; };
  ASSERT_FALSE(std::ranges::is_partitioned(order, std::not_fn(unknown))) << "unknown ones are not all last";

  const ModelEvaluation evaluation = evaluate_model(folder, table, {});
  std::vector<KernelConfig> expected, picked;
  for (const std::size_t i : order) expected.push_back(table.configs[i]);
  for (const PickedConfig& pick : evaluation.evaluation.results.at(0).picks) picked.push_back(pick.config);
  EXPECT_EQ(picked, expected);
  EXPECT_EQ(evaluation.picks_outside_family, unknown(order[0]) ? 1u : 0u);
}

TEST(ShippedModels, WereNotTrainedOnValidationShapes) {
  std::set<ProblemSizes> validation;
  for (const char* set : {"ck_conv_validation_bwd_data", "ck_conv_validation_bwd_weight"}) {
    for (const ConvProblem& problem : make_conv_set(set, DType::bf16)) validation.insert(sizes_of(problem));
  }
  ASSERT_EQ(validation.size(), 10u);
  std::size_t models = 0;
  for (const auto& folder : std::filesystem::directory_iterator(paths::in_repository("models"))) {
    if (!folder.path().filename().string().starts_with("conv_")) continue;
    ++models;
    const auto trained = training_sizes(folder.path());
    ASSERT_TRUE(trained.has_value()) << folder.path();
    for (const ProblemSizes& sizes : *trained) EXPECT_FALSE(validation.contains(sizes)) << folder.path();
  }
  EXPECT_GE(models, 1u);
}

}  // namespace
}  // namespace kscout
