// Tests batch-invariant choices: rows of equal bits whatever M is (select/class_table.h,
// search/measure_classes.h).
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/provider.h>
#include <kscout/version.h>

#include "core/files.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/joint.h"
#include "search/measure_classes.h"
#include "select/class_table.h"
#include "select/decision_db.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::expect_error;

const GemmProblem kWeight = make_gemm(1, 40, 300);

KernelConfig native(const std::string& how) {
  return parse_config_name("native_gemm_fp32_rcr__scalar_" + how).config;
}

/// K in one block: two register tiles, packed A or not.
KernelConfig whole_k() { return native("tiled_4x2_packab_b0x0x0_n_s1_t1x1"); }
KernelConfig whole_too() { return native("tiled_6x1_packb_b24x0x0_m_s1_t1x1"); }
/// K in blocks of 64, and of 128.
KernelConfig blocked_k() { return native("tiled_4x2_packab_b0x64x0_n_s1_t1x1"); }
KernelConfig blocked_too() { return native("tiled_6x1_packb_b24x64x0_m_s1_t1x1"); }
KernelConfig long_blocks() { return native("tiled_4x2_packab_b0x128x0_n_s1_t1x1"); }
/// Dot products: a small tile has more accumulators.
KernelConfig dot() { return native("dot_4x3_nopack_b0x0x0_n_s1_t1x1"); }

Backend& cpu() { return backend("cpu"); }

TEST(RowRuns, ClassesOfTheCpuAreTheBlocksOfK) {
  RowRuns runs(cpu(), kWeight, 70);
  const RowBits whole = runs.run(whole_k(), 70), blocked = runs.run(blocked_k(), 70);
  EXPECT_EQ(whole.why + blocked.why, "");
  for (const std::int64_t m : {1, 2, 7, 9, 64, 65, 70}) {
    EXPECT_TRUE(runs.run(whole_k(), m).agrees(whole)) << m;
    EXPECT_TRUE(runs.run(whole_too(), m).agrees(whole)) << m;
    EXPECT_TRUE(runs.run(blocked_k(), m).agrees(blocked)) << m;
    EXPECT_TRUE(runs.run(blocked_too(), m).agrees(blocked)) << m;
    EXPECT_FALSE(runs.run(blocked_k(), m).agrees(whole)) << m;
    EXPECT_FALSE(runs.run(long_blocks(), m).agrees(whole)) << m;
    EXPECT_FALSE(runs.run(long_blocks(), m).agrees(blocked)) << m;
  }
}

TEST(RowRuns, RowsThatDependOnTheirPlaceBelongToNoClass) {
  RowRuns runs(cpu(), kWeight, 9);
  EXPECT_EQ(runs.run(dot(), 8).why, "");
  // Row 8 has the values of row 0, but a tile of its own.
  EXPECT_EQ(runs.run(dot(), 9).why, "row 8 differs from an equal row of the same run");
}

TEST(RowRuns, NearlyEveryElementDependsOnTheOrderOfSums) {
  const auto rows = [](const KernelConfig& config) {
    RowRuns runs(cpu(), kWeight, 8);
    std::vector<float> c;
    runs.run(8, [&](const Problem& problem, const GemmBuffers& buffers) {
      const auto launch = cpu().prepare(problem, config);
      std::vector<std::byte> memory(launch->workspace_bytes() + 64);
      void* place = memory.data();
      std::size_t left = memory.size();
      launch->run(buffers, std::align(64, launch->workspace_bytes(), place, left));
      const auto* const data = static_cast<const float*>(buffers.c);
      c.assign(data, data + 8 * problem["n"]);
    });
    return c;
  };
  const auto a = rows(whole_k()), b = rows(blocked_k());
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different += a[i] != b[i];
  EXPECT_GT(different, a.size() * 9 / 10);
}

