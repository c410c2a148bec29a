#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "evaluate/compare_picks.h"
#include "provider/ck_tile/evaluate/ck_report.h"
#include "support/expect_error.h"
#include "support/random_forest.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::expect_error;

TEST(Criteria, AreThoseOfTheOperation) {
  Summary s;
  s.mean = 0.93, s.p10 = 0.79, s.hit_rate[0] = 0.216;
  const auto forward = target_criteria(Op::conv_fwd, s);
  ASSERT_EQ(forward.size(), 3u);
  EXPECT_TRUE(forward[0].met && forward[1].met);
  EXPECT_FALSE(forward[2].met);  // the public model itself picks the oracle in 21.6 % of the problems
  EXPECT_FALSE(all_met(forward));
  EXPECT_TRUE(all_met(target_criteria(Op::conv_bwd_data, s)));
  EXPECT_TRUE(all_met(target_criteria(Op::gemm, s)));
  s.mean = 0.85;
  EXPECT_FALSE(all_met(target_criteria(Op::conv_bwd_weight, s)));  // above, not at least
  expect_error(Errc::invalid_argument, "models of grouped GEMMs",
               [&] { target_criteria(Op::grouped_gemm, s); });
}

const std::vector<EvaluatedPick> kOld = {
    {"a", "x", 0.90}, {"b", "x", 0.95}, {"c", "y", 1.00}, {"gone", "y", 0.1}};

TEST(ComparePicks, CountsChangesAndStatesItsUnits) {
  const auto c =
      compare_picks(kOld, {{"a", "x", 0.90004}, {"b", "z", 0.96}, {"c", "y", 0.995}, {"new", "x", 1}}, {});
  EXPECT_EQ(c.problems, 3u);
  EXPECT_EQ(c.only_old, 1u);
  EXPECT_EQ(c.only_new, 1u);
  EXPECT_EQ(c.agreeing, 2u);
  EXPECT_EQ(c.same, 1u);  // 0.004 points are no change
  EXPECT_EQ(c.improved, 1u);
  EXPECT_EQ(c.degraded, 1u);
  EXPECT_EQ(c.worst_problem, "c");
  EXPECT_NEAR(c.worst_points, -0.5, 1e-9);
  EXPECT_NEAR(c.mean.points(), 100 * 0.00504 / 3, 1e-9);
  EXPECT_NEAR(c.median.points(), 1, 1e-9);
  // The median moved by a point: a gain, and a difference where those are limited, too.
  EXPECT_TRUE(c.criteria[1].met);
  EXPECT_EQ(c.criteria[1].limit, ">= -0.5 points");
  const std::vector<EvaluatedPick> better = {{"a", "x", 0.93}, {"b", "z", 0.98}};
  EXPECT_TRUE(all_met(compare_picks(kOld, better, {}).criteria));
  const auto both_ways = compare_picks(kOld, better, {.both_ways = true});
  EXPECT_FALSE(both_ways.criteria[0].met);
  EXPECT_EQ(both_ways.criteria[0].limit, "within +-0.5 points");
}

TEST(ComparePicks, RefusesALossOnOneProblem) {
  std::vector<EvaluatedPick> before, after;
  for (int i = 0; i < 100; ++i) before.push_back({std::to_string(i), "x", 0.9});
  after = before;
  after[7].efficiency = 0.81;
  EXPECT_TRUE(all_met(compare_picks(before, after, {}).criteria));
  after[7].efficiency = 0.79;
  const auto c = compare_picks(before, after, {});
  EXPECT_FALSE(c.criteria[3].met);
  EXPECT_TRUE(c.criteria[0].met && c.criteria[1].met && c.criteria[2].met);
}

TEST(ComparePicks, RefusesWhatCannotBeCompared) {
  expect_error(Errc::invalid_argument, "is listed twice", [] {
    compare_picks({{"a", "", 1}, {"a", "", 1}}, kOld, {});
  });
  expect_error(Errc::invalid_argument, "nothing to compare", [] { compare_picks(kOld, {{"q", "", 1}}, {}); });
}

TEST(ReadPicks, ReadsOursAndTheirs) {
  const test::TemporaryFolder folder;
  const auto file = folder / "picks.csv";
  const auto read = [&](const std::string& text) {
    std::ofstream(file, std::ios::trunc) << text;
    return read_picks(file);
  };
  auto picks = read("problem,efficiency,pick\ngemm:1x2x3,0.5,k\n");
  EXPECT_EQ(picks.at(0).problem, "gemm:1x2x3");
  EXPECT_EQ(picks[0].efficiency, 0.5);
  picks = read("problem,efficiency,pick\np,98.9,k\nq,0.5,k\n");
  EXPECT_DOUBLE_EQ(picks.at(0).efficiency, 0.989) << "percent";
  EXPECT_DOUBLE_EQ(picks.at(1).efficiency, 0.005);
  picks = read("problem,efficiency,pick,pick_coarse\np,0.5,k,false\n");
  EXPECT_DOUBLE_EQ(picks.at(0).efficiency, 0.005) << "written by this version: percent, however small";
  picks = read("problem,rank,config,efficiency,coarse\np,1,k,50,true\n");
  EXPECT_EQ(picks.at(0).efficiency, 0.5);
  picks = read("problem,rank,config,efficiency\np,1,k,0.5\np,2,l,1\n");
  ASSERT_EQ(picks.size(), 1u);
  EXPECT_EQ(picks[0].config, "k");
  picks =
      read("m,n,k,oracle_best_tflops,oracle_best_kernel,ml_selected_kernel,efficiency_pct\n1,2,3,9,o,s,50\n");
  EXPECT_EQ(picks.at(0).problem, "1,2,3");
  EXPECT_EQ(picks[0].config, "s");
  EXPECT_EQ(picks[0].efficiency, 0.5);
  picks = read("N,G,oracle_kernel,ml_kernel,efficiency\n8,1,o,k,25\n");
  EXPECT_EQ(picks.at(0).problem, "8,1");
  EXPECT_EQ(picks[0].efficiency, 0.25);
  expect_error(Errc::corrupt_data, "no table of picks", [&] { read("a,b\n1,2\n"); });
  expect_error(Errc::corrupt_data, {"row 1", "'fast'"}, [&] { read("problem,efficiency,pick\np,fast,k\n"); });
}

