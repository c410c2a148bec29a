#include "op/problem_sets.h"

#include <algorithm>
#include <array>
#include <set>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "core/field_text.h"
#include "op/gemm/gemm_sets.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

using test::expect_error;

std::vector<GemmProblem> generate(std::string set) { return make_problem_set({.set = std::move(set)}); }

std::size_t count_if(const std::vector<GemmProblem>& problems, auto&& condition) {
  return static_cast<std::size_t>(std::ranges::count_if(problems, condition));
}

bool contains(const std::vector<GemmProblem>& problems, std::int64_t m, std::int64_t n, std::int64_t k) {
  return std::ranges::find(problems, make_gemm(m, n, k)) != problems.end();
}

/// fnv1a over the printed problems: any change of a set shows.
std::uint64_t fingerprint(const std::vector<GemmProblem>& problems) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& problem : problems) {
    for (const char c : print(problem) + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

TEST(CkSets, HaveThePublishedCounts) {
  EXPECT_EQ(generate("ck_benchmark").size(), 25u);
  EXPECT_EQ(generate("ck_wide").size(), 706u);
  const auto edge = generate("ck_edge");
  EXPECT_EQ(edge.size(), 546u);
  EXPECT_EQ(generate("smoke").size(), 10u);
}

TEST(CkSets, EdgeCoversSingleColumnsAndDepthOne) {
  const auto edge = generate("ck_edge");
  EXPECT_EQ(count_if(edge, [](const GemmProblem& p) { return p.n == 1; }), 168u);
  EXPECT_EQ(count_if(edge, [](const GemmProblem& p) { return p.k == 1; }), 168u);
}

TEST(CkSets, AreSortedAndDistinct) {
  for (const char* name : {"ck_wide", "ck_edge"}) {
    const auto problems = generate(name);
    const auto before = [](const GemmProblem& a, const GemmProblem& b) {
      return std::tuple(a.m, a.n, a.k) < std::tuple(b.m, b.n, b.k);
    };
    for (std::size_t i = 1; i < problems.size(); ++i)
      EXPECT_TRUE(before(problems[i - 1], problems[i])) << name;
  }
}

TEST(CkSets, HoldTheNamedSizes) {
  const auto wide = generate("ck_wide");
  EXPECT_TRUE(contains(wide, 1, 576, 7168));
  EXPECT_TRUE(contains(wide, 4096, 251, 4096));
  EXPECT_TRUE(contains(wide, 4093, 4093, 4093));
  EXPECT_TRUE(contains(wide, 20480, 7168, 7168));
  EXPECT_FALSE(contains(wide, 509, 4096, 4096));
  const auto benchmark = generate("ck_benchmark");
  EXPECT_TRUE(contains(benchmark, 8192, 8192, 256));
  EXPECT_TRUE(contains(benchmark, 1, 8192, 28672));
}

TEST(LlmSet, FollowsTheModelsDescription) {
  const auto problems = make_problem_set({.set = "llm", .models = {"llama-3-8b"}});
  const auto at = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const auto found = std::ranges::find(problems, make_gemm(m, n, k));
    return found == problems.end() ? 0.0 : found->weight;
  };
  EXPECT_EQ(problems.size(), 4u * 13u);
  EXPECT_EQ(at(1, 6144, 4096), 32);     // q, k, v: (32 + 2 * 8) heads of 128
  EXPECT_EQ(at(16, 4096, 4096), 32);    // output projection
  EXPECT_EQ(at(64, 28672, 4096), 32);   // gate and up
  EXPECT_EQ(at(512, 4096, 14336), 32);  // down
}

TEST(LlmSet, AddsTheCallsOfModelsThatShareAProduct) {
  const auto both = make_problem_set({.set = "llm", .models = {"llama-3-8b", "mistral-7b"}});
  EXPECT_EQ(both.size(), 4u * 13u);
  for (const auto& problem : both) EXPECT_EQ(problem.weight, 64) << print(problem);
  EXPECT_GT(generate("llm").size(), 1000u);
  expect_error(Errc::invalid_argument, "did you mean 'llama-3-8b'",
               [] { make_problem_set({.set = "llm", .models = {"lama-3-8b"}}); });
}

TEST(LlmSet, HasLaterModelsOfTheirOwn) {
  const auto later = make_problem_set({.set = "llm_2025", .models = {"gemma-3-1b"}});
  EXPECT_EQ(later.size(), 4u * 13u);
  EXPECT_NE(std::ranges::find(later, make_gemm(8, 1536, 1152)), later.end());  // (4 + 2 * 1) heads of 256
  expect_error(Errc::invalid_argument, "llama-3-8b",
               [] { make_problem_set({.set = "llm_2025", .models = {"llama-3-8b"}}); });
}

TEST(SampleSizes, IsIndependentOfTheSplitByTheSameSeed) {
  const auto drawn = make_problem_set({.set = "llm", .count = 200, .seed = 1});
  ASSERT_EQ(drawn.size(), 200u);
  const std::size_t held_out = split_problems(drawn, 0.3, 1).second.size();
  EXPECT_GT(held_out, 30u);
  EXPECT_LT(held_out, 90u);
  EXPECT_EQ(make_problem_set({.set = "llm", .count = 200, .seed = 1}), drawn);
  EXPECT_NE(make_problem_set({.set = "llm", .count = 200, .seed = 2}), drawn);
}

TEST(RandomSet, IsTheSameEverywhere) {
  const auto problems = make_problem_set({.set = "random", .max_gflop = 10, .count = 300, .seed = 7});
  EXPECT_EQ(problems.size(), 300u);
  EXPECT_EQ(fingerprint(problems), 11418522761092936200u);
  EXPECT_NE(fingerprint(make_problem_set({.set = "random", .max_gflop = 10, .count = 300, .seed = 8})),
            fingerprint(problems));
}

TEST(RandomSet, KeepsItsBounds) {
  const ProblemSetRequest request{
      .set = "random", .max_gflop = 1, .max_bytes = 1e7, .count = 500, .min_size = 3, .max_size = 3000};
  std::set<std::string> distinct;
  std::size_t few_rows = 0;
  for (const auto& problem : make_problem_set(request)) {
    EXPECT_LE(flop_count(problem), 1e9);
    EXPECT_LE(min_bytes(problem), 1e7);
    for (const auto size : {problem.m, problem.n, problem.k}) {
      EXPECT_GE(size, 3);
      EXPECT_LE(size, 3000);
    }
    few_rows += problem.m <= 16;
    distinct.insert(print(problem));
  }
  EXPECT_EQ(distinct.size(), 500u);
  EXPECT_GT(few_rows, 100u);
  EXPECT_LT(few_rows, 300u);
  expect_error(Errc::invalid_argument, "raise the limits",
               [] { make_problem_set({.set = "random", .count = 30, .min_size = 1, .max_size = 2}); });
  expect_error(Errc::invalid_argument, "1 <= min",
               [] { make_problem_set({.set = "random", .min_size = 0}); });
}

TEST(TrainingProblems, HasThreePassesOfALayerInTheirLayouts) {
  const auto problems = generate("training");
  EXPECT_GT(problems.size(), 3000u);
  const auto has = [&](std::int64_t m, std::int64_t n, std::int64_t k, Layout layout) {
    return std::ranges::find(problems, make_gemm(m, n, k, DType::fp32, layout)) != problems.end();
  };
  // The last layers of DLRM, ResNet-50's 3x3 filters of 28 x 28 images, and one expert of Mixtral.
  EXPECT_TRUE(has(2048, 1, 256, Layout::rcr) && has(2048, 256, 1, Layout::rrr) &&
              has(1, 256, 2048, Layout::crr));
  EXPECT_TRUE(has(8 * 28 * 28, 128, 9 * 128, Layout::rcr) && has(128, 9 * 128, 8 * 28 * 28, Layout::crr));
  EXPECT_TRUE(has(512, 4096, 14336, Layout::rcr));
  // VGG-16's first fully connected layer, for 1 and 512 images.
  EXPECT_TRUE(has(1, 4096, 25088, Layout::rcr) && has(512, 25088, 4096, Layout::rrr) &&
              has(4096, 25088, 512, Layout::crr));
  for (const GemmProblem& problem : problems) {
    EXPECT_LE(flop_count(problem), 4e11);
    EXPECT_LE(min_bytes(problem), 8e9);
  }
  for (const GemmProblem& problem :
       make_problem_set({.set = "training", .layouts = {Layout::rcr}, .count = 50}))
    EXPECT_EQ(problem.layout, Layout::rcr);
}

TEST(TrainingProblems, CountsTheCallsOfEachPass) {
  const auto problems = generate("training");
  const auto calls = [&](std::int64_t m, std::int64_t n, std::int64_t k, Layout layout) {
    const auto found = std::ranges::find_if(problems, [&](const GemmProblem& p) {
      return p.m == m && p.n == n && p.k == k && p.layout == layout;
    });
    return found == problems.end() ? 0 : found->weight;
  };
  // Gate and up matrices of Mixtral 8x7B: 32 layers of 8 experts, each sees a quarter of 512 tokens.
  EXPECT_EQ(calls(128, 28672, 4096, Layout::rcr), 256);
  EXPECT_EQ(calls(128, 4096, 28672, Layout::rrr), 256);
  EXPECT_EQ(calls(28672, 4096, 128, Layout::crr), 256);
  std::array<double, 3> of_layout{};
  for (const GemmProblem& p : problems)
    of_layout[p.layout == Layout::rcr ? 0 : p.layout == Layout::rrr ? 1 : 2] += p.weight;
  EXPECT_EQ(of_layout[0], of_layout[1]) << "a pass for each pass";
  EXPECT_EQ(of_layout[0], of_layout[2]);
}

TEST(AttentionProblems, AreBatchesPerHeadInTheLayoutsOfThePasses) {
  const auto problems = make_problem_set({.set = "attention", .dtype = DType::bf16});
  const auto has = [&](std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, Layout layout) {
    GemmProblem wanted = make_gemm(m, n, k, DType::bf16, layout);
    wanted.batch = batch;
    return std::ranges::find(problems, wanted) != problems.end();
  };
  // BERT-base, four sequences of 384 tokens: scores, values, gradients of the keys.
  EXPECT_TRUE(has(48, 384, 384, 64, Layout::rcr) && has(48, 384, 64, 384, Layout::rrr) &&
              has(48, 384, 64, 384, Layout::crr));
  // Llama-3-8B decodes: four query heads share a key head.
  EXPECT_TRUE(has(16 * 8, 4, 8192, 128, Layout::rcr) && has(16 * 8, 4, 128, 8192, Layout::rrr));
  // DeepSeek-V3's latent attention, and the experts of Mixtral 8x7B.
  EXPECT_TRUE(has(128, 32, 512, 128, Layout::rrr) && has(8, 128, 28672, 4096, Layout::rcr));
  for (const GemmProblem& problem : problems) {
    EXPECT_GT(problem.batch, 1);
    EXPECT_LE(flop_count(problem), 4e11);
    EXPECT_LE(min_bytes(problem), 8e9);
  }
}

TEST(ProblemSets, HaveTheEpiloguesThatAreAskedFor) {
  const std::vector<Epilogue> wanted = {Epilogue::bias, Epilogue::bias_gelu};
  const auto plain = make_problem_set({.set = "smoke"});
  const auto problems = make_problem_set({.set = "smoke", .epilogues = wanted});
  ASSERT_EQ(problems.size(), 2 * plain.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    GemmProblem expected = plain[i / 2];
    expected.epilogue = wanted[i % 2];
    EXPECT_EQ(problems[i], expected);
  }
}

TEST(OddSizes, HasThreePassesOfLayersWhoseRowsAreNotAligned) {
  const auto problems = make_problem_set({.set = "odd_sizes", .dtype = DType::bf16});
  EXPECT_GT(problems.size(), 500u);
  const auto has = [&](std::int64_t m, std::int64_t n, std::int64_t k, Layout layout) {
    return std::ranges::find(problems, make_gemm(m, n, k, DType::bf16, layout)) != problems.end();
  };
  EXPECT_TRUE(has(8192, 50257, 768, Layout::rcr) && has(8192, 768, 50257, Layout::rrr) &&
              has(50257, 768, 8192, Layout::crr));
  for (const GemmProblem& problem : problems) {
    EXPECT_TRUE(problem.m % 8 != 0 || problem.n % 8 != 0 || problem.k % 8 != 0) << print(problem);
    EXPECT_LE(flop_count(problem), 4e12);
    EXPECT_LE(min_bytes(problem), 8e9);
  }
}

TEST(TallSkinnySet, HasOneLongSize) {
  const auto problems =
      make_problem_set({.set = "tall_skinny", .dtype = DType::bf16, .count = 300, .seed = 7});
  ASSERT_EQ(problems.size(), 300u);
  std::size_t long_m = 0;
  for (const GemmProblem& problem : problems) {
    std::array sizes{problem.m, problem.n, problem.k};
    std::ranges::sort(sizes);
    EXPECT_GE(sizes[0], 8);
    EXPECT_LE(sizes[1], 1024);
    EXPECT_GE(sizes[2], 1 << 13);
    EXPECT_LE(sizes[2], 1 << 20);
    EXPECT_LE(flop_count(problem), 4e11);
    EXPECT_LE(min_bytes(problem), 8e9);
    long_m += problem.m == sizes[2];
  }
  EXPECT_GT(long_m, 60u);
  EXPECT_LT(long_m, 140u);
}

TEST(Request, LimitsLayoutsAndSamplesOfSizes) {
  const ProblemSetRequest request{.set = "ck_wide",
                                  .dtype = DType::fp16,
                                  .layouts = {Layout::rcr, Layout::rrr},
                                  .max_gflop = 1,
                                  .count = 40,
                                  .seed = 3};
  const auto problems = make_problem_set(request);
  ASSERT_EQ(problems.size(), 80u);
  for (std::size_t i = 0; i < problems.size(); i += 2) {
    EXPECT_EQ(problems[i].layout, Layout::rcr);
    EXPECT_EQ(problems[i + 1].layout, Layout::rrr);
    EXPECT_EQ(problems[i].m, problems[i + 1].m);
    EXPECT_EQ(problems[i].dtype_b, DType::fp16);
    EXPECT_LE(flop_count(problems[i]), 1e9);
  }
  EXPECT_EQ(make_problem_set(request), problems);
  expect_error(Errc::invalid_argument, "did you mean 'ck_wide'", [] { generate("ck_wild"); });
  expect_error(Errc::invalid_argument, "models are chosen from sets 'llm'",
               [] { make_problem_set({.set = "random", .models = {"gpt2"}}); });
}

TEST(Split, KeepsLayoutsOfOneSizeTogether) {
  const auto problems =
      make_problem_set({.set = "ck_wide", .layouts = {Layout::rcr, Layout::rrr, Layout::ccr}});
  const auto [train, held_out] = split_problems(problems, 0.25, 11);
  EXPECT_EQ(train.size() + held_out.size(), problems.size());
  const double share = static_cast<double>(held_out.size()) / static_cast<double>(problems.size());
  EXPECT_NEAR(share, 0.25, 0.05);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const auto& p : train) seen.insert({p.m, p.n, p.k});
  for (const auto& p : held_out) EXPECT_FALSE(seen.contains({p.m, p.n, p.k})) << print(p);
  EXPECT_TRUE(split_problems(problems, 0, 1).second.empty());
  EXPECT_TRUE(split_problems(problems, 1, 1).first.empty());
  expect_error(Errc::invalid_argument, "between 0 and 1", [&] { split_problems(problems, 1.5, 1); });
}

