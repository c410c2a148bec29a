#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "op/gemm/gemm_reference.h"
#include "op/operands.h"
#include "select/decision_db.h"
#include "support/expect_error.h"
#include "support/forking.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::expect_error;

Dispatcher analytic_dispatcher() {
  Backend& cpu = backend("cpu");
  return {Selector::analytic({.device = cpu.device(), .rules = "tiny"}), cpu};
}

double error_of(Dispatcher& dispatcher, const GemmProblem& problem) {
  GemmOperands operands;
  operands.make(problem, 7);
  const GemmReference reference(problem, operands);
  operands.reset_c();
  dispatcher.run(problem, operands.buffers());
  return reference.check(operands.c()).error;
}

TEST(Dispatcher, ComputesWhatWasAsked) {
  Dispatcher dispatcher = analytic_dispatcher();
  GemmProblem accumulating = make_gemm(17, 33, 65, DType::fp32, Layout::rrr);
  accumulating.accumulate = true;
  for (const GemmProblem& problem :
       {make_gemm(64, 48, 80), make_gemm(1, 300, 200), make_gemm(5, 1, 7, DType::fp32, Layout::ccr),
        accumulating, make_gemm(3, 4, 0)}) {
    EXPECT_LE(error_of(dispatcher, problem), 1) << print(problem);
    EXPECT_LE(error_of(dispatcher, problem), 1) << print(problem) << ", run again from what was made ready";
  }
}

TEST(Dispatcher, TellsWhoChose) {
  Dispatcher dispatcher = analytic_dispatcher();
  const Choice choice = dispatcher.get_solution(make_gemm(64, 64, 64)).choice;
  EXPECT_EQ(choice.source, ChoiceSource::analytic);
  EXPECT_EQ(parse_config_name(Selector::name(make_gemm(64, 64, 64), choice)).config, choice.config);
}

TEST(Dispatcher, BetaNeedsAProblemThatAccumulates) {
  Dispatcher dispatcher = analytic_dispatcher();
  float value = 1;
  expect_error(Errc::invalid_argument, "accumulate=1", [&] {
    dispatcher.run(make_gemm(1, 1, 1), {.a = &value, .b = &value, .c = &value, .beta = 1});
  });
}

TEST(Dispatcher, NamedConfigRunsOrSaysWhyNot) {
  Dispatcher dispatcher = analytic_dispatcher();
  const GemmProblem problem = make_gemm(40, 40, 40);
  GemmOperands operands;
  operands.make(problem, 1);
  const GemmReference reference(problem, operands);
  operands.reset_c();
  dispatcher.run_explicit(problem, dispatcher.get_solution(problem).choice.config, operands.buffers());
  EXPECT_LE(reference.check(operands.c()).error, 1);

  KernelConfig foreign(provider("ck_tile").space(Op::gemm));
  EXPECT_THROW(dispatcher.run_explicit(problem, foreign, operands.buffers()), Error);
  expect_error(Errc::unsupported, "fp16",
               [&] { dispatcher.run(make_gemm(4, 4, 4, DType::fp16), operands.buffers()); });
}

TEST(Dispatcher, RefusesAResultThatSharesMemoryWithAnOperand) {
  Dispatcher dispatcher = analytic_dispatcher();
  const GemmProblem problem = make_gemm(8, 8, 8);
  const KernelConfig config = dispatcher.get_solution(problem).choice.config;
  std::vector<float> s(64, 1), t(64, 2), c(64);
  const auto refused = [&](const char* words, const GemmBuffers& buffers) {
    expect_error(Errc::invalid_argument, words, [&] { dispatcher.run(problem, buffers); });
    expect_error(Errc::invalid_argument, words, [&] { dispatcher.run_explicit(problem, config, buffers); });
  };
  refused("c and a share memory", {.a = s.data(), .b = t.data(), .c = s.data()});
  refused("c and b share memory", {.a = t.data(), .b = s.data(), .c = s.data()});
  std::vector<float> long_enough(127);
  refused("c and a share memory", {.a = long_enough.data(), .b = t.data(), .c = long_enough.data() + 63});
  EXPECT_EQ(s, std::vector<float>(64, 1)) << "nothing ran";

  dispatcher.run(problem, {.a = s.data(), .b = s.data(), .c = c.data()});  // A and B may be the same
  EXPECT_EQ(c, std::vector<float>(64, 8));
}

