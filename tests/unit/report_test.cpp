#include "report/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <kscout/error.h>

#include "core/files.h"
#include "core/json_fields.h"
#include "dataset/dataset.h"
#include "op/problem_sets.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/journal.h"

namespace kscout {
namespace {

constexpr std::string_view kHead = "m,n,k,config,time_us\n";
constexpr std::string_view kOneThread =
    "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x1";
constexpr std::string_view kTwoThreads =
    "native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x2";

/// A dataset of a CPU. Rows: "m,n,k", microseconds on one thread and on two.
struct Times {
  std::string sizes;
  double one, two;
};
MeasurementTable table_of(const std::vector<Times>& rows) {
  std::string text(kHead);
  for (const Times& row : rows) {
    text += fmt::format("{},{},{}\n", row.sizes, kOneThread, row.one);
    text += fmt::format("{},{},{}\n", row.sizes, kTwoThreads, row.two);
  }
  return parse_dataset_csv(text, "toy.csv", {.device = device_preset("epyc-7763")});
}

/// Two threads are faster on all problems but the last, on which one thread takes a quarter of the time.
MeasurementTable toy_table() {
  std::vector<Times> rows;
  for (int i = 1; i <= 20; ++i) rows.push_back({fmt::format("{},96,128", 16 * i), 20.0 * i, 10.0 * i});
  rows.push_back({"5000,1,700", 25, 100});
  return table_of(rows);
}

Json score_of(const Json& report, std::string_view who) {
  for (const Json& score : report.at("scores")) {
    if (score.at("who") == who) return score;
  }
  return nullptr;
}

TEST(Report, OfADatasetShowsTheBestFixedConfig) {
  const Json report = Json::parse(dataset_report("toy.csv", toy_table()));
  EXPECT_EQ(report.at("title"), "Dataset toy.csv");
  EXPECT_EQ(report.at("subject"), "fixed");
  EXPECT_EQ(report.at("evaluated"), 21);
  const Json fixed = score_of(report, "fixed");
  EXPECT_EQ(fixed.at("problems"), 21);
  EXPECT_NEAR(fixed.at("mean").get<double>(), (20 * 100 + 25) / 21.0, 0.01);
  EXPECT_EQ(fixed.at("min"), 25);
  EXPECT_TRUE(score_of(report, "model").is_null());
  EXPECT_EQ(score_of(report, "analytic").at("problems"), 21);
  EXPECT_EQ(
      report.at("summary").at(0),
      "The best fixed config reaches 96.4 % of the speed of the fastest measured kernel, on average over 21 "
      "problems. On one problem in ten it is 100.0 % or less; on the worst, 25.0 %.");
}

TEST(Report, NamesTheWorstProblemFirstWithACommand) {
  const Json worst = Json::parse(dataset_report("toy.csv", toy_table())).at("worst");
  ASSERT_EQ(worst.size(), 21U);
  EXPECT_EQ(worst[0].at("problem"), "gemm:5000x1x700:fp32:rcr");
  EXPECT_EQ(worst[0].at("efficiency"), 25);
  EXPECT_EQ(worst[0].at("pick_us"), 100);
  EXPECT_EQ(worst[0].at("best"), kOneThread);
  EXPECT_EQ(worst[0].at("command"), fmt::format("kscout run gemm:5000x1x700:fp32:rcr --config {} --config {}",
                                                kOneThread, kTwoThreads));
  EXPECT_EQ(worst[1].at("command"),
            fmt::format("kscout run {} --config {}", worst[1].at("problem").get<std::string>(), kTwoThreads));
}

TEST(Report, CommandsFitTheDeviceOfTheData) {
  const auto first_command = [](const std::string& file) {
    const MeasurementTable table = read_dataset(paths::in_repository("data/" + file));
    return Json::parse(dataset_report(file, table)).at("worst")[0].at("command").get<std::string>();
  };
  EXPECT_TRUE(first_command("grouped_gemm_bf16_h100.held_out.parquet").ends_with(" --backend cuda"));
  EXPECT_TRUE(first_command("ck_tile_conv_fwd_bf16_gfx950.parquet").ends_with(" --compile"));
  MeasurementTable table = toy_table();
  table.device = device_preset("gfx90a");
  EXPECT_EQ(Json::parse(dataset_report("toy.csv", table)).at("worst")[0].at("command"), "")
      << "nothing runs there";
}

TEST(Report, GroupsBySizeInAscendingOrder) {
  const Json slices = Json::parse(dataset_report("toy.csv", toy_table())).at("slices");
  ASSERT_EQ(slices.at(0).at("by"), "rows of the result (M)");
  std::vector<std::string> labels;
  std::size_t problems = 0;
  for (const Json& value : slices.at(0).at("values")) {
    labels.push_back(value.at("value"));
    problems += value.at("problems").get<std::size_t>();
  }
  EXPECT_EQ(labels, (std::vector<std::string>{"below 32", "32 to 255", "256 to 4095", "4096 and more"}));
  EXPECT_EQ(problems, 21U);
  for (const Json& slice : slices) EXPECT_GE(slice.at("values").size(), 2U) << slice.at("by");
}

TEST(Report, RoofIsThePeakOfTheDevice) {
  const MeasurementTable table = toy_table();
  const Json roof = Json::parse(dataset_report("toy.csv", table)).at("roof");
  EXPECT_NEAR(roof.at("tflops").get<double>(), peak_fp32_gflops(table.device) / 1000, 1e-3);
  EXPECT_EQ(roof.at("tflops_known"), true);
  EXPECT_EQ(roof.at("gb_s"), table.device.memory_gb_s);
}

TEST(Report, RoofIsTheHighestMeasuredSpeedOfAnUnknownDevice) {
  MeasurementTable table = toy_table();
  table.device.fma_per_cycle = table.device.memory_gb_s = Device::unknown;
  const Json report = Json::parse(dataset_report("toy.csv", table));
  double fastest = 0;
  for (const Json& problem : report.at("problems"))
    fastest = std::max(fastest, problem.at("best_tflops").get<double>());
  EXPECT_EQ(report.at("roof").at("tflops"), fastest);
  EXPECT_EQ(report.at("roof").at("tflops_known"), false);
  EXPECT_EQ(report.at("roof").at("gb_s_known"), false);
}

TEST(Report, OfAModelComparesItsChoicesWithTheBaselines) {
  const std::filesystem::path model = paths::in_repository("tests/models/gemm_fp32_zen3-2c");
  const MeasurementTable table =
      read_dataset(paths::in_repository("data/gemm_fp32_zen3-2c.held_out.parquet"));
  ModelEvaluationOptions how;
  how.pool = Pool::accepted;
  const ModelEvaluation evaluation = evaluate_model(model, table, how);
  const Json report = Json::parse(model_report(model, table, {}));
  EXPECT_EQ(report.at("title"), "Model gemm_fp32_zen3-2c");
  EXPECT_EQ(report.at("subject"), "model");
  const std::size_t problems = evaluation.evaluation.results.size();
  EXPECT_EQ(report.at("problems").size(), problems);
  EXPECT_NEAR(score_of(report, "model").at("mean").get<double>(), 100 * evaluation.evaluation.overall.mean,
              0.01);
  for (const Baseline& line : evaluation.baselines) {
    if (line.name != "best static" && line.name != "analytic model") continue;
    const Json score = score_of(report, line.name == "best static" ? "fixed" : "analytic");
    EXPECT_NEAR(score.at("mean").get<double>(), 100 * line.summary.mean, 0.01) << line.name;
    EXPECT_NEAR(score.at("p10").get<double>(), 100 * line.summary.p10, 0.01) << line.name;
  }
  EXPECT_EQ(report.at("worst").size(), kReportedWorst);
  EXPECT_EQ(report.at("worst")[0].at("command"),
            reproduce_command(evaluation, *worst_first(evaluation.evaluation)[0]));
  EXPECT_GT(report.at("calibration").size(), problems);
  EXPECT_FALSE(report.at("confidence").empty());
}

/// A sweep of two problems that was interrupted during the first one.
class SweepReport : public testing::Test {
 protected:
  void SetUp() override {
    plan_ = make_plan({make_gemm(16, 64, 32), make_gemm(64, 64, 64)}, {.rules = "tiny"},
                      device_preset("epyc-7763"), {});
    ASSERT_GE(plan_.configs.size(), 5U);
    std::vector<std::string> lines = {"K1 " + write_manifest(folder_.path(), plan_),
                                      "S1700000000 boot",
                                      "Pa0.1:0-4",
                                      "a0o10,5,4",  // 10 us, spread 0.5 %, 4 samples
                                      "a1o20,30,4",
                                      "a2o30,0,1",
                                      "TC(1,2) is 3 instead of 4",
                                      "a3w,,,,0",
                                      "Tsignal 11",
                                      "a4c,,,,1",
                                      "Ca2500",
                                      "Ca2400",
                                      "Einterrupted 1700000010"};
    std::string text;
    for (const std::string& line : lines) text += journal_line(line);
    write_file_atomically(folder_ / journal_name(1, 1), text);
    report_ = Json::parse(sweep_report(folder_.path()));
  }

