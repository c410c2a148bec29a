// Tests models under another release of the library (tests/libraries/host_gpu.cpp, HOST_GPU_NEXT), with a
// sample that is not run: it states times, and that algorithms of one attribute compute wrong results.
#include "sweep/model_refresh.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include <kscout/selector.h>

#include "provider/cublaslt/cublaslt.h"
#include "provider/joint.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

constexpr std::int32_t kNext = 130200;

/// Every run takes twice as long as recorded; a split of K into 16 is wrong.
MeasurementTable stated(const SweepPlan& plan, const std::vector<ReferenceProblem>& recorded) {
  MeasurementTable table{plan.device, plan.problems, plan.configs, {}, {}};
  for (std::uint32_t p = 0; p < plan.problems.size(); ++p) {
    for (const std::uint32_t c : plan.candidates[p]) {
      const CublasLtConfig config = CublasLtConfig::from(plan.configs[c]);
      Measurement measured{.time_us = 1};
      if (config.split_k == 16) measured.status = Status::wrong;
      for (const ReferenceProblem& one : recorded) {
        if (one.problem != plan.problems[p]) continue;
        for (const ReferenceTime& time : one.times) {
          const KernelConfig member = member_config(time.config);
          if (member.space != &cublaslt_gemm_space) continue;
          CublasLtConfig old = CublasLtConfig::from(member);
          old.version = config.version;
          old.algorithm = config.algorithm;
          if (old.kernel_config() == plan.configs[c]) measured.time_us = 2 * time.time_us;
        }
      }
      table.rows.push_back({p, c, measured});
    }
  }
  return table;
}

class ModelRefresh : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("KSCOUT_CUDA_MODULE", paths::host_gpu_next, 1); }

  static std::filesystem::path model() { return paths::in_repository("models/gemm_bf16_h200"); }
  static RefreshedModel refreshed() {
    const auto recorded = read_reference_times(model(), provider("nvidia"));
    return refresh_model(model(), [&](const SweepPlan& plan) { return stated(plan, recorded); });
  }
};

TEST_F(ModelRefresh, FindsTheShippedModelsAlgorithmsByTheirAttributes) {
  const RefreshedModel fresh = refreshed();
  EXPECT_EQ(fresh.from, 130100);
  EXPECT_EQ(fresh.to, kNext);
  EXPECT_EQ(fresh.algorithms.at(66), 166);
  EXPECT_EQ(fresh.algorithms.at(24), 124);
  EXPECT_EQ(fresh.algorithms.at(23), 123);
  EXPECT_GT(fresh.pairs, 10u);
  EXPECT_NEAR(fresh.time_ratio, 2, 0.05);  // recorded times are rounded
  const Model old = Model::load(model());
  ASSERT_EQ(fresh.data.families.size(), old.data().families.size());
  std::size_t wrong = 0, left_out = 0;
  for (const RefreshedFamily& family : fresh.families) {
    EXPECT_EQ(family.configs, family.matched + family.unmatched + family.wrong);
    EXPECT_GT(family.matched, family.configs / 2);
    wrong += family.wrong;
    left_out += family.unmatched + family.wrong;
  }
  EXPECT_GT(wrong, 0u);
  EXPECT_EQ(fresh.left_out.size(), left_out);
  // The traits, which the forest reads, keep the old numbers; no name of the old release is left.
  for (const Family& family : fresh.data.families) {
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      const KernelConfig member = member_config(family.configs[i]);
      if (member.space != &cublaslt_gemm_space) continue;
      const CublasLtConfig config = CublasLtConfig::from(member);
      if (config.suggestion > 0) continue;
      EXPECT_EQ(config.version, kNext);
      EXPECT_NE(config.split_k, 16);
      EXPECT_EQ(config.algorithm, family.traits[i].algorithm + 100);
    }
  }
}

TEST_F(ModelRefresh, WritesAModelThatChoosesAsBefore) {
  const test::TemporaryFolder folder;
  const RefreshedModel fresh = refreshed();
  write_refreshed(model(), folder / "fresh", fresh);
  EXPECT_TRUE(std::filesystem::exists(folder / "fresh/train_manifest.json"));
  test::expect_error(Errc::invalid_argument, "name a new folder",
                     [&] { write_refreshed(model(), folder / "fresh", fresh); });
  const Selector before = Selector::load(model()), after = Selector::load(folder / "fresh");
  std::size_t equal = 0, checked = 0;
  for (const auto& [m, n, k] : {std::tuple{16, 4096, 4096},
                                {512, 4096, 14336},
                                {4096, 4096, 4096},
                                {128, 1024, 8192},
                                {64, 2048, 1024},
                                {1000, 3000, 5000}}) {
    const GemmProblem problem = make_gemm(m, n, k, DType::bf16);
    const Choice old = before.select(problem), now = after.select(problem);
    const KernelConfig member = member_config(old.config);
    if (member.space != &cublaslt_gemm_space) continue;
    CublasLtConfig expected = CublasLtConfig::from(member);
    if (expected.suggestion > 0 || expected.split_k == 16) continue;
    expected.version = kNext;
    expected.algorithm += 100;
    ++checked;
    equal += member_config(now.config) == expected.kernel_config();
    EXPECT_NEAR(now.time_us, old.time_us, 0.01 * old.time_us);
  }
  EXPECT_GT(checked, 2u);
  EXPECT_EQ(equal, checked);
  EXPECT_FALSE(read_reference_times(folder / "fresh", provider("nvidia")).empty());
}

TEST_F(ModelRefresh, RefusesModelsWithoutAlgorithmsOfCublasLt) {
  const auto refuses = [](const char* name) {
    test::expect_error(Errc::invalid_argument, "it names no algorithm of cuBLASLt", [&] {
      refresh_model(paths::in_repository(name), [](const SweepPlan&) { return MeasurementTable(); });
    });
  };
  refuses("models/conv_fwd_bf16_h200");
  refuses("tests/models/gemm_fp32_zen3-2c");
  refuses("models/grouped_gemm_bf16_h100");
}

}  // namespace
}  // namespace kscout