/// Column blocks of one matrix lie between each other's rows and share no element.
TEST(Dispatcher, OperandsMayBeColumnBlocksOfOneMatrix) {
  Dispatcher dispatcher = analytic_dispatcher();
  GemmProblem problem = make_gemm(5, 4, 6, DType::fp32, Layout::rrr);
  problem.lda = problem.ldc = 10;
  std::vector<float> both(50, 1), b(24, 1);
  dispatcher.run(problem, {.a = both.data(), .b = b.data(), .c = both.data() + 6});
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_EQ(both[i], i % 10 < 6 ? 1 : 6) << i;
  expect_error(Errc::invalid_argument, "c and a share memory",
               [&] { dispatcher.run(problem, {.a = both.data(), .b = b.data(), .c = both.data() + 5}); });
}

TEST(Dispatcher, BuffersInMemoryThatNoBackendReachesAreRefused) {
  Dispatcher dispatcher = analytic_dispatcher();
  const GemmProblem problem = make_gemm(8, 8, 8);
  std::vector<float> a(64), b(64), c(64, 5);
  const GemmBuffers buffers{.a = a.data(), .b = b.data(), .c = c.data(), .space = {MemoryKind::cuda, 1}};
  constexpr const char* kWords = "memory cuda:1, which no backend here reaches (cpu reaches host)";
  expect_error(Errc::invalid_argument, kWords, [&] { dispatcher.run(problem, buffers); });
  expect_error(Errc::invalid_argument, kWords, [&] { dispatcher.get_solution(problem, buffers.space); });
  const KernelConfig config = dispatcher.get_solution(problem).choice.config;
  expect_error(Errc::unsupported, "memory cuda:1",
               [&] { dispatcher.run_explicit(problem, config, buffers); });
  const auto launch = backend("cpu").prepare(problem, config);  // and where nobody stands between
  std::vector<std::byte> workspace(launch->workspace_bytes() + 64);
  expect_error(Errc::invalid_argument, "backend cpu reaches host",
               [&] { launch->run(buffers, workspace.data()); });
  EXPECT_EQ(c, std::vector<float>(64, 5));
}

TEST(MemorySpace, IsPrintedAndRead) {
  EXPECT_EQ(print(MemorySpace{}), "host");
  EXPECT_EQ(print(MemorySpace{MemoryKind::hip, 3}), "hip:3");
  EXPECT_EQ(parse_memory_space("hip:3"), (MemorySpace{MemoryKind::hip, 3}));
  EXPECT_EQ(parse_memory_space("cuda"), (MemorySpace{MemoryKind::cuda, 0}));
  for (const char* const wrong : {"host:1", "cuda:", "cuda:-1", "hip:1x", ""})
    EXPECT_THROW(parse_memory_space(wrong), Error) << wrong;
  expect_error(Errc::invalid_argument, "did you mean 'cuda'", [] { parse_memory_space("cudo:0"); });
}

/// Nothing that is given is silently left unread.
TEST(Dispatcher, RefusesBiasAndScalesThatTheProblemDoesNotHave) {
  Dispatcher dispatcher = analytic_dispatcher();
  const GemmProblem problem = make_gemm(8, 8, 8);
  std::vector<float> a(64), b(64), c(64), more(8);
  const GemmBuffers plain{.a = a.data(), .b = b.data(), .c = c.data()};
  GemmBuffers buffers = plain;
  buffers.bias = more.data();
  expect_error(Errc::invalid_argument, "the epilogue is none", [&] { dispatcher.run(problem, buffers); });
  buffers = plain;
  buffers.scale_b = more.data();
  expect_error(Errc::invalid_argument, "scales are for operands of 8-bit floats",
               [&] { dispatcher.run(problem, buffers); });
  GemmProblem with_bias = problem;
  with_bias.epilogue = Epilogue::bias;
  expect_error(Errc::invalid_argument, "'bias' is null", [&] { dispatcher.run(with_bias, plain); });
}