TEST(CkSummary, UsesTheirPercentiles) {
  std::vector<CkPick> picks;
  for (int i = 1; i <= 20; ++i) picks.push_back({i / 20.0, i == 20, i > 10});
  EXPECT_EQ(
      ck_summary_csv(picks),
      "metric,value\ntotal_problems,20\nmean_efficiency,52.50\np10_efficiency,15.00\np50_efficiency,55.00\n"
      "min_efficiency,5.00\nmax_efficiency,100.00\ntop1_accuracy,5.0\ntop5_hit_rate,50.0\n");
}

TEST(CkTables, JoinByProblemAndCountMissingPicks) {
  const std::string oracle =
      "problem_idx,kernel,tflops\n"
      "0,a,100\n0,b,50\n0,c,25\n0,d,24\n0,e,23\n0,f,22\n"
      "1,a,10\n1,b,20\n"
      "2,a,N/A\n2,b,\n"
      "3,a,5\n";
  const std::string predictions =
      "problem_idx,kernel_name,predicted_tflops,rank\n"
      "0,f,90,1\n0,a,80,2\n"
      "1,b,20,1\n"
      "3,unmeasured,1,1\n";
  const CkComparison c = compare_ck_tables(oracle, "o.csv", predictions, "p.csv");
  ASSERT_EQ(c.picks.size(), 3u);
  EXPECT_EQ(c.without_oracle, 1u);
  EXPECT_EQ(c.without_pick, 0u);
  EXPECT_DOUBLE_EQ(c.picks[0].efficiency, 0.22);
  EXPECT_FALSE(c.picks[0].among_five);  // the sixth of six
  EXPECT_TRUE(c.picks[1].best && c.picks[1].among_five);
  EXPECT_EQ(c.picks[2].efficiency, 0);
  EXPECT_FALSE(c.picks[2].among_five);
  EXPECT_NE(c.problems_csv.find("1,b,20.0000,b,20.0000,100.0000,True\n"), std::string::npos);
  expect_error(Errc::corrupt_data, "p.csv: there is no column 'rank'",
               [&] { compare_ck_tables(oracle, "o.csv", "problem_idx,kernel_name\n0,a\n", "p.csv"); });
}

Model random_conv_model(Op op) {
  ModelData data;
  data.families = {enumerate({.provider = "ck_tile",
                              .signature = signature_of(make_conv(op, DType::bf16, Layout::nhwgc)),
                              .device = device_preset("gfx950"),
                              .rules = "default",
                              .filter = ""})};
  data.schema = std::make_shared<Schema>(Schema::find("ck_conv_83").for_op(op));
  toy::RandomForestOptions options;
  options.features = static_cast<std::uint32_t>(data.schema->size());
  options.categorical = 0;
  data.targets = {{Target::tflops, toy::RandomForest(options, 3).forest(), 0, 1}};
  return Model(std::move(data));
}

TEST(BackwardCheck, PredictsTheirProblemsAndKernels) {
  for (const auto& [op, problems] : {std::pair{Op::conv_bwd_data, 5u}, {Op::conv_bwd_weight, 7u}}) {
    const BackwardCheck check = check_backward(random_conv_model(op));
    ASSERT_EQ(check.lines.size(), problems);
    std::size_t firsts = 0;
    for (const auto& [pipeline, count] : check.pipelines) {
      EXPECT_TRUE(pipeline == "compv3" || pipeline == "mem") << pipeline;
      firsts += count;
    }
    EXPECT_EQ(firsts, problems);
    for (const auto& line : check.lines) {
      ASSERT_EQ(line.tflops.size(), 3u);
      EXPECT_TRUE(std::ranges::is_sorted(line.tflops, std::ranges::greater{}));
      EXPECT_GE(line.gap, 0);
      EXPECT_LE(check.least, line.tflops[0]);
      EXPECT_GE(check.most, line.tflops[0]);
      for (const auto& config : line.best) EXPECT_EQ(config["tile_k"], 64);
    }
  }
  expect_error(Errc::invalid_argument, "conv_fwd", [] { check_backward(random_conv_model(Op::conv_fwd)); });
}

}  // namespace
}  // namespace kscout
