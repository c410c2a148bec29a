// Runs convolutions with filters that were packed once, and compares them with sums in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>

#include "libraries/toy_index.h"
#include "measure/timing.h"
#include "op/conv/conv_reference.h"
#include "op/operands.h"
#include "support/expect_error.h"
#include "support/random_conv.h"
#include "support/share.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using namespace test;

/// A forward or backward-data problem with the operands of a test.
struct FilterCase {
  FilterCase(const ConvProblem& problem, std::uint64_t seed) : p(problem) {
    operands.make(p, seed);
    const auto* const b = static_cast<const float*>(operands.b());
    filter.assign(b, b + operand_elements(p).wei);
  }

  ConvTensors tensors(bool with_filter) {
    const GemmBuffers buffers = GemmBuffers::of(operands.buffers());
    const auto [in, wei, out] = by_tensor<void*>(p.op, const_cast<void*>(buffers.a), nullptr, buffers.c);
    return {.in = in, .wei = with_filter ? filter.data() : wei, .out = out};
  }
  /// Packs, and then spoils the caller's filter.
  PackedFilter pack(Dispatcher& dispatcher) {
    PackedFilter packed = dispatcher.pack_filter(p, {.wei = filter.data()});
    std::ranges::fill(filter, std::numeric_limits<float>::quiet_NaN());
    return packed;
  }
  void expect_right() {
    const Verification found = ConvReference(p, operands).check(operands.c());
    ASSERT_LE(found.error, 1) << found.where;
    ASSERT_EQ(operands.damage(), "");
  }

  ConvProblem p;
  GemmOperands operands;
  std::vector<float> filter;
};

ConvProblem random_filtered(Rng& rng) {
  ConvProblem p = random_conv(rng, one_of(rng, {Op::conv_fwd, Op::conv_bwd_data}));
  if (pick(rng, 0, 3) == 0) p.layout = p.layout == Layout::nhwgc ? Layout::ngchw : Layout::ngcdhw;
  return p;
}

void check_packed(Dispatcher& dispatcher, const ConvProblem& p, std::uint64_t seed) {
  FilterCase one(p, seed + 1);
  const PackedFilter packed = one.pack(dispatcher);
  ASSERT_TRUE(packed.problem().conv().prepacked);
  ASSERT_GT(packed.bytes(), 0u);
  for (int run = 0; run < 2; ++run) {
    GuardedBuffer workspace;
    workspace.resize(packed.workspace_bytes());
    workspace.poison();
    one.operands.reset_c();
    const Solution solution = dispatcher.run(
        packed, one.tensors(false), {.workspace = workspace.data(), .workspace_bytes = workspace.size()});
    ASSERT_EQ(solution.choice.config, packed.solution().choice.config);
    ASSERT_TRUE(solution.form.problem.conv().prepacked);
    one.expect_right();
    ASSERT_EQ(workspace.damage(), "");
    if (testing::Test::HasFatalFailure()) return;
  }
}

Registry only_cpu() {
  Registry registry;
  registry.add(backend("cpu"));
  return registry;
}

TEST(PackedFilter, ThreadsRunRandomProblemsOnAFilterPackedBefore) {
  Dispatcher dispatcher(only_cpu());
  std::size_t turned = 0;
  for (std::uint64_t seed = 0; seed < share_of(1000); ++seed) {
    Rng rng(seed);
    const ConvProblem p = random_filtered(rng);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p));
    turned += p.layout == Layout::ngchw || p.layout == Layout::ngcdhw;
    check_packed(dispatcher, p, seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(turned, share_of(150));
}

/// Kernels that pack nothing and take whole eights of channels: the handle keeps the padded copy.
TEST(PackedFilter, KeepsPaddedCopiesForKernelsThatPackNothing) {
  const TemporaryFolder folder;
  const auto file = folder / "copies.kscout-library.json";
  write_file_atomically(file, toy::picky_conv_index(toy::library_file("toy_conv")).dump());
  Registry registry;
  registry.add_library(file);
  Dispatcher dispatcher(registry);
  std::size_t padded = 0, plain = 0;
  for (std::uint64_t seed = 0; seed < share_of(300); ++seed) {
    Rng rng(seed);
    ConvProblem p = random_filtered(rng);
    if (flop_count(p) > 1e6) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p));
    p.prepacked = true;
    const ExecutionForm form = dispatcher.get_solution(p).form;
    ConvProblem per_call = p;
    per_call.prepacked = false;
    const ExecutionForm other = dispatcher.get_solution(per_call).form;
    ASSERT_EQ(form.copied[kB], other.copied[kB]);
    ASSERT_EQ(form.copy_bytes < other.copy_bytes, form.copied[kB]) << "the filter is not copied in a run";
    (form.copied[kB] ? padded : plain) += 1;
    check_packed(dispatcher, p, seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(padded, share_of(30));
  EXPECT_GT(plain, 0u);
}

TEST(PackedFilter, OutlivesItsDispatcherAndMoves) {
  FilterCase one(parse_conv_problem("conv_fwd:1x8x6x6:16x3x3:pad=1"), 3);
  std::optional<PackedFilter> kept;
  {
    Dispatcher dispatcher(only_cpu());
    const std::int64_t begin = now_ns();
    PackedFilter packed = one.pack(dispatcher);
    EXPECT_GT(packed.setup_us(), 0);
    EXPECT_LE(packed.setup_us(), static_cast<double>(now_ns() - begin) / 1e3)
        << "packing is a part of the call";
    Dispatcher moved = std::move(dispatcher);
    PackedFilter other = std::move(packed);
    one.operands.reset_c();
    moved.run(other, one.tensors(false));
    one.expect_right();
    kept = std::move(other);
  }
  EXPECT_EQ(print(kept->problem()), "conv_fwd:1x8x6x6:16x3x3:fp32:nhwgc:pad=1:prepacked=1");
  Dispatcher another(only_cpu());
  expect_error(Errc::invalid_argument, "another dispatcher packed the filter",
               [&] { another.run(*kept, one.tensors(false)); });
}

