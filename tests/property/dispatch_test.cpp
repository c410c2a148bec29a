// Compares select and run with sums in float64: padded problems with kernels that support few sizes, all
// problems with the machine's own kernels.
#include <cstdlib>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>

#include "backend/library/library_index.h"
#include "dispatch/padding.h"
#include "libraries/toy_index.h"
#include "op/gemm/gemm_views.h"
#include "op/operands.h"
#include "support/expect_error.h"
#include "support/random_gemm.h"
#include "support/share.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using namespace test;

/// Computes with guarded operands and a guarded workspace, and compares.
Solution run_and_compare(Dispatcher& dispatcher, const GemmProblem& p, Rng& rng) {
  const Operands x(p, rng, pick(rng, 0, 1) ? Guarded::Edge::behind : Guarded::Edge::before);
  const GemmBuffers buffers{.a = x.a.data(),
                            .b = x.b.data(),
                            .c = x.c.data(),
                            .alpha = one_of(rng, {1.0, -0.5, 2.0, 0.0}),
                            .beta = p.accumulate ? one_of(rng, {1.0, -1.5, 0.0}) : 0.0};
  const std::size_t bytes = dispatcher.workspace_bytes(p);
  const Guarded workspace((bytes + 63) / 64 * 16);
  std::fill_n(workspace.data(), (bytes + 63) / 64 * 16, std::numeric_limits<float>::quiet_NaN());
  const Solution solution =
      dispatcher.run(p, buffers, {.workspace = workspace.data(), .workspace_bytes = bytes});
  expect_product(p, buffers, x);
  return solution;
}

TEST(Padding, MatchesFloat64UnderEveryLayout) {
  const test::TemporaryFolder folder;
  const auto file = folder / "padding.kscout-library.json";
  write_file_atomically(file, toy::index(toy::library_file("toy_good")).dump());
  Registry registry;
  registry.add_library(file);
  Dispatcher dispatcher(registry);
  std::uint64_t direct = 0, padded = 0, taken_apart = 0;
  for (std::uint64_t seed = 0; seed < share_of(800); ++seed) {
    Rng rng(seed);
    GemmProblem p = random_problem(rng);
    if (pick(rng, 0, 4) == 0) p.batch = pick(rng, 4, 7);
    if (pick(rng, 0, 9) == 0) {
      p.m = p.m / 8 * 8;
      p.n = p.n / 16 * 16;
      p.k = p.k / 16 * 16;
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p));
    const Solution solution = run_and_compare(dispatcher, p, rng);
    if (testing::Test::HasFatalFailure()) return;
    const GemmProblem& q = solution.form.problem.gemm();
    ASSERT_TRUE(q.m % 8 == 0 && q.n % 16 == 0 && q.k % 16 == 0 && q.batch <= 4) << print(q);
    const bool empty = p.m == 0 || p.n == 0;
    ASSERT_TRUE(empty || solution.form.padded() == (solution.form.copy_bytes > 0));
    ++(solution.form.padded() ? padded : direct);
    taken_apart += solution.form.calls > 1;
  }
  EXPECT_GT(direct, share_of(10));
  EXPECT_GT(padded, share_of(500));
  EXPECT_GT(taken_apart, share_of(50));
}

/// The same with B packed before, and the caller's B gone.
void pack_and_compare(Dispatcher& dispatcher, const GemmProblem& p, Rng& rng, std::size_t& copied) {
  const Operands x(p, rng, pick(rng, 0, 1) ? Guarded::Edge::behind : Guarded::Edge::before);
  GemmBuffers buffers{.a = x.a.data(),
                      .b = x.b.data(),
                      .c = x.c.data(),
                      .alpha = one_of(rng, {1.0, -0.5, 2.0, 0.0}),
                      .beta = p.accumulate ? one_of(rng, {1.0, -1.5, 0.0}) : 0.0};
  PackedFilter packed = [&] {
    const std::vector<float> gone(x.b.data(), x.b.data() + operand_elements(p).b);
    return dispatcher.pack_b(p, {.b = gone.data()});
  }();
  const ExecutionForm& form = packed.solution().form;
  ASSERT_EQ(packed.problem(), Problem(p));
  ASSERT_EQ(form.packs, form.copied[kB] && form.calls == 1);
  const ExecutionForm with_b = dispatcher.get_solution(p).form;
  ASSERT_TRUE(!form.packs || p.k == 0 || form.copy_bytes < with_b.copy_bytes) << "B is not copied in a run";
  copied += form.packs;
  const Guarded workspace((packed.workspace_bytes() + 63) / 64 * 16);
  buffers.b = nullptr;
  dispatcher.run(packed, buffers,
                 {.workspace = workspace.data(), .workspace_bytes = packed.workspace_bytes()});
  buffers.b = x.b.data();
  expect_product(p, buffers, x);
}

