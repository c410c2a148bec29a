// Tests convolutions through kernel libraries, and the reference that verifies them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <gtest/gtest.h>

#include <kscout/conv_problem.h>
#include <kscout/dispatcher.h>
#include <kscout/error.h>

#include "libraries/toy_index.h"
#include "measure/problem_bench.h"
#include "op/conv/conv_reference.h"
#include "select/decision_db.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using namespace test;

class LibraryConv : public testing::Test {
 protected:
  const TemporaryFolder folder;
  Registry registry(const nlohmann::ordered_json& index) const {
    const auto file = folder / "toy.kscout-library.json";
    write_file_atomically(file, index.dump(1));
    Registry registry;
    registry.add_library(file);
    return registry;
  }
  static nlohmann::ordered_json index(Op op = Op::gemm, const std::vector<std::string>& kernels = {},
                                      Layout layout = Layout::nhwgc) {
    return toy::conv_index(toy::library_file("toy_conv"), "cpu", "gfx950", op, kernels, layout);
  }
};

/// Groups, strides, dilation, pads that differ on both sides, sizes that nothing divides.
std::vector<ConvProblem> problems() {
  std::vector<ConvProblem> all;
  for (const char* const direction : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    for (const char* const rest :
         {"1x8x7x5:16x3x3:pad=1", "2x6x9x11:4x3x1:g=2:stride=2:pad_h=1", "1x5x6x6:5x1x1:g=5",
          "1x4x11x9:8x3x2:stride_w=3:dilation_h=2:left_pad_h=2:right_pad_h=1"}) {
      all.push_back(parse_conv_problem(std::string(direction) + ":" + rest));
    }
  }
  return all;
}

TEST_F(LibraryConv, EveryDirectionIsRightByTheReference) {
  Dispatcher dispatcher(registry(index()));
  for (const ConvProblem& problem : problems()) {
    SCOPED_TRACE(print(problem));
    GemmOperands operands;
    operands.make(problem, 3);
    const auto reference = make_reference(problem, operands);
    EXPECT_TRUE(std::isinf(reference->check(operands.c()).error)) << "nothing was written yet";
    const GemmBuffers b = GemmBuffers::of(operands.buffers());
    auto* const first = const_cast<void*>(b.a);
    auto* const second = const_cast<void*>(b.b);
    ConvTensors tensors{first, second, b.c};
    if (problem.op == Op::conv_bwd_data) tensors = {.in = b.c, .wei = second, .out = first};
    if (problem.op == Op::conv_bwd_weight) tensors = {.in = second, .wei = b.c, .out = first};
    const Solution solution = dispatcher.run(problem, tensors);
    EXPECT_EQ(solution.backend->name(), "toyconv");
    const Verification right = reference->check(operands.c());
    EXPECT_LE(right.error, 1) << right.where;
    EXPECT_EQ(operands.damage(), "");
    operands.reset_c();
    dispatcher.run_explicit(problem, solution.choice.config, tensors);
    EXPECT_LE(reference->check(operands.c()).error, 1);
    const std::int64_t elements = operand_elements(problem).out;
    if (problem.op != Op::conv_fwd) continue;
    static_cast<float*>(tensors.out)[elements / 2] += 0.01F;
    const Verification wrong = reference->check(operands.c());
    EXPECT_GT(wrong.error, 1) << "one element of " << elements << " is off";
    EXPECT_NE(wrong.where.find(std::to_string(elements / 2)), std::string::npos);
  }
}

