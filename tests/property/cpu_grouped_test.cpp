// Compares every schedule, kind and instruction set of backend `cpu` for grouped GEMMs, and what a dispatcher
// runs, with products in float64, group by group.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/grouped_gemm.h>

#include "backend/cpu/cpu_backend.h"
#include "family/legality.h"
#include "provider/native/native_grouped.h"
#include "support/expect_error.h"
#include "support/random_gemm.h"
#include "support/share.h"

namespace kscout {
namespace {

using namespace test;

/// A legal config with these words.
KernelConfig random_grouped_config(Rng& rng, NativeIsa isa, GroupedSchedule schedule,
                                   const Signature& signature, const Device& device) {
  for (;;) {
    KernelConfig c(native_grouped_space);
    const auto kind = static_cast<NativeKind>(pick(rng, 0, 4));
    const bool outer = native_form(kind, signature.layout) == NativeForm::outer;
    c.set("isa", static_cast<std::int32_t>(isa));
    c.set("kind", static_cast<std::int32_t>(kind));
    c.set("mr", static_cast<std::int32_t>(pick(rng, 1, outer ? 16 : 8)));
    c.set("nr", static_cast<std::int32_t>(outer ? pick(rng, 1, 4) * native_lanes(isa) : pick(rng, 1, 8)));
    c.set("pack_a", static_cast<std::int32_t>(pick(rng, 0, 1)));
    c.set("pack_b", static_cast<std::int32_t>(pick(rng, 0, 1)));
    const bool blocks = kind != NativeKind::small;
    c.set("mc", blocks ? one_of(rng, {0, 12, 48}) : 0);
    c.set("kc", blocks ? one_of(rng, {0, 16, 33}) : 0);
    c.set("nc", blocks ? one_of(rng, {0, 16, 100}) : 0);
    c.set("order", static_cast<std::int32_t>(pick(rng, 0, 2)));
    c.set("schedule", static_cast<std::int32_t>(schedule));
    const bool pieces = schedule == GroupedSchedule::pieces;
    c.set("piece_m", pieces ? one_of(rng, {0, 1, 5, 64}) : 0);
    c.set("piece_n", pieces ? one_of(rng, {0, 7, 32}) : 0);
    const std::int64_t most = std::min<std::int64_t>(4, static_cast<std::int64_t>(device.cores));
    c.set("threads_m", static_cast<std::int32_t>(pick(rng, 1, most)));
    c.set("threads_n", static_cast<std::int32_t>(pick(rng, 1, most)));
    if (legal_refusal(signature, c, device).empty()) return c;
  }
}

/// Guarded operands with random values; C is filled with NaN.
struct GroupedOperands {
  Guarded a, b, c;

  GroupedOperands(const GroupedGemmProblem& p, Rng& rng)
      : GroupedOperands(p, rng, pick(rng, 0, 1) ? Guarded::Edge::behind : Guarded::Edge::before) {}
  GroupedOperands(const GroupedGemmProblem& p, Rng& rng, Guarded::Edge edge)
      : a(static_cast<std::size_t>(p.m_sum * p.k), edge),
        b(static_cast<std::size_t>(p.groups * p.n * p.k), edge),
        c(static_cast<std::size_t>(p.m_sum * p.n), edge) {
    std::uniform_real_distribution<float> values(-1, 1);
    std::generate_n(a.data(), p.m_sum * p.k, [&] { return values(rng); });
    std::generate_n(b.data(), p.groups * p.n * p.k, [&] { return values(rng); });
    std::fill_n(c.data(), p.m_sum * p.n, std::numeric_limits<float>::quiet_NaN());
  }
  GemmBuffers buffers(double alpha) const {
    return {.a = a.data(), .b = b.data(), .c = c.data(), .alpha = alpha};
  }
};

void expect_products(const GroupedGemmProblem& p, const GroupedOperands& operands, double alpha) {
  const auto& [a, b, c] = operands;
  std::int64_t row = 0;
  for (std::int64_t group = 0; const std::int64_t rows : p.m.sizes()) {
    const float* const weights = b.data() + group++ * p.n * p.k;
    for (const std::int64_t end = row + rows; row < end; ++row) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < p.k; ++i) {
          const double product = static_cast<double>(a.data()[row * p.k + i]) *
                                 (row_major_b(p.layout) ? weights[i * p.n + j] : weights[j * p.k + i]);
          sum += product;
          size += std::fabs(product);
        }
        const double bound = std::fabs(alpha) * static_cast<double>(p.k + 4) * 0x1p-24 * size;
        ASSERT_NEAR(c.data()[row * p.n + j], alpha * sum, bound) << "row " << row << ", column " << j;
      }
    }
  }
}

