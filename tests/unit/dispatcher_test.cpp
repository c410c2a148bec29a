#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "measure/operands.h"
#include "measure/verify.h"

namespace kscout {
namespace {

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

void expect_error(Errc code, std::string_view part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
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