/// The tensor that the direction writes, over the first and over the last element of each that it reads.
TEST_F(LibraryConv, TheResultSharesNoElementWithWhatIsRead) {
  Dispatcher dispatcher(registry(index()));
  for (const char* const direction : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    const ConvProblem problem = parse_conv_problem(std::string(direction) + ":2x8x7x5:16x3x3:pad=1");
    const ConvElements sizes = operand_elements(problem);
    const auto [a, b, c] = by_operand(problem.op, sizes.in, sizes.wei, sizes.out);
    const auto names = by_operand<std::string>(problem.op, "in", "wei", "out");
    std::vector<float> memory(static_cast<std::size_t>(a + b + 2 * c), 1), other(memory.size(), 1);
    const auto run = [&](const float* first, const float* second, float* result) {
      auto* const one = const_cast<float*>(first);
      auto* const two = const_cast<float*>(second);
      dispatcher.run(problem, problem.op == Op::conv_fwd        ? ConvTensors{one, two, result}
                              : problem.op == Op::conv_bwd_data ? ConvTensors{result, two, one}
                                                                : ConvTensors{two, result, one});
    };
    const float* const read = memory.data() + c;
    const std::string with_a = names.c + " and " + names.a + " share memory",
                      with_b = names.c + " and " + names.b + " share memory";
    for (const std::int64_t at : {std::int64_t(1), c + a - 1}) {  // one element in common
      expect_error(Errc::invalid_argument, with_a.c_str(),
                   [&] { run(read, other.data(), memory.data() + at); });
    }
    for (const std::int64_t at : {std::int64_t(1), c + b - 1}) {
      expect_error(Errc::invalid_argument, with_b.c_str(),
                   [&] { run(other.data(), read, memory.data() + at); });
    }
    EXPECT_EQ(memory, std::vector<float>(memory.size(), 1)) << "nothing ran";
    run(read, other.data(), memory.data());  // ends where the first begins
    run(read, read, memory.data());          // what is only read may be the same
  }
}

TEST_F(LibraryConv, ThreeAxesAndLargeProblems) {
  Dispatcher dispatcher(registry(index(Op::conv_fwd, {"toy_conv_fwd"}, Layout::ndhwgc)));
  const ConvProblem problem = parse_conv_problem("conv_fwd:1x16x6x9x8:48x3x3x3:pad=1:stride_d=2");
  ASSERT_GT(flop_count(problem) / 2, 1 << 19) << "else every element is compared";
  GemmOperands operands;
  operands.make(problem, 4);
  const ConvReference reference(problem, operands);
  const GemmBuffers b = GemmBuffers::of(operands.buffers());
  const ConvTensors tensors{const_cast<void*>(b.a), const_cast<void*>(b.b), b.c};
  dispatcher.run(problem, tensors);
  EXPECT_LE(reference.check(b.c).error, 1) << reference.check(b.c).where;
  auto* const out = static_cast<float*>(tensors.out);
  const std::int64_t elements = operand_elements(problem).out;
  const float before = out[elements / 3];
  out[elements / 3] = std::nanf("");
  EXPECT_NE(reference.check(b.c).where.find("never written"), std::string::npos)
      << "wherever the element is that was forgotten";
  out[elements / 3] = before;
  out[elements - 1] += 1;
  EXPECT_GT(reference.check(b.c).error, 1);
}

/// The result as the definition has it, element by element.
void compute(const ConvProblem& problem, GemmOperands& operands) {
  const GemmBuffers b = GemmBuffers::of(operands.buffers());
  const auto* const first = static_cast<const float*>(b.a);
  const auto* const second = static_cast<const float*>(b.b);
  const ConvElements count = operand_elements(problem);
  for (std::int64_t i = 0; i < by_operand(problem.op, count.in, count.wei, count.out).c; ++i) {
    const ConvProducts products = conv_products(problem, i);
    double sum = 0;
    for (std::size_t j = 0; j < products.a.size(); ++j)
      sum += double{first[products.a[j]]} * double{second[products.b[j]]};
    static_cast<float*>(b.c)[i] = static_cast<float>(sum);
  }
}

TEST(ConvReference, OneWrongElementOfALargeResultShows) {
  for (const char* const text :
       {"conv_fwd:2x24x13x11:32x3x3:g=2:pad=1:dilation=2", "conv_fwd:3x64x17x19:64x5x5:fp32:ngchw:g=64:pad=2",
        "conv_fwd:1x8x7x9x8:24x3x3x3:pad=1", "conv_bwd_data:4x24x15x13:32x3x3:g=2:stride=2:pad=1",
        "conv_bwd_data:2x16x15x13:32x3x3:fp32:ngchw:left_pad_h=2",
        "conv_bwd_weight:2x32x13x15:24x3x3:g=2:pad=1",
        "conv_bwd_weight:3x12x17x15:32x3x3:fp32:ngchw:stride=2"}) {
    SCOPED_TRACE(text);
    const ConvProblem problem = parse_conv_problem(text);
    ASSERT_GT(flop_count(problem) / 2, 1 << 19) << "else every element is compared";
    GemmOperands operands;
    operands.make(problem, 5);
    compute(problem, operands);
    const ConvReference reference(problem, operands);
    const Verification right = reference.check(operands.c());
    EXPECT_LE(right.error, 1) << right.where;
    auto* const c = static_cast<float*>(GemmBuffers::of(operands.buffers()).c);
    const ConvElements count = operand_elements(problem);
    const std::int64_t elements = by_operand(problem.op, count.in, count.wei, count.out).c;
    for (std::int64_t i = 1; i < elements; i += elements / 37) {
      const float before = std::exchange(c[i], c[i] + 0.002F);
      EXPECT_GT(reference.check(c).error, 1) << "element " << i << " of " << elements;
      c[i] = before;
    }
  }
}