TEST(Split, KeepsWeightsOfOneShapeTogether) {
  const auto problems = make_problem_set({.set = "llm"});
  const auto [train, held_out] = split_problems(problems, 0.3, 5, SplitBy::weights);
  EXPECT_FALSE(held_out.empty());
  EXPECT_EQ(train.size() + held_out.size(), problems.size());
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (const auto& p : train) seen.insert({p.n, p.k});
  for (const auto& p : held_out) EXPECT_FALSE(seen.contains({p.n, p.k})) << print(p);
}

TEST(ReadProblems, TakesLinesAndTables) {
  const auto lines =
      parse_problems_of<GemmProblem>("# two\n\ngemm:4x5x6:fp16:rrr:weight=3\r\n7,8,9\n", "list");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], make_gemm(4, 5, 6, DType::fp16, Layout::rrr));
  EXPECT_EQ(lines[0].weight, 3);
  EXPECT_EQ(lines[1], make_gemm(7, 8, 9));
  const auto table =
      parse_problems_of<GemmProblem>("k,m,n,dtype,layout,weight\n6,4,5,fp8,ccr,2\n9,7,\"8\",,,\n", "table");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0], make_gemm(4, 5, 6, DType::fp8, Layout::ccr));
  EXPECT_EQ(table[1], make_gemm(7, 8, 9));
}