/// Right results with the caller's workspace, wrong arguments without.
TEST(Dispatcher, RunsInTheCallersWorkspace) {
  Dispatcher dispatcher = analytic_dispatcher();
  const GemmProblem problem = make_gemm(70, 90, 110, DType::fp32, Layout::crr);
  GemmOperands operands;
  operands.make(problem, 1);
  const GemmReference reference(problem, operands);
  operands.reset_c();
  GuardedBuffer workspace;
  workspace.resize(dispatcher.workspace_bytes(problem));
  ASSERT_GT(workspace.size(), 0) << "a problem that packs is needed here";
  dispatcher.run(problem, operands.buffers(),
                 {.workspace = workspace.data(), .workspace_bytes = workspace.size()});
  EXPECT_LE(reference.check(operands.c()).error, 1);
  EXPECT_EQ(workspace.damage(), "");
  expect_error(Errc::invalid_argument, "are needed", [&] {
    dispatcher.run(problem, operands.buffers(),
                   {.workspace = workspace.data(), .workspace_bytes = workspace.size() - 1});
  });
  expect_error(Errc::invalid_argument, "is not aligned to 64 bytes", [&] {
    dispatcher.run(problem, operands.buffers(),
                   {.workspace = workspace.data() + 16, .workspace_bytes = workspace.size()});
  });
}

/// A config of two threads, so that a run needs the pool.
KernelConfig two_threads(const GemmProblem& problem) {
  const Family family =
      enumerate({.signature = signature_of(problem), .device = backend("cpu").device(), .filter = {}});
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    const KernelConfig config = family.configs[i];
    if (config["threads_m"] * config["threads_n"] == 2 && backend("cpu").refusal(problem, config).empty()) {
      return config;
    }
  }
  return KernelConfig();
}

/// 0 when the child computes the product rightly.
int child_status(const std::function<double()>& error) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // threads that are not there would be waited for
    int status = 2;
    try {
      status = error() <= 1 ? 0 : 1;
    } catch (...) {
    }
    _exit(status);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Dispatcher, ForkedProcessesComputeBeforeAndAfterTheFirstRun) {
  if (backend("cpu").device().cores < 2) GTEST_SKIP() << "one core: no config starts threads";
  Dispatcher dispatcher = analytic_dispatcher();
  const GemmProblem problem = make_gemm(192, 192, 192);
  dispatcher.get_solution(problem);
  const KernelConfig config = two_threads(problem);
  ASSERT_NE(config.space, nullptr);
  GemmOperands operands;
  operands.make(problem, 7);
  const GemmReference reference(problem, operands);
  const auto error = [&] {
    operands.reset_c();
    dispatcher.run_explicit(problem, config, operands.buffers());
    return reference.check(operands.c()).error;
  };
  EXPECT_EQ(child_status(error), 0) << "forked before the first run";
  EXPECT_LE(error(), 1);
  EXPECT_EQ(child_status(error), 0) << "forked when the parent's threads were running";
  const auto launch = backend("cpu").prepare(problem, config);
  GuardedBuffer workspace;
  workspace.resize(launch->workspace_bytes());
  EXPECT_EQ(child_status([&] {
              operands.reset_c();
              launch->run(operands.buffers(), workspace.data());
              return reference.check(operands.c()).error;
            }),
            0)
      << "forked between making ready and running";
  EXPECT_LE(error(), 1);
}

/// A child that is forked while other threads are inside calls finds nothing locked and nothing half changed.
TEST(Dispatcher, ForksWhileOtherThreadsAreInside) {
  KSCOUT_SKIP_IF_FORKS_HANG();
  Dispatcher dispatcher = analytic_dispatcher();
  const bool pool = backend("cpu").device().cores >= 2;
  const GemmProblem large = make_gemm(96, 96, 96);
  const KernelConfig config = pool ? two_threads(large) : dispatcher.get_solution(large).choice.config;
  ASSERT_NE(config.space, nullptr);
  GemmOperands first;
  first.make(large, 7);  // the numbers that fill operands are no part of a dispatcher, and made on first use
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      GemmOperands operands;
      operands.make(large, 7);
      for (std::int64_t size = 1; !stop; size = size % 40 + 1) {
        const GemmProblem problem =
            t == 0 ? large : make_gemm(size, 1 + size % 7, 33);  // made ready again and again
        GemmOperands own;
        if (t == 0) {
          dispatcher.run_explicit(large, config, operands.buffers());
        } else {
          own.make(problem, 7);
          dispatcher.run(problem, own.buffers());
        }
      }
    });
  }
  const auto in_child = [&] {
    return std::max(error_of(dispatcher, large), error_of(dispatcher, make_gemm(17, 19, 23)));
  };
  int wrong = 0;
  for (int i = 0; i < 60 && wrong == 0; ++i) {
    wrong = child_status(in_child);
    EXPECT_EQ(wrong, 0) << "fork " << i << (WIFSIGNALED(wrong) ? ": ended by a signal (14: it hung)" : "");
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Dispatcher, KernelsOfMoreThreadsThanAllowedAreNotChosenAndNotRun) {
  if (backend("cpu").device().cores < 2) GTEST_SKIP() << "one core: no config starts threads";
  const GemmProblem problem = make_gemm(512, 512, 512);
  Registry registry;
  registry.add(backend("cpu"));
  Dispatcher limited(registry, {.threads = 1});
  EXPECT_EQ(host_threads(limited.get_solution(problem).choice.config), 1);
  const KernelConfig two = two_threads(problem);
  GemmOperands operands;
  operands.make(problem, 1);
  expect_error(Errc::unsupported, "computes with 2 threads, 1 is allowed (asked for)",
               [&] { limited.run_explicit(problem, two, operands.buffers()); });
  // A selector of the caller's own knows of no limit: its choice is passed over.
  Dispatcher chosen(Selector::analytic({.device = backend("cpu").device()}), backend("cpu"), {.threads = 1});
  EXPECT_EQ(host_threads(chosen.get_solution(problem).choice.config), 1);
  Dispatcher free(registry, {.threads = 2});
  free.run_explicit(problem, two, operands.buffers());
  expect_error(Errc::invalid_argument, "threads=-1", [&] { Dispatcher(registry, {.threads = -1}); });
  for (const double seconds : {std::nan(""), -1.0}) {
    expect_error(Errc::invalid_argument, "refinement of",
                 [&] { Dispatcher(registry, {.refine = {.top = 2, .seconds = seconds}}); });
  }
}