struct GroupedCase {
  NativeIsa isa;
  GroupedSchedule schedule;
};

void check_grouped(const GroupedGemmProblem& p, const KernelConfig& config, Rng& rng, double alpha) {
  SCOPED_TRACE(print(p) + " by " + native_provider().print(signature_of(p), config));
  const GroupedOperands operands(p, rng);
  const auto launch = backend("cpu").prepare(p, config);
  const std::size_t floats = (launch->workspace_bytes() + 63) / 64 * 16;
  const Guarded workspace(floats);
  std::fill_n(workspace.data(), floats, std::numeric_limits<float>::quiet_NaN());
  const auto a_elements = static_cast<std::size_t>(p.m_sum * p.k);
  if (alpha == 0) std::fill_n(operands.a.data(), a_elements, std::numeric_limits<float>::quiet_NaN());
  launch->run(operands.buffers(alpha), workspace.data());
  if (alpha == 0) std::fill_n(operands.a.data(), a_elements, 0.0F);  // as in BLAS, A was not read
  expect_products(p, operands, alpha);
}

class CpuGrouped : public testing::TestWithParam<GroupedCase> {
 protected:
  void check_random(const SizeList& m, std::uint64_t seed) {
    const auto [isa, schedule] = GetParam();
    Rng rng(seed);
    const Layout layout = pick(rng, 0, 1) ? Layout::rcr : Layout::rrr;
    const GroupedGemmProblem p =
        make_grouped_gemm(m, pick(rng, 1, 70), pick(rng, 0, 9) ? pick(rng, 1, 50) : 0, DType::fp32, layout);
    const KernelConfig config =
        random_grouped_config(rng, isa, schedule, signature_of(p), backend("cpu").device());
    if (!backend("cpu").refusal(p, config).empty()) return;  // by an applicability rule
    ++checked_;
    check_grouped(p, config, rng, one_of(rng, {1.0, -0.5, 0.0}));
  }

  int checked_ = 0;
};

