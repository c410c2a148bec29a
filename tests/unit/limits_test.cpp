// Tests choices under limits: a maximum workspace, equal bits from run to run (kscout/limits.h).
#include <cstdlib>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>
#include <kscout/version.h>

#include "dispatch/padding.h"
#include "measure/problem_bench.h"
#include "provider/cublaslt/cublaslt.h"
#include "select/decision_db.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::expect_error;

constexpr std::int64_t kNone = Limits::none;

std::int64_t workspace_of(ProblemRef problem, const KernelConfig& config) {
  return static_cast<std::int64_t>(backend("cpu").prepare(problem, config)->workspace_bytes());
}

TEST(Limits, HaveATextAndCombine) {
  EXPECT_EQ(print(Limits{}), "");
  EXPECT_EQ(print(Limits{.workspace_bytes = 0}), "workspace<=0");
  EXPECT_EQ(print(Limits{64, true}), "workspace<=64,deterministic");
  EXPECT_EQ(print(Limits{.deterministic = true, .batch_invariant = true}), "deterministic,batch-invariant");
  EXPECT_EQ(both({.batch_invariant = true}, {64, false}), (Limits{64, false, true}));
  EXPECT_EQ(both({64, false}, {kNone, true}), (Limits{64, true}));
  EXPECT_EQ(both({64, false}, {32, false}), (Limits{32, false}));
  EXPECT_EQ(both({}, {}), Limits{});
  expect_error(Errc::invalid_argument, "-2", [] { check(Limits{.workspace_bytes = -2}); });
  expect_error(Errc::invalid_argument, "-7",
               [] { Selector::analytic({.device = detect_cpu(), .limits = {.workspace_bytes = -7}}); });
}