/// The machine's kernels, counted; every config but `right` computes one element wrongly when `right` is set.
class WatchedBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "watched"; }
  std::string_view provider() const noexcept override { return "native"; }
  const Device& device() override { return real_.device(); }
  Family family(const Signature& signature, std::string_view rules) override {
    return real_.family(signature, rules);
  }
  Memory& memory() override {
    ++touches;
    return real_.memory();
  }
  MemorySpace space() override { return {}; }
  std::string refusal(ProblemRef problem, const KernelConfig& config) override {
    return real_.refusal(problem, config);
  }
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    ++touches;
    const bool spoil = right && *right != config;
    return std::make_unique<WatchedLaunch>(real_.prepare(problem, config), spoil, touches);
  }

  int touches = 0;
  std::optional<KernelConfig> right;

 private:
  class WatchedLaunch final : public Launch {
   public:
    WatchedLaunch(std::unique_ptr<Launch> real, bool spoil, int& touches)
        : real_(std::move(real)), spoil_(spoil), touches_(touches) {}
    std::size_t workspace_bytes() const noexcept override { return real_->workspace_bytes(); }
    void run(const Buffers& given, void* workspace, Stream stream) override {
      const GemmBuffers buffers = GemmBuffers::of(given);
      ++touches_;
      real_->run(buffers, workspace, stream);
      if (spoil_) static_cast<float*>(buffers.c)[0] += 1;
    }

   private:
    std::unique_ptr<Launch> real_;
    bool spoil_;
    int& touches_;
  };
  Backend& real_ = backend("cpu");
};

TEST(Dispatcher, SelectingTouchesNoDevice) {
  WatchedBackend watched;
  Registry registry;
  registry.add(watched);
  const GemmProblem problem = make_gemm(20, 30, 40);
  EXPECT_FALSE(registry.kernels(signature_of(problem), "tiny").empty());
  Dispatcher dispatcher(registry, {.rules = "tiny"});
  const Solution solution = dispatcher.get_solution(problem);
  EXPECT_EQ(registry.supports(problem, solution.choice.config).backend, &watched);
  EXPECT_THROW(dispatcher.get_solution(make_gemm(4, 4, 4, DType::fp16)), Error);
  EXPECT_EQ(watched.touches, 0);
  EXPECT_GT(dispatcher.workspace_bytes(problem), 0U);
  EXPECT_GT(watched.touches, 0);
}

/// A dispatcher without a model: a search chooses, or a file of decisions.
Dispatcher searching(WatchedBackend& watched, const std::filesystem::path& db = {}) {
  return {Selector::analytic({.device = watched.device(), .rules = "tiny", .db = db}), watched,
          DispatchPolicy{.fallback = Fallback::exhaustive, .rules = "tiny", .db = db}};
}