TEST(RowBits, HaveATextAndAgreeWhereBothHaveRows) {
  RowBits few, all;
  few.of_pattern[0] = 7;
  for (std::size_t i = 0; i < all.of_pattern.size(); ++i) all.of_pattern[i] = 7 + i;
  EXPECT_TRUE(few.agrees(all));
  EXPECT_EQ(RowBits::parse(all.text()).of_pattern, all.of_pattern);
  few.of_pattern[1] = 9;
  EXPECT_FALSE(few.agrees(all));
  expect_error(Errc::corrupt_data, "must be 128 hexadecimal digits", [] { RowBits::parse("12"); });
  expect_error(Errc::corrupt_data, "hexadecimal", [&] { RowBits::parse("x" + all.text().substr(1)); });
}

TEST(CompareRows, LiesBetweenTheTimedOnes) {
  const std::vector<std::int64_t> timed = {1, 2, 4, 16, 64};
  EXPECT_EQ(compared_rows(timed), (std::vector<std::int64_t>{1, 2, 3, 4, 11, 16, 41, 64}));
  EXPECT_EQ(usual_class_rows().front(), 1);
  EXPECT_EQ(usual_class_rows().back(), 4096);
}

/// The classes of kWeight among the configs above, in a file.
class Measured : public testing::Test {
 protected:
  Measured() {
    const std::vector<KernelConfig> configs = {blocked_k(), whole_k(),     dot(),
                                               whole_too(), long_blocks(), blocked_too()};
    measured_ = measure_classes(cpu(), kWeight, configs, {.m = {1, 8, 48}, .every = 16, .seconds = 0.001});
    store_classes(file(), std::span(&measured_.stored, 1));
  }
  std::filesystem::path file() const { return folder_ / "classes.json"; }
  Selector selector() const {
    return Selector::analytic(
        {.device = cpu().device(), .limits = {.batch_invariant = true}, .classes = file()});
  }

  const test::TemporaryFolder folder_;
  ClassMeasurement measured_;
};

TEST_F(Measured, TheChosenClassHoldsAtEveryM) {
  const StoredClass& stored = measured_.stored;
  EXPECT_EQ(stored.weight, "gemm:1x40x300:fp32:rcr");
  EXPECT_EQ(stored.backend, "cpu");
  EXPECT_EQ(stored.library, std::string("kscout=") + KSCOUT_VERSION);
  EXPECT_EQ(stored.every, 16);
  EXPECT_EQ(stored.m.back(), 48);
  ASSERT_FALSE(stored.members.empty());
  RowRuns runs(cpu(), kWeight, 48);
  const RowBits bits = RowBits::parse(stored.bits);
  for (std::int64_t m = 1; m <= 48; ++m) {
    int holding = 0;
    for (const ClassMember& member : stored.members) {
      if (!stored.holds(member, m)) continue;
      ++holding;
      EXPECT_TRUE(runs.run(parse_config_name(member.config).config, m).agrees(bits)) << m << member.config;
    }
    EXPECT_GT(holding, 0) << m;
  }
  EXPECT_EQ(measured_.configs[0].classes, measured_.configs[5].classes);
  EXPECT_EQ(measured_.configs[1].classes, measured_.configs[3].classes);
  EXPECT_NE(measured_.configs[0].classes, measured_.configs[1].classes);
  EXPECT_NE(measured_.configs[0].classes, measured_.configs[4].classes);
}