TEST(Limits, AChoiceIsTheFirstOfTheRankingThatKeepsThem) {
  const Selector selector = Selector::analytic({.device = backend("cpu").device()});
  for (const GemmProblem& problem :
       {make_gemm(64, 96, 128), make_gemm(300, 200, 100, DType::fp32, Layout::rrr)}) {
    const auto all = selector.rank(problem, 10000);
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (const Choice& one : all) {
      const std::int64_t bytes = workspace_of(problem, one.config);
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
    ASSERT_LT(least, most) << "the limit excludes none";
    for (const std::int64_t limit : {least, (least + most) / 2, most}) {
      const auto fits = [&](const Choice& one) { return workspace_of(problem, one.config) <= limit; };
      const Choice choice = selector.select(problem, By::best, {.workspace_bytes = limit});
      EXPECT_EQ(choice.config, std::ranges::find_if(all, fits)->config) << limit;
      const auto kept = selector.rank(problem, 10000, By::best, {.workspace_bytes = limit});
      EXPECT_EQ(kept.size(), static_cast<std::size_t>(std::ranges::count_if(all, fits)));
      EXPECT_TRUE(std::ranges::all_of(kept, fits));
    }
    if (least > 0) {
      expect_error(Errc::unsupported, "keeps the limits (workspace<=0)",
                   [&] { selector.select(problem, By::best, {.workspace_bytes = 0}); });
    }
  }
}

/// A problem whose choice needs a workspace, while another config needs less.
GemmProblem problem_with_workspace(const Selector& selector) {
  for (const std::int64_t size : {64, 256, 1000}) {
    for (const Layout layout : {Layout::rrr, Layout::rcr, Layout::crr, Layout::ccr}) {
      const GemmProblem problem = make_gemm(size, size, size, DType::fp32, layout);
      const auto ranked = selector.rank(problem, 10000);
      const std::int64_t first = workspace_of(problem, ranked.front().config);
      if (std::ranges::any_of(ranked,
                              [&](const Choice& one) { return workspace_of(problem, one.config) < first; }))
        return problem;
    }
  }
  ADD_FAILURE() << "no choice needs more workspace than another config";
  return make_gemm(1, 1, 1);
}

TEST(Limits, ArePartOfTheDecisionKey) {
  const Selector selector = Selector::analytic({.device = backend("cpu").device()});
  const GemmProblem problem = problem_with_workspace(selector);
  const Choice free = selector.select(problem);
  const std::int64_t bytes = workspace_of(problem, free.config);
  ASSERT_GT(bytes, 0);
  const Limits limits{.workspace_bytes = bytes - 1};
  for (int i = 0; i < 3; ++i) {
    const Choice limited = selector.select(problem, By::best, limits);
    EXPECT_EQ(limited.source == ChoiceSource::cache, i > 0);
    EXPECT_LT(workspace_of(problem, limited.config), bytes);
    EXPECT_EQ(selector.select(problem).config, free.config);
    EXPECT_EQ(selector.select(problem, By::best, {bytes, true}).config, free.config);
  }
  const auto before = selector.cache_statistics();
  selector.select(problem, By::best, {.workspace_bytes = std::int64_t{1} << 42});
  selector.select(problem, By::best, {.workspace_bytes = std::int64_t{1} << 42});
  EXPECT_EQ(selector.cache_statistics().hits, before.hits) << "such a limit is not cached";
  // Of all choices of a selector.
  const Selector always = Selector::analytic({.device = backend("cpu").device(), .limits = limits});
  EXPECT_LT(workspace_of(problem, always.select(problem).config), bytes);
}

TEST(Limits, ConfigsOfWhichNothingIsKnownAreLeftOut) {
  const GemmProblem gemm = make_gemm(64, 64, 64, DType::bf16);
  const Selector nvidia = Selector::analytic({.device = device_preset("h200")});
  EXPECT_NO_THROW(
      nvidia.select(gemm, By::best, {.workspace_bytes = kCublasLtWorkspace, .deterministic = true}));
  expect_error(Errc::unsupported, "may need a workspace of 33554432 bytes, the limit is 1000",
               [&] { nvidia.select(gemm, By::best, {.workspace_bytes = 1000}); });
  Choice choice;
  EXPECT_EQ(nvidia.try_select(gemm, choice, By::best, {.workspace_bytes = 1000}), SelectStatus::no_config);
  const Problem conv = parse_any_problem("conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1");
  EXPECT_NO_THROW(nvidia.select(conv));
  expect_error(Errc::unsupported, "does not state", [&] {  // which engine a suggestion is, nobody knows yet
    nvidia.select(conv, By::best, {.deterministic = true});
  });
  const Selector amd = Selector::analytic({.device = device_preset("gfx942")});
  expect_error(Errc::unsupported, "'ck_tile' does not state",
               [&] { amd.select(gemm, By::best, {.deterministic = true}); });
}

TEST(Limits, RunsOfADispatcherKeepThem) {
  Dispatcher dispatcher(Selector::analytic({.device = backend("cpu").device()}), backend("cpu"));
  const GemmProblem problem = make_gemm(30, 20, 41, DType::fp32, Layout::rrr);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const Selector selector = Selector::analytic({.device = backend("cpu").device()});
  for (const Choice& one : selector.rank(problem, 10000))
    least = std::min(least, workspace_of(problem, one.config));
  const Limits limits{least, true};
  EXPECT_LE(dispatcher.workspace_bytes(problem, {}, limits), static_cast<std::size_t>(least));
  std::vector<float> a(30 * 41, 0.5F), b(41 * 20, 2.0F), c(30 * 20, 0.0F);
  const GemmBuffers buffers{.a = a.data(), .b = b.data(), .c = c.data()};
  const Solution ran = dispatcher.run(problem, buffers, {.limits = limits});
  EXPECT_LE(workspace_of(problem, ran.choice.config), least);
  for (const float value : c) ASSERT_EQ(value, 41.0F);
  EXPECT_EQ(dispatcher.get_solution(problem).choice.config, selector.select(problem).config);
  if (least > 0) {
    expect_error(Errc::unsupported, "within the limits workspace<=0",
                 [&] { dispatcher.run(problem, buffers, {.limits = {.workspace_bytes = 0}}); });
  }
  const KernelConfig free = selector.select(problem).config;
  if (const std::int64_t bytes = workspace_of(problem, free); bytes > 0) {
    expect_error(Errc::unsupported, "the limit is 0", [&] {
      dispatcher.run_explicit(problem, free, buffers, {.limits = {.workspace_bytes = 0}});
    });
  }
}

TEST(Limits, TheCopiesOfAFormCount) {
  const Problem problem = parse_any_problem("conv_fwd:2x8x9x9:16x3x3:fp32:ngchw");
  std::size_t compared = 0;
  for (const ExecutionForm& form : padded_forms(problem)) {
    const Selector selector = Selector::analytic({.device = backend("cpu").device()});
    Choice choice;
    if (selector.try_select(form.problem, choice) != SelectStatus::ok) continue;
    const KernelConfig& config = choice.config;
    if (!backend("cpu").refusal(form.problem, config).empty()) continue;
    auto inner = backend("cpu").prepare(form.problem, config);
    const std::size_t own = inner->workspace_bytes();
    const auto whole = padded_launch(problem, form, std::move(inner), host_memory());
    EXPECT_EQ(whole->workspace_bytes(), own + copies_bytes(problem, form));
    compared += form.padded();
  }
  EXPECT_GT(compared, 0U);
}

TEST(Limits, KernelsOfTheCpuGiveEqualBitsInEveryRun) {
  const GemmProblem problem = make_gemm(65, 48, 515);
  std::vector<float> a(65 * 515), b(515 * 48);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 1.0F / static_cast<float>(i % 977 + 3);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 1.0F / static_cast<float>(i % 991 + 7) - 0.05F;
  const Selector selector = Selector::analytic({.device = backend("cpu").device()});
  std::size_t runs = 0;
  for (const Choice& one : selector.rank(problem, 40, By::best, {.deterministic = true})) {
    auto launch = backend("cpu").prepare(problem, one.config);
    std::vector<float> first;
    for (int run = 0; run < 4; ++run) {
      std::vector<float> c(65 * 48);
      const auto memory = std::shared_ptr<void>(host_memory().allocate(launch->workspace_bytes() + 64),
                                                [](void* at) { host_memory().release(at); });
      launch->run(GemmBuffers{.a = a.data(), .b = b.data(), .c = c.data()}, memory.get());
      if (run == 0) first = c;
      EXPECT_EQ(std::memcmp(first.data(), c.data(), c.size() * sizeof(float)), 0)
          << Selector::name(problem, one);
      ++runs;
    }
  }
  EXPECT_GT(runs, 4U);
}

class LimitsOfLibrary : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1); }
};