TEST(Dispatcher, ExhaustiveSearchTakesOnlyRightResultsAndRemembers) {
  WatchedBackend watched;
  const GemmProblem problem = make_gemm(60, 61, 62);
  const Family family = watched.family(signature_of(problem), "tiny");
  std::vector<std::uint8_t> applicable;
  applicable_configs(family, problem, applicable);
  for (std::size_t i = 0; i < applicable.size(); ++i) {
    if (applicable[i] != 0) watched.right = family.configs[i];  // the last applicable one
  }
  Dispatcher dispatcher = searching(watched);
  const Solution solution = dispatcher.get_solution(problem);
  EXPECT_EQ(solution.choice.source, ChoiceSource::db);
  EXPECT_EQ(solution.choice.config, *watched.right);
  EXPECT_GT(solution.choice.time_us, 0);
  const int touches = watched.touches;
  EXPECT_GT(touches, static_cast<int>(family.configs.size()))
      << "each applicable config was made ready and run";
  EXPECT_EQ(dispatcher.get_solution(problem).choice.config, *watched.right);
  EXPECT_EQ(watched.touches, touches) << "remembered, not measured again";

  watched.right = KernelConfig(provider("native").space(Op::gemm));  // nobody is right
  Dispatcher all_failing = searching(watched);
  EXPECT_EQ(all_failing.get_solution(problem).choice.source, ChoiceSource::analytic);
}

TEST(Dispatcher, WhatASearchFoundIsKeptInTheFileOfDecisions) {
  const test::TemporaryFolder folder;
  const auto file = folder / "decisions.sqlite";
  WatchedBackend watched;
  const GemmProblem problem = make_gemm(60, 61, 62);
  const Solution found = searching(watched, file).get_solution(problem);
  const int touches = watched.touches;
  const Solution kept = searching(watched, file).get_solution(problem);
  EXPECT_EQ(watched.touches, touches) << "another dispatcher measures nothing";
  EXPECT_EQ(kept.choice.source, ChoiceSource::db);
  EXPECT_EQ(kept.choice.config, found.choice.config);
  EXPECT_EQ(kept.choice.time_us, found.choice.time_us);

  const auto stored = DecisionDb(file).read();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].problem, print(problem));
  EXPECT_EQ(stored[0].backend, watched.name());
  EXPECT_EQ(stored[0].time_us, found.choice.time_us);
  EXPECT_GE(stored[0].timed, 1);
}

TEST(Dispatcher, AFileThatCannotBeWrittenCostsNoAnswerAndIsReported) {
  WatchedBackend watched;
  Dispatcher dispatcher = searching(watched, "/proc/kscout/none.sqlite");
  EXPECT_EQ(dispatcher.get_solution(make_gemm(20, 21, 22)).choice.source, ChoiceSource::db);
  dispatcher.get_solution(make_gemm(20, 21, 23));
  const auto warnings = dispatcher.warnings();
  ASSERT_EQ(warnings.size(), 1u) << "each text once";
  EXPECT_NE(warnings[0].find("are lost"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("/proc/kscout"), std::string::npos) << warnings[0];
}

TEST(Registry, NamesTheRuleThatRefuses) {
  Registry registry;
  registry.add(backend("cpu"));
  const GemmProblem problem = make_gemm(64, 64, 64);
  const auto refusal = [&](std::string_view name) {
    return registry.supports(problem, parse_config_name(name).config).refusal;
  };
  EXPECT_EQ(refusal("native_gemm_fp32_rcr__scalar_tiled_4x2_packab_b64x64x64_n_s1_t1x1"), "");
  EXPECT_NE(refusal("native_gemm_fp32_rcr__scalar_tiled_4x2_nopack_b64x64x64_n_s1_t1x1")
                .find("rule 'outer-packs-columns': "),
            std::string::npos);
  GemmProblem whole = problem;
  whole.split_k = 1;
  const auto split = parse_config_name("native_gemm_fp32_rcr__scalar_tiled_4x2_packab_b64x64x64_n_s2_t1x1");
  if (backend("cpu").device().cores >= 2) {
    EXPECT_NE(registry.supports(whole, split.config).refusal.find("rule 'asked-split-k': "),
              std::string::npos);
  }
}

TEST(Dispatcher, ThreadsMayShareOne) {
  Dispatcher dispatcher = analytic_dispatcher();
  std::vector<double> errors(4, 99);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto size = static_cast<std::int64_t>(20 + t);
      for (int i = 0; i < 20; ++i) errors[t] = error_of(dispatcher, make_gemm(size, size + i, size));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const double error : errors) EXPECT_LE(error, 1);
}

}  // namespace
}  // namespace kscout