  test::TemporaryFolder folder_;
  SweepPlan plan_;
  Json report_;
};

TEST_F(SweepReport, SaysHowFarItCame) {
  EXPECT_EQ(
      report_.at("summary"),
      Json({fmt::format(
                "0 of 2 problems are measured completely; 5 of {} pairs of a problem and a config have a "
                "time or a reason. The newest session ended: interrupted.",
                plan_.pairs()),
            "5 rows were measured in 10 seconds: 0.5 rows per second, verification and set-up included.",
            "2 kernels were wrong, crashed or gave no answer: see the failures below."}));
  EXPECT_FALSE(report_.contains("scores")) << "no problem is measured completely";
  EXPECT_EQ(report_.at("sweep").at("rows"), 5);
}

TEST_F(SweepReport, NamesFailuresWithACommandEach) {
  const Json& failures = report_.at("sweep").at("failures");
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0].at("reason"), "crashed: signal 11");
  EXPECT_EQ(failures[1].at("reason"), "wrong: an element differs from the reference");
  const std::string config = provider("native").print(signature_of(plan_.problems[0]), plan_.configs[4]);
  EXPECT_EQ(failures[0].at("command"), fmt::format("kscout run gemm:16x64x32:fp32:rcr --config {}", config));
}

TEST_F(SweepReport, HasNoiseOfSampledRowsAndClocksInOrder) {
  const Json& noise = report_.at("sweep").at("noise");
  ASSERT_EQ(noise.size(), 2U) << "one sample has no spread";
  EXPECT_EQ(noise[0].at("label"), "0.5");
  EXPECT_EQ(noise[1].at("label"), "5");
  const Json& clocks = report_.at("sweep").at("clocks");
  ASSERT_EQ(clocks.size(), 2U);
  EXPECT_EQ(clocks[0].at("mhz"), 2500);
  EXPECT_EQ(clocks[1].at("mhz"), 2400);
  EXPECT_NE(report_page(report_.dump()).find("<title>Sweep "), std::string::npos);
}

