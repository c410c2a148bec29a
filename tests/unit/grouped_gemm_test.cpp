// Text, fields, limits and problem sets of grouped GEMMs.
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/grouped_gemm.h>

#include "op/grouped_gemm/grouped_gemm_sets.h"
#include "op/operation.h"
#include "op/problem_sets.h"
#include "op/problem_words.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

using test::expect_error;

TEST(GroupedGemm, ReadsBackFromItsText) {
  for (const std::string_view text :
       {"grouped_gemm:128+64+0+7x1408x2048:fp32:rcr", "grouped_gemm:5x16x32:bf16:rrr",
        "grouped_gemm:0+0x16x32:fp16:rcr:weight=2.5", "grouped_gemm:1+2x0x0:fp8:rcr:dtype_c=bf16"}) {
    const Problem problem = parse_any_problem(text);
    EXPECT_EQ(print(problem), text);
    EXPECT_EQ(parse_any_problem(print(problem)), problem);
  }
  const auto p = parse_any_problem("grouped_gemm:128+64+0+7x1408x2048").as<GroupedGemmProblem>();
  EXPECT_EQ(p, make_grouped_gemm({128, 64, 0, 7}, 1408, 2048));
  EXPECT_EQ(p.groups, 4);
  EXPECT_EQ(p.m_sum, 199);
  EXPECT_EQ(p.m_max, 128);
  EXPECT_EQ(p.m_filled, 3);
  EXPECT_EQ(p.m_tiles_16, 8 + 4 + 1);
  EXPECT_EQ(p.m_tiles_64, 2 + 1 + 1);
  EXPECT_EQ(p.m_tiles_128, 3);
  EXPECT_EQ(flop_count(p), 2.0 * 199 * 1408 * 2048);
  EXPECT_EQ(min_bytes(p), 4.0 * (199 * 2048 + 3 * 1408 * 2048 + 199 * 1408));
}

TEST(GroupedGemm, ListsArePartOfTheIdentity) {
  const Problem a = make_grouped_gemm({3, 5}, 16, 32), b = make_grouped_gemm({5, 3}, 16, 32);
  EXPECT_NE(a, b);
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_NE(sizes_of(a), sizes_of(b));
  EXPECT_EQ(group_of(a, SplitBy::weights), group_of(b, SplitBy::weights));
  std::uint64_t rest = 0;
  EXPECT_NE(words_of_any(rest, a, 0), words_of_any(rest, b, 0));
  EXPECT_EQ(rest, 0u) << "its choices can be cached";
  Problem copy = a;
  EXPECT_EQ(copy, a);
  copy.set_list(copy.space().index("m"), SizeList{5, 3});
  operation(Op::grouped_gemm).derive(copy);
  EXPECT_EQ(copy, b);
  EXPECT_EQ(value_text(copy, copy.space().index("m")), "5+3");
  EXPECT_EQ(a.list().sizes()[0], 3) << "a copy is not affected";
}

TEST(GroupedGemm, RefusesWrongSizes) {
  const auto refuse = [](std::string_view part, const GroupedGemmProblem& p) {
    expect_error(Errc::invalid_argument, part, [&] { check(p); });
    EXPECT_FALSE(is_valid(p));
  };
  refuse("m has no group", make_grouped_gemm({}, 16, 32));
  refuse("m of group 1 is -1: must be from 0 to 2147483647", make_grouped_gemm({4, -1}, 16, 32));
  refuse("m of group 0 is 2147483648", make_grouped_gemm({2147483648}, 16, 32));
  refuse("n=-1: must be at least 0", make_grouped_gemm({4}, -1, 32));
  refuse("k=-1: must be at least 0", make_grouped_gemm({4}, 16, -1));
  const std::vector<std::int64_t> many(1025, 1), large(1024, 2147483647);
  refuse("m has 1025 groups, at most 1024 are supported; split the call",
         make_grouped_gemm(SizeList(many), 16, 32));
  refuse("operand a: 2199023254528 x 4194304 elements exceed the limit of 2^62",
         make_grouped_gemm(SizeList(large), 1, 1 << 22));
  refuse("operand b: 1024 x 2147483648 x 4194304 elements exceed",
         make_grouped_gemm(SizeList(std::vector<std::int64_t>(1024, 0)), std::int64_t{1} << 31, 1 << 22));
  refuse("operand c: 2199023254528 x 4194304 elements exceed",
         make_grouped_gemm(SizeList(large), 1 << 22, 1));
  refuse("use rcr or rrr", make_grouped_gemm({4}, 16, 32, DType::fp32, Layout::crr));
  GroupedGemmProblem stale = make_grouped_gemm({4}, 16, 32);
  stale.m = {4, 4};
  refuse("groups=1: m gives 2", stale);
  derive(stale);
  EXPECT_NO_THROW(check(stale));
  EXPECT_NO_THROW(check(make_grouped_gemm({0, 0}, 16, 32)));
  EXPECT_NO_THROW(check(make_grouped_gemm({1}, 0, 0)));
}

TEST(GroupedGemm, OperandsFollowTheGroups) {
  const OperandList rcr = operation(Op::grouped_gemm).operands(make_grouped_gemm({3, 0, 4}, 16, 32));
  EXPECT_EQ(rcr[0].elements(), 7 * 32);
  EXPECT_EQ(rcr[1].sizes[1], 16);
  EXPECT_EQ(rcr[1].elements(), 3 * 16 * 32);
  EXPECT_EQ(rcr.result().elements(), 7 * 16);
  const OperandList rrr =
      operation(Op::grouped_gemm).operands(make_grouped_gemm({3, 4}, 16, 32, DType::bf16, Layout::rrr));
  EXPECT_EQ(rrr[1].sizes[1], 32);
  EXPECT_EQ(rrr[1].bytes(), 2 * 2 * 16 * 32);
}

TEST(GroupedGemm, RoutingGivesEachTokenToDifferentExperts) {
  for (const RoutingSkew skew : {RoutingSkew::even, RoutingSkew::mild, RoutingSkew::strong}) {
    Generator random(3);
    const auto rows = routed_tokens(1000, 64, 6, skew, random);
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), 6000);
    EXPECT_LE(*std::ranges::max_element(rows), 1000);
    const bool uneven = *std::ranges::max_element(rows) > 4 * 6000 / 64;
    EXPECT_EQ(uneven, skew == RoutingSkew::strong);
  }
  Generator random(1);
  EXPECT_EQ(routed_tokens(5, 2, 2, RoutingSkew::strong, random), (std::vector<std::int64_t>{5, 5}));
}

TEST(GroupedGemm, SetMoeIsReproducibleAndWithinItsLimits) {
  const auto set = make_grouped_gemm_set("moe", DType::bf16, {});
  EXPECT_EQ(set, make_grouped_gemm_set("moe", DType::bf16, {}));
  EXPECT_GE(set.size(), 300u);
  std::set<ProblemSizes> weights;
  bool has_empty_groups = false;
  for (const GroupedGemmProblem& p : set) {
    EXPECT_LE(min_bytes(p), 8e9);
    weights.insert(group_of(p, SplitBy::weights));
    has_empty_groups |= p.m_filled < p.groups;
  }
  EXPECT_GE(weights.size(), 30u);
  EXPECT_TRUE(has_empty_groups);
  expect_error(Errc::invalid_argument, "did you mean 'moe_smoke'",
               [] { make_grouped_gemm_set("moe_smok", DType::fp32, {}); });
  EXPECT_EQ(make_grouped_gemm_set("moe_smoke", DType::fp32, {Layout::rcr, Layout::rrr}).size(), 16u);
}

}  // namespace
}  // namespace kscout