TEST_F(LimitsOfLibrary, ADispatcherAsksTheLibraryForKernelsOfLessWorkspace) {
  // The stand-in needs 256 bytes for all suggestions but the third.
  Backend& gpu = backend("cuda");
  const GemmProblem problem = make_gemm(96, 120, 4096, DType::bf16);
  CublasLtConfig first, third;
  first.suggestion = 1;
  third.suggestion = 3;
  expect_error(Errc::unsupported, "a workspace of 256 bytes, the limit is 255",
               [&] { gpu.prepare_within(problem, first.kernel_config(), {.workspace_bytes = 255}); });
  EXPECT_EQ(gpu.prepare_within(problem, third.kernel_config(), {0, true})->workspace_bytes(), 0U);
  Registry registry;
  registry.add(gpu);
  Dispatcher dispatcher(registry);
  const auto needed = [&](const Limits& limits) {
    const KernelConfig config = dispatcher.get_solution(problem, {}, limits).choice.config;
    return gpu.prepare(problem, config)->workspace_bytes();
  };
  EXPECT_EQ(needed({}), 256U);
  EXPECT_EQ(needed({.workspace_bytes = 256}), 256U);
  EXPECT_EQ(needed({.workspace_bytes = 255}), 0U);
  EXPECT_EQ(dispatcher.workspace_bytes(problem, {}, {.workspace_bytes = 255}), 0U);
}

TEST(LimitsInDb, DecisionsUnderLimitsAreKeptApart) {
  const test::TemporaryFolder folder;
  const DecisionDb db(folder / "decisions.sqlite");
  const Device device = backend("cpu").device();
  const GemmProblem problem = make_gemm(96, 64, 32);
  const Selector plain = Selector::analytic({.device = device});
  const auto ranked = plain.rank(problem, 6);
  ASSERT_EQ(ranked.size(), 6U);
  const auto store = [&](const Choice& choice, const Limits& limits, double us) {
    db.put({.problem = print(Problem(problem)),
            .config = Selector::name(problem, choice),
            .device = device_identity(device),
            .driver = "",
            .version = KSCOUT_VERSION,
            .backend = "cpu",
            .limits = print(limits),
            .time_us = us,
            .timed = 2});
  };
  const Limits deterministic{.deterministic = true};
  store(ranked[3], {}, 10);
  store(ranked[5], deterministic, 5);
  ASSERT_EQ(db.read().size(), 2U);
  const Selector selector = Selector::analytic({.device = device, .db = db.file()});
  EXPECT_EQ(selector.select(problem).config, ranked[3].config);
  const Choice limited = selector.select(problem, By::best, deterministic);
  EXPECT_EQ(limited.config, ranked[5].config);
  EXPECT_EQ(limited.source, ChoiceSource::db);
  // Under other limits, the decision without limits holds where it keeps them.
  EXPECT_EQ(selector.select(problem, By::best, {std::int64_t{1} << 30, true}).config, ranked[3].config);
}

}  // namespace
}  // namespace kscout