TEST(Report, PageIsWholeAndTheDataCannotEndTheirElement) {
  MeasurementTable table = toy_table();
  const std::string page = report_page(dataset_report("</script><script>alert(1)</script>", table));
  EXPECT_EQ(page.find("</script><script>alert"), page.npos);
  EXPECT_NE(page.find("<title>Dataset &lt;/script>"), page.npos);
  EXPECT_NE(page.find("\\u003c/script>"), page.npos);
  EXPECT_EQ(page.find("{{page"), page.npos);
  EXPECT_TRUE(page.ends_with("</html>\n"));
  for (const std::string_view part :
       {"vegaEmbed", "University of Washington", "prefers-color-scheme", "@media"})
    EXPECT_NE(page.find(part), page.npos) << part;
}

TEST(Report, OfManyProblemsStaysBelowTheLimit) {
  std::vector<Times> rows;
  for (int i = 1; i <= 9000; ++i)
    rows.push_back({fmt::format("{},{},{}", i, 100000 + i, 7 * i), 3e-3 * i, 4e-3 * i});
  const std::string json = dataset_report("large.parquet", table_of(rows));
  const Json report = Json::parse(json);
  EXPECT_EQ(report.at("evaluated"), 9000);
  EXPECT_EQ(score_of(report, "fixed").at("problems"), 9000);
  EXPECT_LE(report.at("problems").size(), kMaxShownProblems);
  EXPECT_GE(report.at("problems").size(), kMaxShownProblems / 2);
  EXPECT_LE(json.size(), kMaxReportData);
  EXPECT_LE(report_page(json).size(), kMaxReportBytes);
}

TEST(Report, LongTextsMakeRoomByShowingFewerProblems) {
  // The text of a grouped GEMM lists the rows of each of its 900 groups.
  std::string rows = "100";
  for (int group = 1; group < 900; ++group) rows += "+100";
  std::string text;
  for (int i = 1; i <= 1500; ++i) text += fmt::format("grouped_gemm:{}x{}x512:bf16\n", rows, 8 * i);
  MeasurementTable table = read_dataset(paths::in_repository("data/grouped_gemm_bf16_h100.held_out.parquet"));
  table.problems = parse_any_problems(text, "long.txt");
  table.rows.clear();
  for (std::uint32_t i = 0; i < table.problems.size(); ++i)
    table.rows.push_back({i, i % 2, {.time_us = 1.0 + i}});
  const std::string json = dataset_report("long.parquet", table);
  const Json report = Json::parse(json);
  EXPECT_EQ(report.at("evaluated"), 1500);
  EXPECT_EQ(report.at("problems").size(), kMaxShownProblems / 4);
  EXPECT_LE(json.size(), kMaxReportData);
}

}  // namespace
}  // namespace kscout