TEST(ConvReference, FewerRowsAreTheSameRows) {
  for (const char* const text :
       {"conv_fwd:2x24x13x11:32x3x3:g=2:pad=1", "conv_bwd_weight:2x24x13x11:32x3x3:g=2:pad=1"}) {
    const ConvProblem problem = parse_conv_problem(text);
    GemmOperands operands;
    operands.make(problem, 6);
    const ConvRows rows(problem);
    const auto all = row_sums(problem, operands, rows), some = row_sums(problem, operands, rows, 20000),
               least = row_sums(problem, operands, rows, 0);
    EXPECT_EQ(all.size(), static_cast<std::size_t>(rows.count()));
    EXPECT_LT(some.size(), all.size());
    EXPECT_GT(some.size(), least.size());
    EXPECT_FALSE(least.empty());
    for (const RowSum& one : some) {
      const auto same = std::ranges::find(all, one.row, &RowSum::row);
      ASSERT_NE(same, all.end());
      EXPECT_DOUBLE_EQ(one.value, same->value);
      EXPECT_DOUBLE_EQ(one.tolerance, same->tolerance);
    }
  }
}

TEST_F(LibraryConv, RefusesWhatItDoesNotHold) {
  Dispatcher dispatcher(registry(index(Op::conv_fwd, {"toy_conv_fwd"})));
  expect_error(Errc::unsupported, "no kernels for conv_bwd_data",
               [&] { dispatcher.get_solution(parse_conv_problem("conv_bwd_data:1x8x7x5:16x3x3:pad=1")); });
  expect_error(Errc::invalid_argument, "", [&] {
    dispatcher.get_solution(parse_conv_problem("conv_fwd:1x8x2x2:16x3x3"));  // larger than the image
  });
  const ConvProblem problem = parse_conv_problem("conv_fwd:1x8x7x5:16x3x3:pad=1");
  const KernelConfig config = dispatcher.get_solution(problem).choice.config;
  const auto refused = [&](const auto& call) {
    expect_error(Errc::invalid_argument, "a config of ck_tile is not one of native conv_fwd", call);
  };
  refused([&] { backend("cpu").prepare(problem, config); });
  refused([&] { backend("cpu").refusal(problem, config); });
}

/// Operands, the tensors that they are, and the reference.
struct Prepared {
  explicit Prepared(const ConvProblem& problem) {
    operands.make(problem, 3);
    reference = make_reference(problem, operands);
    const GemmBuffers b = GemmBuffers::of(operands.buffers());
    const auto [in, wei, out] = by_tensor(problem.op, const_cast<void*>(b.a), const_cast<void*>(b.b), b.c);
    tensors = {.in = in, .wei = wei, .out = out};
  }
  /// Of a run.
  double error(Dispatcher& dispatcher, const ConvProblem& problem) {
    operands.reset_c();
    dispatcher.run(problem, tensors);
    return reference->check(operands.c()).error;
  }

  GemmOperands operands;
  std::unique_ptr<Reference> reference;
  ConvTensors tensors;
};