TEST_F(Measured, AFileKeepsWhatWasStored) {
  StoredClass other = measured_.stored;
  other.weight = "gemm:1x8x8:fp32:rcr";
  store_classes(file(), std::span(&other, 1));
  const auto all = read_classes(file());
  ASSERT_EQ(all.size(), 2U);
  const StoredClass &read = all[0], &stored = measured_.stored;
  EXPECT_EQ(read.weight, stored.weight);
  EXPECT_EQ(read.bits, stored.bits);
  EXPECT_EQ(read.m, stored.m);
  ASSERT_EQ(read.members.size(), stored.members.size());
  EXPECT_EQ(read.members[0].equal, stored.members[0].equal);
  EXPECT_EQ(std::isnan(read.members[0].time_us[1]), std::isnan(stored.members[0].time_us[1]));
  store_classes(file(), all);
  EXPECT_EQ(read_classes(file()).size(), 2U) << "an old class of the weight is replaced";

  EXPECT_TRUE(read_classes(folder_ / "none.json").empty());
  write_file_atomically(file(), "{\"version\": 1, \"weights\": [{}]}");
  expect_error(Errc::corrupt_data, "classes.json", [&] { read_classes(file()); });
  write_file_atomically(file(), "{\"version\": 99, \"weights\": []}");
  expect_error(Errc::unsupported, "version 99, this library reads up to 1", [&] { read_classes(file()); });
}

TEST_F(Measured, ChoicesKeepToTheClass) {
  const Selector selector = this->selector();
  const RowBits bits = RowBits::parse(measured_.stored.bits);
  RowRuns runs(cpu(), kWeight, 48);
  for (const std::int64_t m : {1, 5, 16, 17, 33, 47, 48}) {
    const GemmProblem problem = make_gemm(m, 40, 300);
    const Choice choice = selector.select(problem);
    EXPECT_EQ(choice.source, ChoiceSource::db);
    EXPECT_GT(choice.time_us, 0);
    EXPECT_TRUE(runs.run(choice.config, m).agrees(bits)) << m;
    EXPECT_EQ(selector.select(problem).config, choice.config);
    const auto all = selector.rank(problem, 10);
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].time_us, all[i].time_us);
  }
}

/// Rows of random numbers, where most orders of sums give the same bits for some elements only.
TEST_F(Measured, ADispatcherComputesEqualRowsAtEveryM) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> a(48 * 300), b(40 * 300), expected(48 * 40);
  for (float& x : a) x = normal(random);
  for (float& x : b) x = normal(random);
  Registry registry;
  registry.add(cpu());
  Dispatcher dispatcher(registry, {.limits = {.batch_invariant = true}, .classes = file()});
  const auto run = [&](std::int64_t m) {
    std::vector<float> c(static_cast<std::size_t>(m) * 40);
    dispatcher.run(make_gemm(m, 40, 300), GemmBuffers{.a = a.data(), .b = b.data(), .c = c.data()});
    return c;
  };
  expected = run(48);
  for (std::int64_t m = 1; m < 48; ++m) {
    const auto c = run(m);
    EXPECT_EQ(std::memcmp(c.data(), expected.data(), c.size() * sizeof(float)), 0) << m;
  }
  // Without the class, they may differ: the configs of another class do.
  std::vector<float> other(48 * 40);
  const KernelConfig& outside =
      measured_.configs[measured_.configs[0].classes.back() == measured_.chosen].config;
  dispatcher.run_explicit(make_gemm(48, 40, 300), outside,
                          GemmBuffers{.a = a.data(), .b = b.data(), .c = other.data()});
  EXPECT_NE(other, expected);
}