TEST(ReadProblems, NamesTheLineOfABadOne) {
  const auto refuse = [](std::string_view text, std::string_view part) {
    expect_error(Errc::corrupt_data, part, [&] { parse_problems_of<GemmProblem>(text, "f.csv"); });
  };
  refuse("1,2,3\n1,2\n", "f.csv:2: ");
  refuse("gemm:1x2x3\n\ngemm:1x2x-3\n", "f.csv:3: gemm k=-3");
  refuse("m,n,k\n1,2,x\n", "f.csv:2: k='x': not a whole number");
  refuse("m,n,k\n1,2,nan\n", "f.csv:2: k='nan'");
  refuse("m,n,k,weight\n1,2,3,nan\n", "f.csv:2: gemm weight=nan");
  refuse("m,n,k\n1,2\n", "f.csv:2: 2 cells under 3 columns");
  refuse("m,n,kk\n1,2,3\n", "did you mean 'k'");
  refuse("m,n,k,m\n1,2,3,4\n", "f.csv:1: column 'm' is given twice");
  refuse("m,n\n1,2\n", "f.csv:1: column 'k' is missing");
  refuse("m,n,k\n1,2,\n", "f.csv:2: column 'k' is empty");
  refuse("m,n,k\n99999999999999999999,2,3\n", "does not fit 64 bits");
  refuse("# nothing\n", "holds no problem");
  expect_error(Errc::not_found, "no/such/file.csv: cannot open",
               [] { read_problems_of<GemmProblem>("no/such/file.csv"); });
  expect_error(Errc::not_found, "cannot be read", [] { read_problems_of<GemmProblem>("/"); });
}