TEST_F(LibraryConv, FirstUseTimesTheBestConfigsAndOthersReadIt) {
  const auto kernels = std::vector<std::string>(4, "toy_conv_fwd");
  const Registry toys = registry(index(Op::conv_fwd, kernels));
  const DispatchPolicy policy{.refine = {.top = 3, .seconds = 60}, .db = folder / "decisions.sqlite"};
  ConvProblem problem = parse_conv_problem("conv_fwd:1x8x7x5:16x3x3:pad=1");
  problem.weight = 3;  // not part of a decision
  Prepared prepared(problem);
  Dispatcher dispatcher(toys, policy);
  EXPECT_EQ(dispatcher.get_solution(problem).choice.source, ChoiceSource::analytic);
  EXPECT_LE(prepared.error(dispatcher, problem), 1) << "the timed runs left the result alone";
  const Solution refined = dispatcher.get_solution(problem);
  EXPECT_EQ(refined.choice.source, ChoiceSource::db);
  const auto kept = DecisionDb(policy.db).read();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].problem, "conv_fwd:1x8x7x5:16x3x3:fp32:nhwgc:pad=1");
  EXPECT_EQ(kept[0].config, Selector::name(problem, refined.choice));
  EXPECT_EQ(kept[0].backend, "toyconv");
  EXPECT_EQ(kept[0].time_us, refined.choice.time_us);
  EXPECT_GE(kept[0].timed, 1);
  EXPECT_LE(prepared.error(dispatcher, problem), 1);
  EXPECT_EQ(dispatcher.get_solution(problem).choice.time_us, refined.choice.time_us) << "timed once";
  const Solution other = Dispatcher(toys, {.db = policy.db}).get_solution(problem);
  EXPECT_EQ(other.choice.source, ChoiceSource::db);
  EXPECT_EQ(other.choice.config, refined.choice.config);
}

TEST_F(LibraryConv, AnExhaustiveSearchTakesOnlyRightResultsAndRemembers) {
  const Registry toys = registry(index(Op::conv_fwd, {"toy_conv_lie", "toy_conv_fwd", "toy_conv_lie"}));
  const Family family = toys.backend("toyconv").family(signature_of(make_conv(Op::conv_fwd)), "");
  const DispatchPolicy policy{.fallback = Fallback::exhaustive, .db = folder / "decisions.sqlite"};
  // Directly, and on copies: the library has no kernels for channels first.
  for (const char* const text :
       {"conv_fwd:1x8x7x5:16x3x3:pad=1", "conv_fwd:2x8x6x5:16x3x3:fp32:ngchw:pad=1"}) {
    SCOPED_TRACE(text);
    const ConvProblem problem = parse_conv_problem(text);
    Prepared prepared(problem);
    Dispatcher dispatcher(toys, policy);
    const Solution found = dispatcher.get_solution(problem);
    EXPECT_EQ(found.choice.source, ChoiceSource::db);
    EXPECT_EQ(found.choice.config, family.configs[1]) << "the others compute wrong results";
    EXPECT_GT(found.choice.time_us, 0);
    EXPECT_LE(prepared.error(dispatcher, problem), 1);
    const Solution kept = Dispatcher(toys, policy).get_solution(problem);
    EXPECT_EQ(kept.choice.time_us, found.choice.time_us) << "another dispatcher measures nothing";
  }
  const auto stored = DecisionDb(policy.db).read();
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[0].problem, "conv_fwd:1x8x7x5:16x3x3:fp32:nhwgc:pad=1");
  EXPECT_EQ(stored[1].problem, "conv_fwd:2x8x6x5:16x3x3:fp32:nhwgc:pad=1") << "as the kernel runs it";
}

TEST_F(LibraryConv, ALostDecisionIsReported) {
  const Registry toys = registry(index(Op::conv_fwd, {"toy_conv_fwd", "toy_conv_fwd"}));
  Dispatcher dispatcher(toys, {.fallback = Fallback::exhaustive, .db = "/proc/kscout/none.sqlite"});
  const ConvProblem problem = parse_conv_problem("conv_fwd:1x8x7x5:16x3x3:pad=1");
  EXPECT_EQ(dispatcher.get_solution(problem).choice.source, ChoiceSource::db);
  ASSERT_EQ(dispatcher.warnings().size(), 1u);
  EXPECT_NE(dispatcher.warnings()[0].find("are lost"), std::string::npos) << dispatcher.warnings()[0];
}

TEST_F(LibraryConv, CopiesToTheLayoutAndTheChannelsOfAKernel) {
  Dispatcher dispatcher(registry(toy::picky_conv_index(toy::library_file("toy_conv"))));
  const ConvProblem problem = parse_conv_problem("conv_bwd_data:2x6x7x5:10x3x3:fp32:ngchw:pad=1:g=2");
  Prepared prepared(problem);
  const Solution solution = dispatcher.get_solution(problem);
  EXPECT_EQ(print(solution.form.problem), "conv_bwd_data:2x16x7x5:16x3x3:fp32:nhwgc:pad=1:g=2");
  EXPECT_TRUE(solution.form.copied[kA] && solution.form.copied[kB] && solution.form.copied[kC]);
  EXPECT_GT(dispatcher.workspace_bytes(problem), solution.form.copy_bytes / 4);
  EXPECT_LE(prepared.error(dispatcher, problem), 1);
  expect_error(Errc::unsupported, "", [&] {
    dispatcher.run_explicit(problem, solution.choice.config, prepared.tensors);  // without copies
  });
}