TEST_F(Measured, AChoiceThatCannotBeKeptSaysWhatToDo) {
  const Selector selector = this->selector();
  expect_error(Errc::unsupported, {"measured for M from 1 to 48", "kscout classes --rows"},
               [&] { selector.select(make_gemm(49, 40, 300)); });
  expect_error(Errc::unsupported, {"has no classes of it on", "kscout classes gemm:1x41x300"},
               [&] { selector.select(make_gemm(8, 41, 300)); });
  expect_error(Errc::unsupported, "layout rcr or rrr",
               [&] { selector.select(make_gemm(8, 40, 300, DType::fp32, Layout::crr)); });
  expect_error(Errc::unsupported, "for GEMMs",
               [&] { selector.select(parse_any_problem("conv_fwd:1x8x4x4:8x1x1")); });
  GemmProblem batched = make_gemm(8, 40, 300);
  batched.batch = 2;
  expect_error(Errc::unsupported, "batch 1", [&] { selector.select(batched); });
  batched.batch = 1;
  batched.accumulate = true;
  expect_error(Errc::unsupported, "accumulate=0", [&] { selector.select(batched); });

  std::string why;
  const GemmProblem problem = make_gemm(8, 40, 300);
  const std::string device = device_identity(cpu().device());
  const auto stored = read_classes(file());
  EXPECT_TRUE(ClassTable(stored, {device, "cpu", "kscout=0.0.1"}, file()).members(problem, why).empty());
  EXPECT_NE(why.find("were measured with kscout=" KSCOUT_VERSION ", here is kscout=0.0.1"), std::string::npos)
      << why;
  EXPECT_NE(why.find("kscout classes --backend cpu gemm:1x40x300:fp32:rcr"), std::string::npos) << why;
  EXPECT_TRUE(ClassTable(stored, {device, "toy", ""}, file()).members(problem, why).empty());
  EXPECT_NE(why.find("of backend cpu, not toy"), std::string::npos) << why;
  EXPECT_TRUE(ClassTable(stored, {"elsewhere", "", ""}, file()).members(problem, why).empty());
  why.clear();
  EXPECT_FALSE(ClassTable(stored, {device, "cpu", ""}, file()).members(problem, why).empty());
  EXPECT_EQ(why, "");
}

/// Stated times: that of the next larger timed M decides.
TEST_F(Measured, TheFastestMemberIsChosenAndSwitchesApplyInsideTheClass) {
  const GemmProblem problem = make_gemm(8, 40, 300);
  const auto name = [&](const KernelConfig& config) { return config_name(signature_of(problem), config); };
  constexpr double kUntimed = std::numeric_limits<double>::quiet_NaN();
  StoredClass stated = measured_.stored;
  stated.every = 2;
  stated.m = {1, 2, 8, 16};
  stated.members = {{name(whole_k()), {1, 1, 1, 1}, {2, kUntimed, 10, 11}},
                    {name(whole_too()), {1, 1, 1, 1}, {1, kUntimed, 9, 20}},
                    {name(blocked_k()), {1, 0, 1, 0}, {3, kUntimed, 8, kUntimed}}};
  store_classes(file(), std::span(&stated, 1));
  const auto chosen = [&](std::int64_t m) { return selector().select(make_gemm(m, 40, 300)).config; };
  EXPECT_EQ(chosen(1), whole_too());
  EXPECT_EQ(chosen(2), whole_too());
  EXPECT_EQ(chosen(7), whole_too()) << "the third one is known at 8 only";
  EXPECT_EQ(chosen(8), blocked_k());
  EXPECT_EQ(chosen(9), whole_k());
  EXPECT_EQ(selector().select(make_gemm(9, 40, 300)).time_us, 11);

  setenv("KSCOUT_FORCE", name(whole_k()).c_str(), 1);
  const Choice forced = selector().select(problem);
  EXPECT_EQ(forced.config, whole_k());
  EXPECT_EQ(forced.source, ChoiceSource::forced);
  setenv("KSCOUT_FORCE", name(dot()).c_str(), 1);
  expect_error(Errc::unsupported, {"KSCOUT_FORCE names", "which is not in the class"},
               [&] { selector().select(problem); });
  unsetenv("KSCOUT_FORCE");
  setenv("KSCOUT_DISABLE", name(blocked_k()).c_str(), 1);
  EXPECT_EQ(chosen(8), whole_too());
  const std::string all = name(blocked_k()) + "," + name(whole_k()) + "," + name(whole_too());
  setenv("KSCOUT_DISABLE", all.c_str(), 1);
  expect_error(Errc::unsupported, "are excluded by KSCOUT_DISABLE", [&] { chosen(8); });
  unsetenv("KSCOUT_DISABLE");
  setenv("KSCOUT_CLASSES", file().c_str(), 1);
  const Selector by_environment =
      Selector::analytic({.device = cpu().device(), .limits = {.batch_invariant = true}});
  EXPECT_EQ(by_environment.select(problem).config, blocked_k());
  unsetenv("KSCOUT_CLASSES");
}

