// Tests training on several devices, and the families that a model answers for.
#include <set>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "support/compact_tables.h"
#include "support/expect_error.h"
#include "support/toy.h"
#include "train/families.h"
#include "train/train.h"

namespace kscout {
namespace {

TrainOptions few_rounds() {
  TrainOptions options;
  options.folds = 4;
  options.parameters.rounds = 60;
  options.parameters.leaves = 15;
  return options;
}

/// Measurements of the toy's configs on a CPU that is `speed` times as fast as the toy's.
MeasurementTable measured_on(const std::string& name, const std::string& arch, double speed,
                             std::uint64_t seed) {
  MeasurementTable table = toy::measurements(60, seed);
  table.device.name = name;
  table.device.arch = arch;
  table.configs.clear();
  table.rows.clear();
  // The configs of the rule set with tiles of their own: the toy's cost depends on the tile alone.
  const auto tiny = [&](Layout layout) {
    return enumerate({.signature = signature_of(make_gemm(1, 1, 1, DType::fp32, layout)),
                      .device = table.device,
                      .rules = "tiny",
                      .filter = {}});
  };
  const Family rows = tiny(Layout::rcr), columns = tiny(Layout::crr);
  std::set<std::pair<double, double>> tiles;
  for (std::size_t i = 0; i < rows.configs.size(); ++i) {
    const Traits& traits = rows.traits[i];
    bool in_both = false;
    for (std::size_t j = 0; j < columns.configs.size(); ++j)
      in_both = in_both || columns.configs[j] == rows.configs[i];
    if (!in_both || !tiles.emplace(traits.inner_m, traits.inner_n).second) continue;
    table.configs.push_back(rows.configs[i]);
    for (std::uint32_t p = 0; p < table.problems.size(); ++p) {
      Measurement measured;
      measured.time_us = toy::time_us(table.problems[p].gemm(), traits) / speed;
      measured.repeats = 5;
      table.rows.push_back({p, static_cast<std::uint32_t>(table.configs.size() - 1), measured});
    }
  }
  return table;
}

TrainOptions any_cpu_options() {
  TrainOptions options = few_rounds();
  options.devices = TrainFor::any_cpu;
  options.fold_by = FoldBy::device;
  options.targets = {Target::rank};
  return options;
}

TEST(AnyCpuTraining, EqualProblemsOfSeveralDevicesStayApart) {
  const std::vector tables = {measured_on("a-2c", "a", 1, 3), measured_on("b-2c", "b", 4, 3)};
  const TrainingSet set = make_training_set(test::compact(tables), {}, *toy::schema(), {}, TrainFor::any_cpu);
  ASSERT_EQ(set.devices.size(), 2u);
  ASSERT_EQ(set.problems.size(), 120u);
  for (std::size_t p = 0; p < 60; ++p) {
    EXPECT_EQ(set.problems[p], set.problems[60 + p]);
    EXPECT_EQ(set.device(p).name, "a-2c");
    EXPECT_EQ(set.device(60 + p).name, "b-2c");
    EXPECT_NEAR(set.best_tflops[60 + p] / set.best_tflops[p], 4, 1e-9);
  }
  MeasurementTable gpu = tables[0];
  gpu.device.kind = DeviceKind::gpu;
  test::expect_error(Errc::invalid_argument, "a-2c", [&] {
    make_training_set(test::compact({&gpu, 1}), {}, *toy::schema(), {}, TrainFor::any_cpu);
  });
}

TEST(AnyCpuTraining, EachCpuIsLeftOutWithAllItsKinds) {
  std::vector tables = {measured_on("a-2c", "a", 1, 3), measured_on("a-avx2-2c", "a-avx2", 2, 4),
                        measured_on("b-2c", "b", 4, 5)};
  tables[1].device.isa = "avx2";
  const TrainingResult result =
      train(test::compact(tables), families_of(test::compact(tables), "tiny", TrainFor::any_cpu),
            toy::schema(), any_cpu_options(), nullptr);
  for (std::size_t p = 0; p < result.set.problems.size(); ++p)
    EXPECT_EQ(result.fold_of[p], cpu_of(result.set.device(p)) == "a" ? 0u : 1u);
  ASSERT_EQ(result.devices.size(), 3u);
  for (const DeviceResult& of : result.devices) {
    EXPECT_EQ(of.model.problems, 60u);
    EXPECT_EQ(of.analytic.problems, 0u) << "the toy's schema has no analytic time";
    EXPECT_GT(of.model.mean, of.best_fixed.mean) << of.device.name;
  }
  const Model& model = result.model;
  EXPECT_TRUE(model.data().any_cpu);
  EXPECT_EQ(model.device(), any_cpu());
  EXPECT_FALSE(model.data().shortlist);
  EXPECT_FALSE(model.data().confidence);
  EXPECT_TRUE(
      Model::parse(model.bytes()).for_device(tables[2].device).family(signature_of(make_gemm(4, 4, 4))));
}

TEST(AnyCpuTraining, LearnsFromConfigsOfItsRuleSetAlone) {
  std::vector tables = {measured_on("a-2c", "a", 1, 3), measured_on("b-2c", "b", 4, 3)};
  const auto trained = [&] {
    return train(test::compact(tables), families_of(test::compact(tables), "tiny", TrainFor::any_cpu),
                 toy::schema(), any_cpu_options(), nullptr);
  };
  const std::string before = trained().targets.front().text;
  for (MeasurementTable& table : tables) {
    KernelConfig other = table.configs.front();
    other.set("kc", other["kc"] + 1);  // no config of rule set tiny
    table.configs.push_back(other);
    const auto position = static_cast<std::uint32_t>(table.configs.size() - 1);
    MeasurementTable::Row row = table.rows.front();
    row.config = position;
    row.measured.time_us /= 100;  // it would be the best by far
    table.rows.push_back(row);
  }
  EXPECT_EQ(trained().targets.front().text, before);
  for (MeasurementTable& table : tables)
    std::erase_if(table.rows, [&](const auto& row) { return row.config + 1 != table.configs.size(); });
  test::expect_error(Errc::invalid_argument, "rule set 'tiny'", [&] { trained(); });
}

TEST(AnyCpuTraining, NamesWhatItCannotDo) {
  const std::vector one = {measured_on("a-2c", "a", 1, 3)};
  const auto attempt = [&](const TrainOptions& options) {
    train(test::compact(one), families_of(test::compact(one), "tiny", options.devices), toy::schema(),
          options, nullptr);
  };
  test::expect_error(Errc::invalid_argument, "2 or more CPUs", [&] { attempt(any_cpu_options()); });
  TrainOptions absolute = any_cpu_options();
  absolute.targets = {Target::tflops};
  test::expect_error(Errc::invalid_argument, {"tflops", "relative or rank"}, [&] { attempt(absolute); });
  TrainOptions warm = any_cpu_options();
  warm.warm_start = "somewhere";
  test::expect_error(Errc::invalid_argument, "cannot start from trees", [&] { attempt(warm); });
  TrainOptions single = few_rounds();
  single.fold_by = FoldBy::device;
  test::expect_error(Errc::invalid_argument, "any CPU", [&] { attempt(single); });
  MeasurementTable mixed = one[0];
  mixed.metadata["rules"] = "tiny; full";
  test::expect_error(Errc::invalid_argument, "--rules", [&] {
    families_of(test::compact({&mixed, 1}), "", TrainFor::any_cpu);
  });
}

TEST(FamiliesOf, AnswerForEpiloguesThatTheRuleSetHasConfigsFor) {
  MeasurementTable table;
  table.device = device_preset("h200");
  table.problems = {make_gemm(64, 64, 64, DType::bf16)};
  table.configs = {parse_config_name("cublaslt_gemm_bf16_rcr_v0__suggestion1").config};
  table.rows = {{0, 0, {.status = Status::ok, .time_us = 10, .repeats = 1}}};
  const auto families = [&](std::vector<Epilogue> epilogues) {
    return families_of(test::compact({&table, 1}), "default", TrainFor::one_device, epilogues);
  };
  const auto all = families({Epilogue::bias, Epilogue::bias_gelu});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].signature.epilogue, Epilogue::none) << "measured signatures come first";
  EXPECT_EQ(all[1].signature.epilogue, Epilogue::bias);
  EXPECT_EQ(all[2].signature.epilogue, Epilogue::bias_gelu);
  EXPECT_EQ(all[2].configs.size(), 8u);
}

}  // namespace
}  // namespace kscout