TEST(Padding, BIsCopiedOnceWhereItIsPacked) {
  const test::TemporaryFolder folder;
  const auto file = folder / "padding.kscout-library.json";
  write_file_atomically(file, toy::index(toy::library_file("toy_good")).dump());
  Registry registry;
  registry.add_library(file);
  Dispatcher dispatcher(registry);
  std::size_t copied = 0, problems = 0;
  for (std::uint64_t seed = 0; seed < share_of(300); ++seed) {
    Rng rng(seed);
    GemmProblem p = random_problem(rng);
    if (pick(rng, 0, 4) == 0) p.batch = pick(rng, 4, 7);
    if (p.m == 0 || p.n == 0) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p));
    pack_and_compare(dispatcher, p, rng, copied);
    if (testing::Test::HasFatalFailure()) return;
    ++problems;
  }
  EXPECT_GT(copied, problems / 3);
  EXPECT_LT(copied, problems);

  const GemmProblem p = make_gemm(8, 16, 12, DType::fp32, Layout::rcr);
  std::vector<float> a(8 * 12), b(16 * 12), c(8 * 16);
  const PackedFilter packed = dispatcher.pack_b(p, {.b = b.data()});
  const auto refused = [](std::string_view part, const std::function<void()>& call) {
    expect_error(Errc::invalid_argument, part, call);
  };
  refused("'b' is null", [&] { dispatcher.pack_b(p, {}); });
  refused("C is empty", [&] { dispatcher.pack_b(make_gemm(0, 16, 12), {.b = b.data()}); });
  refused("'b' is packed already",
          [&] { dispatcher.run(packed, GemmBuffers{.a = a.data(), .b = b.data(), .c = c.data()}); });
  refused("'a' is null", [&] { dispatcher.run(packed, GemmBuffers{.c = c.data()}); });
  refused("takes no tensors of a convolution",
          [&] { dispatcher.run(packed, ConvTensors{.in = a.data(), .out = c.data()}); });
  Dispatcher other(registry);
  refused("another dispatcher packed", [&] { other.run(packed, GemmBuffers{.a = a.data(), .c = c.data()}); });
}

/// Plain loops that add a bias, over all of the problem: no kernel of the tests' libraries has an epilogue.
class BiasLaunch final : public Launch {
 public:
  explicit BiasLaunch(const GemmProblem& problem) : p_(problem) {}
  std::size_t workspace_bytes() const noexcept override { return 0; }
  void run(const Buffers& given, void*, Stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    const auto* const a = static_cast<const float*>(buffers.a);
    const auto* const b = static_cast<const float*>(buffers.b);
    const auto* const bias = static_cast<const float*>(buffers.bias);
    const MatrixView view_of_a = view_a(p_), view_of_b = view_b(p_), view_of_c = view_c(p_);
    for (std::int64_t item = 0; item < p_.batch; ++item) {
      for (std::int64_t i = 0; i < p_.m; ++i) {
        for (std::int64_t j = 0; j < p_.n; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < p_.k; ++k)
            sum += double{a[view_of_a.at(item, i, k)]} * b[view_of_b.at(item, k, j)];
          float& c = static_cast<float*>(buffers.c)[view_of_c.at(item, i, j)];
          const double old = buffers.beta != 0 ? buffers.beta * c : 0;
          c = static_cast<float>(buffers.alpha * sum + old + bias[j]);
        }
      }
    }
  }

 private:
  GemmProblem p_;
};

/// Computes a product with a bias in one form, and compares it with float64.
void run_in_form(const GemmProblem& p, const ExecutionForm& form, Rng& rng) {
  const Guarded bias(static_cast<std::size_t>(p.n), Guarded::Edge::behind);
  std::generate_n(bias.data(), p.n, [&] { return static_cast<float>(pick(rng, -8, 8)) / 4; });
  const Operands x(p, rng, Guarded::Edge::behind);
  const GemmBuffers buffers{.a = x.a.data(),
                            .b = x.b.data(),
                            .c = x.c.data(),
                            .alpha = 0.5,
                            .beta = p.accumulate ? -1.5 : 0.0,
                            .bias = bias.data()};
  const auto launch =
      padded_launch(p, form, std::make_unique<BiasLaunch>(form.problem.gemm()), host_memory());
  const Guarded workspace((launch->workspace_bytes() + 63) / 64 * 16);
  launch->run(buffers, workspace.data());
  expect_product(p, buffers, x);
}

TEST(Padding, ABiasIsPaddedWithItsColumns) {
  constexpr double kMaxFlop = 1e5;
  int with_more_columns = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    GemmProblem p = random_problem(rng);
    p.m = std::min<std::int64_t>(p.m, 9);
    p.lda = p.ldb = p.ldc = 0;
    p.epilogue = Epilogue::bias;
    int tried = 0;
    for (const ExecutionForm& form : padded_forms(p)) {
      if (flop_count(form.problem) > kMaxFlop || ++tried > 12) break;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p) + " as " + print(form.problem));
      run_in_form(p, form, rng);
      if (testing::Test::HasFatalFailure()) return;
      with_more_columns += form.problem.gemm().n != p.n;
    }
  }
  EXPECT_GT(with_more_columns, 100);
}