TEST_F(Measured, OptionsWithoutEffectAreErrors) {
  expect_error(Errc::invalid_argument, "have no effect",
               [&] { Dispatcher(Registry(), {.refine = {.top = 3}, .limits = {.batch_invariant = true}}); });
  expect_error(Errc::invalid_argument, "have no effect", [&] {
    Dispatcher(Registry(), {.fallback = Fallback::exhaustive, .limits = {.batch_invariant = true}});
  });
  const std::vector<KernelConfig> configs = {whole_k()};
  expect_error(Errc::invalid_argument, "M 0", [&] {
    measure_classes(cpu(), kWeight, configs, {.m = {0, 4}});
  });
  expect_error(Errc::invalid_argument, "M 4 after 8", [&] {
    measure_classes(cpu(), kWeight, configs, {.m = {8, 4}});
  });
  expect_error(Errc::invalid_argument, "every=0",
               [&] { measure_classes(cpu(), kWeight, configs, {.m = {8}, .every = 0}); });
}

TEST_F(Measured, RowsAreComparedAgain) {
  const Recheck same = recheck_class(cpu(), measured_.stored);
  EXPECT_GT(same.runs, measured_.stored.m.size() / 2);
  EXPECT_TRUE(same.changed.empty());
  StoredClass other = measured_.stored;
  other.bits[0] = other.bits[0] == '0' ? '1' : '0';
  EXPECT_EQ(recheck_class(cpu(), other).changed.size(), same.runs)
      << "every run has a row of the first pattern";
  other.library = "kscout=0.0.1";
  expect_error(Errc::unsupported, {"release kscout=0.0.1", "measure them again"},
               [&] { recheck_class(cpu(), other); });
}

TEST(Classes, AMemberBetweenMeasuredMNeedsEveryRemainder) {
  StoredClass one;
  one.every = 4;
  one.m = {1, 2, 3, 4, 8, 16};
  const std::vector<double> times(6);
  EXPECT_TRUE(one.holds({"", {1, 1, 1, 1, 1, 1}, times}, 12));
  EXPECT_TRUE(one.holds({"", {0, 0, 1, 1, 1, 1}, times}, 5));
  EXPECT_FALSE(one.holds({"", {1, 1, 0, 1, 1, 1}, times}, 12)) << "3 rows sum in another order";
  EXPECT_TRUE(one.holds({"", {1, 1, 0, 1, 1, 1}, times}, 8)) << "measured";
  EXPECT_FALSE(one.holds({"", {1, 1, 1, 1, 0, 1}, times}, 12));
  EXPECT_FALSE(one.holds({"", {1, 1, 1, 1, 1, 1}, times}, 17));
  EXPECT_FALSE(one.holds({"", {1, 1, 0, 1, 1, 1}, times}, 3));
}

