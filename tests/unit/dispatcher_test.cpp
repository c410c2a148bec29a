#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
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
  const Choice choice = dispatcher.choose(make_gemm(64, 64, 64));
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
  dispatcher.run_explicit(problem, dispatcher.choose(problem).config, operands.buffers());
  EXPECT_LE(reference.check(operands.c()).error, 1);

  KernelConfig foreign(provider("ck_tile").space(Op::gemm));
  EXPECT_THROW(dispatcher.run_explicit(problem, foreign, operands.buffers()), Error);
  expect_error(Errc::unsupported, "fp16",
               [&] { dispatcher.run(make_gemm(4, 4, 4, DType::fp16), operands.buffers()); });
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