TEST_P(CpuGrouped, MatchesFloat64OnRandomGroups) {
  if (!machine_has(GetParam().isa))
    GTEST_SKIP() << "this machine lacks the instruction set: its kernels are NOT tested here";
  for (std::uint64_t seed = 0; seed < share_of(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(1000 + seed);
    std::vector<std::int64_t> rows;
    for (std::int64_t left = pick(rng, 1, 12); left > 0; --left)
      rows.push_back(pick(rng, 0, 2) ? pick(rng, 0, one_of(rng, {3, 8, 60})) : 0);
    check_random(SizeList(rows), seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(checked_, 20);
}

TEST_P(CpuGrouped, TakesEdgesOfTheList) {
  if (!machine_has(GetParam().isa))
    GTEST_SKIP() << "this machine lacks the instruction set: its kernels are NOT tested here";
  std::vector<std::int64_t> uneven(256, 0);
  for (std::size_t i = 0; i < uneven.size(); i += 3) uneven[i] = static_cast<std::int64_t>(i % 7);
  uneven[200] = 150;
  const SizeList lists[] = {SizeList{1},       SizeList{33},   SizeList{0, 0, 8},
                            SizeList{8, 0, 0}, SizeList{0, 0}, SizeList(std::vector<std::int64_t>(256, 2)),
                            SizeList(uneven)};
  for (std::uint64_t seed = 0; seed < share_of(12); ++seed) {
    for (const SizeList& list : lists) {
      check_random(list, seed);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(checked_, 5);
}

std::vector<GroupedCase> grouped_cases() {
  std::vector<GroupedCase> cases;
  for (const NativeIsa isa : {NativeIsa::scalar, NativeIsa::avx2, NativeIsa::avx512}) {
    for (const auto schedule : {GroupedSchedule::each, GroupedSchedule::groups, GroupedSchedule::pieces})
      cases.push_back({isa, schedule});
  }
  return cases;
}

std::string grouped_case_name(const testing::TestParamInfo<GroupedCase>& suite) {
  const ConfigSpace& space = native_grouped_space;
  return axis_value_text(space.axes[0], static_cast<std::int32_t>(suite.param.isa)) + "_" +
         axis_value_text(space.axes[space.axis_index("schedule")],
                         static_cast<std::int32_t>(suite.param.schedule));
}

INSTANTIATE_TEST_SUITE_P(Kernels, CpuGrouped, testing::ValuesIn(grouped_cases()), grouped_case_name);

TEST(DispatchGrouped, RunsRandomGroups) {
  Dispatcher dispatcher(Registry::here());
  int with_empty_groups = 0;
  for (std::uint64_t seed = 0; seed < share_of(120); ++seed) {
    Rng rng(seed);
    std::vector<std::int64_t> rows;
    for (std::int64_t left = pick(rng, 1, 10); left > 0; --left)
      rows.push_back(pick(rng, 0, 3) ? pick(rng, 0, 40) : 0);
    with_empty_groups += std::ranges::count(rows, 0) > 0;
    const GroupedGemmProblem p = make_grouped_gemm(SizeList(rows), pick(rng, 1, 60), pick(rng, 0, 60),
                                                   DType::fp32, pick(rng, 0, 1) ? Layout::rcr : Layout::rrr);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + print(p));
    const GroupedOperands operands(p, rng);
    const Solution solution = dispatcher.run(Problem(p), operands.buffers(-0.5));
    EXPECT_EQ(solution.form.problem, Problem(p));
    expect_products(p, operands, -0.5);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(with_empty_groups, share_of(30));
}

TEST(DispatchGrouped, RunsAsManyGroupsAsItSupports) {
  std::vector<std::int64_t> rows(GroupedGemmProblem::max_groups, 0);
  for (std::size_t i = 0; i < rows.size(); i += 5) rows[i] = static_cast<std::int64_t>(i % 4);
  const GroupedGemmProblem p = make_grouped_gemm(SizeList(rows), 7, 9);
  Rng rng(1);
  const GroupedOperands operands(p, rng);
  Dispatcher dispatcher(Registry::here());
  dispatcher.run(Problem(p), operands.buffers(1));
  expect_products(p, operands, 1);

  rows.push_back(3);
  expect_error(Errc::invalid_argument, "m has 1025 groups, at most 1024 are supported; split the call", [&] {
    dispatcher.run(Problem(make_grouped_gemm(SizeList(rows), 7, 9)), operands.buffers(1));
  });
}

TEST(DispatchGrouped, GroupsWithoutRowsNeedNoMemory) {
  Dispatcher dispatcher(Registry::here());
  std::vector<float> weights(2 * 7 * 9);
  EXPECT_NO_THROW(dispatcher.run(Problem(make_grouped_gemm({0, 0}, 7, 9)), GemmBuffers{.b = weights.data()}));
}

TEST(DispatchGrouped, KeepsToLimits) {
  Dispatcher dispatcher(Registry::here());
  const GroupedGemmProblem p = make_grouped_gemm({40, 0, 3, 17, 9}, 60, 50);
  Rng rng(1);
  const GroupedOperands operands(p, rng);
  const RunOn on{.limits = {.workspace_bytes = 0, .deterministic = true}};
  std::vector<float> first;
  for (int run = 0; run < 20; ++run) {
    dispatcher.run(Problem(p), operands.buffers(1), on);
    expect_products(p, operands, 1);
    const std::vector<float> bits(operands.c.data(), operands.c.data() + p.m_sum * p.n);
    if (first.empty()) first = bits;
    ASSERT_EQ(bits, first);
  }
}

TEST(DispatchGrouped, RefusesBadCalls) {
  Dispatcher dispatcher(Registry::here());
  const GroupedGemmProblem p = make_grouped_gemm({3, 0, 2}, 7, 9);
  Rng rng(1);
  const GroupedOperands operands(p, rng);
  const auto refuse = [&](std::string_view part, const GroupedGemmProblem& problem,
                          const GemmBuffers& buffers) {
    expect_error(Errc::invalid_argument, part, [&] { dispatcher.run(Problem(problem), buffers); });
  };
  const GemmBuffers good = operands.buffers(1);
  refuse("m has no group", make_grouped_gemm({}, 7, 9), good);
  refuse("m of group 1 is -1", make_grouped_gemm({3, -1}, 7, 9), good);
  refuse("n=-7: must be at least 0", make_grouped_gemm({3}, -7, 9), good);
  refuse("use rcr or rrr", make_grouped_gemm({3}, 7, 9, DType::fp32, Layout::ccr), good);
  GroupedGemmProblem stale = p;
  stale.m = {3, 0, 3};
  refuse("m_sum=5: m gives 6", stale, good);
  GemmBuffers changed = good;
  changed.b = nullptr;
  refuse("'b' is null", p, changed);
  changed = good;
  changed.beta = 1;
  refuse("beta", p, changed);
  changed = good;
  changed.c = const_cast<void*>(good.a);
  refuse("share", p, changed);
  expect_error(Errc::unsupported, "fp32",
               [&] { dispatcher.run(Problem(make_grouped_gemm({3}, 7, 9, DType::bf16)), good); });
}

}  // namespace
}  // namespace kscout