TEST(Classes, OfAGpuAreMeasuredInItsMemory) {
  setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
  Backend& gpu = backend("cuda");
  const auto algorithm = [](std::int32_t tile, std::int32_t split_k) {
    return CublasLtConfig{.version = 130100,
                          .algorithm = 7,
                          .tile_m = tile,
                          .tile_n = 64,
                          .tile_k = 32,
                          .stages = 3,
                          .split_k = split_k,
                          .reduction = split_k > 1 ? 2 : 0,
                          .cluster_m = 1,
                          .cluster_n = 1}
        .kernel_config();
  };
  const GemmProblem weight = make_gemm(1, 8, 96, DType::bf16);
  // The stand-in sums split-K slices one by one.
  const std::vector<KernelConfig> configs = {algorithm(64, 1), algorithm(128, 1), algorithm(64, 2),
                                             algorithm(64, 3)};
  const auto measured = measure_classes(gpu, weight, configs, {.m = {1, 4, 9}, .every = 4, .seconds = 0.001});
  EXPECT_EQ(measured.stored.library, std::string("cublaslt_version=130100 kscout=") + KSCOUT_VERSION);
  EXPECT_EQ(measured.stored.classes, 3);
  EXPECT_EQ(measured.configs[0].classes, measured.configs[1].classes);
  EXPECT_NE(measured.configs[0].classes, measured.configs[2].classes);
  EXPECT_NE(measured.configs[2].classes, measured.configs[3].classes);
  const test::TemporaryFolder folder;
  store_classes(folder / "c.json", std::span(&measured.stored, 1));
  Registry registry;
  registry.add(gpu);
  Dispatcher dispatcher(registry, {.limits = {.batch_invariant = true}, .classes = folder / "c.json"});
  for (const std::int64_t m : {1, 3, 4, 6, 9}) {
    const Solution solution = dispatcher.get_solution(make_gemm(m, 8, 96, DType::bf16));
    EXPECT_EQ(CublasLtConfig::from(member_config(solution.choice.config)).split_k,
              CublasLtConfig::from(parse_config_name(measured.stored.members[0].config).config).split_k);
    EXPECT_FALSE(solution.form.padded());
  }
  // Another backend in the same memory is not asked.
  expect_error(Errc::unsupported, "measured for M from 1 to 9",
               [&] { dispatcher.get_solution(make_gemm(10, 8, 96, DType::bf16)); });
}

TEST(Classes, ABiasBelongsToTheWeight) {
  setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
  Backend& gpu = backend("cuda");
  GemmProblem weight = make_gemm(1, 8, 96, DType::bf16);
  const KernelConfig config =
      parse_config_name("cublaslt_gemm_bf16_rcr_v130100__a7_64x64x32_st3_s1_none_w0_o0_any_c0x0").config;
  const RowBits plain = RowRuns(gpu, weight, 9).run(config, 9);
  weight.epilogue = Epilogue::bias;
  RowRuns runs(gpu, weight, 9);
  const RowBits biased = runs.run(config, 9);
  EXPECT_EQ(plain.why + biased.why, "");
  EXPECT_FALSE(plain.agrees(biased));
  EXPECT_TRUE(runs.run(config, 3).agrees(biased));
  const std::vector<KernelConfig> configs = {config};
  const auto measured = measure_classes(gpu, weight, configs, {.m = {1, 9}, .every = 4, .seconds = 0.001});
  EXPECT_EQ(measured.stored.weight, "gemm:1x8x96:bf16:rcr:epilogue=bias");
}

TEST(Classes, CandidatesAreKernelsThatAreTheSameAtEveryM) {
  setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
  Backend& gpu = backend("cuda");
  const Selector selector = Selector::find(Op::gemm, DType::bf16,
                                           {.provider = "cublaslt",
                                            .device = gpu.device(),
                                            .suggestions = [&](ProblemRef problem, std::size_t count) {
                                              return gpu.suggestions(problem, count);
                                            }});
  ASSERT_FALSE(selector.model_path().empty());
  const std::vector<std::int64_t> rows = {1, 64};
  const auto found = class_candidates(selector, gpu, make_gemm(1, 64, 4096, DType::bf16), rows, {});
  ASSERT_FALSE(found.empty());
  bool splits = false;
  for (const KernelConfig& config : found) {
    const auto c = CublasLtConfig::from(config);
    EXPECT_EQ(c.suggestion, 0);
    EXPECT_GT(c.split_k, 0);
    splits = splits || c.split_k > 1;
  }
  EXPECT_TRUE(splits) << "few rows need split K";
}

}  // namespace
}  // namespace kscout