/// The shipped model of gfx950 knows tile and pipeline of its kernels only; CK Tile's libraries know all
/// axes.
TEST_F(LibraryConv, AModelOfShortNamesChoosesAmongTheKernelsThatAgree) {
  const std::string any = "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_";
  auto toys = index();
  toys["serves"] = nlohmann::ordered_json::array(
      {toy::rule("vectors", "p.c % c.vec_a == 0 and p.c % c.vec_b == 0", "whole loads")});
  toys["kernels"] = nlohmann::ordered_json::array();
  for (const char* const rest : {"4x1x1_16x16x16_vec1_1_1", "4x1x1_16x16x16", "4x1x1_16x16x16_vec8_8_8"})
    toys["kernels"].push_back({{"config", any + rest}, {"kernel", "toy_conv_fwd"}});
  const std::string other =
      "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_256x64x64_4x1x1_16x16x16";
  toys["kernels"].push_back({{"config", other}, {"kernel", "toy_conv_fwd"}});
  const Registry all = registry(toys);
  const ConvProblem problem = parse_conv_problem("conv_fwd:2x64x56x56:128x3x3:bf16:nhwgc:pad=1");
  const std::filesystem::path models = paths::in_repository("models");
  const Selector model = Selector::load(models / "conv_fwd_bf16_gfx950");

  const auto expect = [&](Dispatcher& dispatcher, const ConvProblem& of, const char* rest,
                          std::size_t agreeing) {
    SCOPED_TRACE(print(of));
    const Solution found = dispatcher.get_solution(of);
    EXPECT_EQ(found.choice.source, ChoiceSource::model);
    EXPECT_EQ(Selector::name(of, found.choice), any + rest);
    ASSERT_NE(found.model_config.space, nullptr);
    EXPECT_EQ(config_name(signature_of(of), found.model_config),
              "grouped_conv_forward_bf16_2d_64x64x64_compv3");
    EXPECT_EQ(found.agreeing, agreeing);
    const auto ranked = model.rank(of, 20);
    const auto same = std::ranges::find(ranked, found.model_config, &Choice::config);
    ASSERT_NE(same, ranked.end());
    EXPECT_EQ(found.choice.time_us, same->time_us) << "the predictions are the model's";
  };
  setenv("KSCOUT_MODEL_PATH", models.c_str(), 1);
  Dispatcher finds(all);
  expect(finds, problem, "4x1x1_16x16x16_vec8_8_8", 3);
  ConvProblem odd = problem;
  odd.c = 66;  // only single elements divide it
  expect(finds, odd, "4x1x1_16x16x16_vec1_1_1", 1);
  unsetenv("KSCOUT_MODEL_PATH");
  Dispatcher named(model, all.backend("toyconv"));
  expect(named, problem, "4x1x1_16x16x16_vec8_8_8", 3);
}

TEST_F(LibraryConv, TheBenchMeasuresAndCatchesLies) {
  const Registry all = registry(index(Op::conv_fwd, {"toy_conv_fwd", "toy_conv_lie"}));
  Backend& toys = all.backend("toyconv");
  const ConvProblem problem = parse_conv_problem("conv_fwd:1x8x7x5:16x3x3:pad=1");
  const Family family = toys.family(signature_of(problem), "");
  ASSERT_EQ(family.configs.size(), 2u);
  ProblemBench bench({}, 1);
  bench.open(problem);
  EXPECT_EQ(bench.coarse({&toys, family.configs[0]}, 1e9).measured.status, Status::ok);
  const Outcome lie = bench.coarse({&toys, family.configs[1]}, 1e9);
  EXPECT_EQ(lie.measured.status, Status::wrong);
  EXPECT_NE(lie.reason.find("of the result is"), std::string::npos) << lie.reason;
}

}  // namespace
}  // namespace kscout