TEST(ReadProblems, ListsKeepOrReplaceLayouts) {
  const auto list = parse_any_problems("gemm:4x5x6:fp32:ccr\ngemm:400x500x600:fp32:rrr\n", "list");
  EXPECT_EQ(make_problem_set({.listed = list})[0].layout, Layout::ccr);
  const auto limited = make_problem_set({.listed = list, .layouts = {Layout::rcr}, .max_gflop = 1e-3});
  ASSERT_EQ(limited.size(), 1u);
  EXPECT_EQ(limited[0], make_gemm(4, 5, 6));
}

TEST(ReadProblems, TakesSeveralOperationsInAnyOrder) {
  const std::string_view text =
      "# mixed\nconv_fwd:1x8x4x4:8x1x1\ngemm:4x5x6\n\ngrouped_gemm:4+0x5x6\ngemm:7x8x9\n";
  std::vector<std::string> lines;
  for (const Problem& problem : parse_any_problems(text, "list", DType::bf16))
    lines.push_back(print(problem));
  EXPECT_EQ(lines, (std::vector<std::string>{"conv_fwd:1x8x4x4:8x1x1:bf16:nhwgc", "gemm:4x5x6:bf16:rcr",
                                             "grouped_gemm:4+0x5x6:bf16:rcr", "gemm:7x8x9:bf16:rcr"}));
  const auto groups = by_operation(parse_any_problems(text, "list"));
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].first, &operation(Op::conv_fwd));
  EXPECT_EQ(groups[1].second.size(), 2u);
  // The first line decides what a line without an op is, and a table's columns.
  EXPECT_EQ(parse_any_problems("4x5x6\nconv_fwd:1x8x4x4:8x1x1\n7x8x9\n", "list").size(), 3u);
  EXPECT_EQ(parse_any_problems("m,n,k\n4,5,6\nconv_fwd:1x8x4x4:8x1x1\n", "list").size(), 2u);
  expect_error(Errc::corrupt_data, "list:2: '4x5x6': write conv_fwd:", [] {
    parse_any_problems("conv_fwd:1x8x4x4:8x1x1\n4x5x6\n", "list");
  });
  expect_error(Errc::corrupt_data, "list:3: gemm k=-6",
               [] { parse_any_problems("conv_fwd:1x8x4x4:8x1x1\n\ngemm:4x5x-6\n", "list"); });
  expect_error(Errc::corrupt_data, "list:2: 'gemm:4x5x6' is among convolutions", [] {
    parse_problems_of(operation(Op::conv_fwd), "conv_fwd:1x8x4x4:8x1x1\ngemm:4x5x6\n", "list");
  });
}

TEST(ShapeFamily, StatesTheLimitsOnce) {
  EXPECT_EQ(word(shape_family(make_gemm(31, 1, 1))), "tiny_m");
  EXPECT_EQ(word(shape_family(make_gemm(32, 1, 1))), "small_m");
  EXPECT_EQ(word(shape_family(make_gemm(256, 1, 1))), "medium_m");
  EXPECT_EQ(word(shape_family(make_gemm(4096, 1, 1))), "large_m");
  EXPECT_EQ(word(depth_regime(make_gemm(1, 1, 511))), "shallow_k");
  EXPECT_EQ(word(depth_regime(make_gemm(1, 1, 4096))), "deep_k");
  EXPECT_EQ(outline(make_gemm(8, 2, 1)), Outline::tall);
  EXPECT_EQ(outline(make_gemm(7, 2, 1)), Outline::square);
  EXPECT_EQ(outline(make_gemm(2, 8, 1)), Outline::wide);
  EXPECT_EQ(outline(make_gemm(1, 1, 1)), Outline::square);
}

}  // namespace
}  // namespace kscout