TEST(Padding, AlignedFormsMatchFloat64AndAreAligned) {
  int forms = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    GemmProblem p = random_problem(rng);
    p.m = std::min<std::int64_t>(p.m, 9);
    p.epilogue = Epilogue::bias;
    for (const auto& [form, chosen_for] : aligned_forms(p)) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p) + " as " + print(form.problem));
      const GemmProblem q = form.problem.gemm();
      for (const MatrixView& view : {view_a(q), view_b(q), view_c(q)})
        EXPECT_TRUE(view.lines() <= 1 || view.leading % 4 == 0);
      run_in_form(p, form, rng);
      if (testing::Test::HasFatalFailure()) return;
      ++forms;
    }
  }
  EXPECT_GT(forms, 200);
}

TEST(Padding, CopiesNoMoreThanItMust) {
  GemmProblem p = make_gemm(64, 64, 60, DType::fp32, Layout::rcr);
  p.ldc = 100;
  const std::vector<ExecutionForm> forms = padded_forms(p);
  const auto fits = [](const ExecutionForm& form) { return form.problem.gemm().k % 16 == 0; };
  const auto first = std::ranges::find_if(forms, fits);
  ASSERT_NE(first, forms.end());
  EXPECT_EQ(first->problem.gemm().m, 64);
  EXPECT_EQ(first->problem.gemm().n, 64);
  EXPECT_EQ(first->problem.gemm().k, 64);
  EXPECT_TRUE(first->copied[kA] && first->copied[kB]);
  EXPECT_FALSE(first->copied[kC]) << "C keeps its shape and its leading dimension";
  EXPECT_EQ(first->problem.gemm().ldc, 100);
  EXPECT_DOUBLE_EQ(first->copy_bytes, 2 * 4.0 * 64 * (60 + 64));
  EXPECT_TRUE(padded_forms(make_gemm(5, 5, 5, DType::int4)).empty());
}

std::int64_t extreme_size(Rng& rng) {
  static constexpr std::int64_t kPrimes[] = {2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 127, 131, 251};
  switch (pick(rng, 0, 5)) {
    case 0:
      return 1;
    case 1:
      return pick(rng, 0, 9) == 0 ? 0 : pick(rng, 1, 24);
    case 2:
      return one_of(rng, kPrimes);
    case 3:
      return std::int64_t{1} << pick(rng, 0, 7);
    default:
      return pick(rng, 1, 90);
  }
}

GemmProblem extreme_problem(Rng& rng) {
  GemmProblem p = make_gemm(extreme_size(rng), extreme_size(rng), extreme_size(rng), DType::fp32,
                            static_cast<Layout>(pick(rng, 0, 3)));
  if (pick(rng, 0, 7) == 0) {  // long and thin
    p.m = p.n = p.k = pick(rng, 1, 9);
    std::int64_t* const sizes[] = {&p.m, &p.n, &p.k};
    *one_of(rng, sizes) = pick(rng, 300, 4000);
  }
  p.batch = pick(rng, 0, 3) == 0 ? pick(rng, 2, 5) : 1;
  p.split_k = pick(rng, 0, 9) == 0 ? 1 : 0;
  p.accumulate = pick(rng, 0, 1) != 0;
  const LeadingDimensions packed = leading_dimensions(p);
  const auto stride = [&](std::int64_t line) {
    return line + (pick(rng, 0, 9) == 0 ? pick(rng, 500, 1500) : pick(rng, 0, 20));
  };
  if (pick(rng, 0, 2) == 0) p.lda = stride(packed.a);
  if (pick(rng, 0, 2) == 0) p.ldb = stride(packed.b);
  if (pick(rng, 0, 2) == 0) p.ldc = stride(packed.c);
  return p;
}

/// KSCOUT_DISPATCH_PROBLEMS sets how many; docs/dispatching.md tells of the longest run.
TEST(Dispatch, RandomProblemsMatchFloat64) {
  const std::uint64_t problems = test::asked_or_share_of("KSCOUT_DISPATCH_PROBLEMS", 1000);
  Registry registry;
  registry.add(backend("cpu"));
  Dispatcher dispatcher(registry);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    Rng rng(seed);
    const GemmProblem p = extreme_problem(rng);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p));
    const Solution solution = run_and_compare(dispatcher, p, rng);
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_FALSE(solution.form.padded()) << "native kernels take every size";
  }
  RecordProperty("problems", static_cast<int>(problems));
}

}  // namespace
}  // namespace kscout