TEST(PackedFilter, TheDispatcherKeepsNoFilterByItsAddress) {
  FilterCase one(parse_conv_problem("conv_fwd:1x8x6x6:16x1x1:prepacked=1"), 3);
  Dispatcher dispatcher(only_cpu());
  const std::vector<float> first = one.filter;
  const PackedFilter packed = one.pack(dispatcher);
  one.filter = first;
  for (float& value : one.filter) value *= 2;
  const PackedFilter twice = dispatcher.pack_filter(one.p, {.wei = one.filter.data()});
  std::vector<float> results[2];
  for (const PackedFilter* const filter : {&packed, &twice}) {
    dispatcher.run(*filter, one.tensors(false));
    const auto* const c = static_cast<const float*>(one.operands.c());
    results[filter == &twice].assign(c, c + operand_elements(one.p).out);
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) ASSERT_EQ(2 * results[0][i], results[1][i]) << i;
}

TEST(PackedFilter, MistakesAreNamed) {
  FilterCase one(parse_conv_problem("conv_fwd:1x8x6x6:16x3x3:pad=1"), 3);
  Dispatcher dispatcher(only_cpu());
  const auto refused = [](std::string_view part, const std::function<void()>& call) {
    expect_error(Errc::invalid_argument, part, call);
  };
  refused("'wei' is null", [&] { dispatcher.pack_filter(one.p, {}); });
  refused("the filter is the result", [&] {
    dispatcher.pack_filter(parse_conv_problem("conv_bwd_weight:1x8x6x6:16x3x3:pad=1"),
                           {.wei = one.filter.data()});
  });
  ConvProblem prepacked = one.p;
  prepacked.prepacked = true;
  refused("make one with pack_filter", [&] { dispatcher.run(prepacked, one.tensors(true)); });
  const KernelConfig config = dispatcher.get_solution(prepacked).choice.config;
  refused("make one with pack_filter",
          [&] { dispatcher.run_explicit(prepacked, config, one.tensors(true)); });
  const PackedFilter packed = one.pack(dispatcher);
  refused("'wei' is packed already", [&] { dispatcher.run(packed, one.tensors(true)); });
  ConvTensors tensors = one.tensors(false);
  tensors.in = nullptr;
  refused("'in' is null", [&] { dispatcher.run(packed, tensors); });
  tensors = one.tensors(false);
  tensors.in = tensors.out;
  refused("share memory", [&] { dispatcher.run(packed, tensors); });
  tensors = one.tensors(false);
  tensors.space = {MemoryKind::cuda, 0};
  refused("the packed 'wei' is in host", [&] { dispatcher.run(packed, tensors); });
  refused("a workspace of 0 bytes", [&] {
    alignas(64) std::byte small[64];
    dispatcher.run(packed, one.tensors(false), {.workspace = small, .workspace_bytes = 0});
  });
}

TEST(PackedFilter, RefinementTimesConfigsWhenAFilterIsPacked) {
  FilterCase one(parse_conv_problem("conv_fwd:1x16x12x12:32x3x3:pad=1"), 3);
  const TemporaryFolder folder;
  const DispatchPolicy policy{
      .rules = "tiny", .refine = {.top = 3, .seconds = 60}, .db = folder / "decisions.sqlite"};
  Dispatcher dispatcher(only_cpu(), policy);
  const PackedFilter packed = one.pack(dispatcher);
  EXPECT_EQ(packed.solution().choice.decided_by, ChoiceSource::db);
  one.operands.reset_c();
  dispatcher.run(packed, one.tensors(false));
  one.expect_right();
  Dispatcher other(only_cpu(), policy);
  EXPECT_EQ(other.get_solution(packed.problem()).choice.config, packed.solution().choice.config);
  EXPECT_NE(other.get_solution(one.p).choice.decided_by, ChoiceSource::db)
      << "packed in every call is another problem";
}

TEST(PackedFilter, ASearchOfEveryConfigPacksForEach) {
  FilterCase one(parse_conv_problem("conv_bwd_data:1x8x6x6:16x3x3:pad=1"), 3);
  Dispatcher dispatcher(only_cpu(), {.fallback = Fallback::exhaustive, .rules = "tiny"});
  const PackedFilter packed = one.pack(dispatcher);
  EXPECT_EQ(packed.solution().choice.decided_by, ChoiceSource::db);
  one.operands.reset_c();
  dispatcher.run(packed, one.tensors(false));
  one.expect_right();
}

TEST(PackedFilter, ThreadsShareOneHandle) {
  const ConvProblem p = parse_conv_problem("conv_fwd:1x8x10x10:16x3x3:pad=1");
  FilterCase one(p, 3);
  Dispatcher dispatcher(only_cpu());
  const PackedFilter packed = one.pack(dispatcher);
  one.operands.reset_c();
  dispatcher.run(packed, one.tensors(false));
  one.expect_right();
  const auto* const expected = static_cast<const float*>(one.operands.c());
  const auto elements = static_cast<std::size_t>(operand_elements(p).out);
  std::vector<std::vector<float>> results(4, std::vector<float>(elements));
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          ConvTensors tensors = one.tensors(false);
          tensors.out = result.data();
          dispatcher.run(packed, tensors);
        }
      });
    }
  }
  for (const auto& result : results) EXPECT_TRUE(std::equal(result.begin(), result.end(), expected));
}

}  // namespace
}  // namespace kscout
