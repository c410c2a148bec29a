// Tests audits with a library whose suggestions compute wrong results (tests/libraries/host_gpu.cpp): the
// third forgets the last product when K is odd, the fourth the last elements of K as cuBLASLt's algorithm 66
// does.
#include "sweep/audit.h"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "family/family_file.h"
#include "family/rules.h"
#include "support/expect_error.h"
#include "support/measured_here.h"
#include "support/paths.h"

namespace kscout {
namespace {

using test::expect_error;

class AuditTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1); }

  static Audit audit(const std::vector<GemmProblem>& problems, AuditOptions options = {}) {
    Audit result(backend("cuda"), options);
    for (const SweepPlan& plan : result.plans({problems.begin(), problems.end()}))
      result.add(test::measured_here(plan));
    return result;
  }
};

TEST_F(AuditTest, FindsWrongSuggestionsByRule) {
  const Audit found = audit({make_gemm(12, 8, 41, DType::bf16), make_gemm(12, 8, 4616, DType::bf16),
                             make_gemm(12, 8, 4608, DType::bf16), make_gemm(12, 8, 43, DType::bf16)});
  EXPECT_EQ(found.problems(), 4U);
  EXPECT_EQ(found.not_taken(), 0U);
  EXPECT_EQ(found.runs() + found.refused(), 16U);
  ASSERT_EQ(found.wrong().size(), 3U);
  const auto rows = found.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].rule, "") << "no rule knows this algorithm";
  EXPECT_EQ(rows[0].since, "cuBLASLt 13.1.0");
  EXPECT_EQ(rows[0].wrong, 2U);
  EXPECT_EQ(rows[0].problems, 2U);
  EXPECT_EQ(rows[0].first_place, 0U);
  EXPECT_EQ(rows[0].example->place, 3U);
  EXPECT_EQ(print(rows[0].example->problem), "gemm:12x8x41:bf16:rcr") << "the smallest";
  EXPECT_EQ(rows[1].rule, "algorithm 66 of cuBLASLt 13.1.0, gemm");
  EXPECT_EQ(rows[1].since, "cuBLASLt 13.1.0");
  EXPECT_EQ(rows[1].example->place, 4U);
  EXPECT_EQ(rows[1].example->status, Status::wrong);
  EXPECT_FALSE(rows[1].example->reason.empty());
}

TEST_F(AuditTest, RightSuggestionsAreNotReported) {
  const Audit found =
      audit({make_gemm(16, 8, 64, DType::bf16), make_gemm(12, 8, 41, DType::bf16)}, {.suggestions = 2});
  EXPECT_TRUE(found.wrong().empty());
  EXPECT_EQ(found.runs(), 4U);
  EXPECT_TRUE(found.rows().empty());
  EXPECT_TRUE(found.errata().empty());
  EXPECT_EQ(errata_toml(found.errata(), "h200", "audit"), "");
}

TEST_F(AuditTest, ErrataAreRulesThatRefuseWhatWasWrong) {
  const GemmProblem odd = make_gemm(12, 8, 41, DType::bf16), other = make_gemm(12, 8, 43, DType::bf16);
  const Audit found = audit({odd, other, make_gemm(12, 8, 4616, DType::bf16)});
  ASSERT_EQ(found.errata().size(), 1U) << "the known erratum is not written again";
  const Erratum erratum = found.errata().front();
  EXPECT_EQ(erratum.name, "algorithm 9 of cuBLASLt 13.1.0, gemm");
  EXPECT_EQ(erratum.in_words, "K is no multiple of 2");
  EXPECT_EQ(erratum.problem, "gemm:12x8x41:bf16:rcr");
  EXPECT_EQ(erratum.wrong, 2U);
  EXPECT_EQ(erratum.right, 0U);
  EXPECT_EQ(erratum.others, 1U);
  const std::string errata = errata_toml(found.errata(), "h200", "audit");
  const FamilyFile family = parse_family("provider = \"cublaslt\"\nop = \"gemm\"\n" + errata + R"(
[axes]
version = 0
suggestion = 0
algorithm = 0
tile_m = 0
tile_n = 0
tile_k = 0
stages = 0
split_k = 0
reduction = "none"
swizzle = 0
custom = 0
inner = "any"
cluster_m = 0
cluster_n = 0
[rule_set.one]
help = "one"
[[rule_set.one.block]]
suggestion = 1
)",
                                         "errata.toml", provider("cublaslt").space(Op::gemm));
  ASSERT_EQ(family.rules.size(), 1U);
  EXPECT_TRUE(family.rules[0].suggested);
  EXPECT_EQ(family.rules[0].since, "cuBLASLt 13.1.0");
  const KernelConfig config = found.wrong()[0].config;
  const auto refuses = [&](const GemmProblem& problem, const KernelConfig& of) {
    return refusing_rule(family.rules, problem, of, backend("cuda").device()).has_value();
  };
  EXPECT_TRUE(refuses(odd, config));
  EXPECT_TRUE(refuses(other, config));
  EXPECT_TRUE(refuses(make_gemm(12, 8, 45, DType::bf16), config)) << "not audited, but odd as well";
  EXPECT_FALSE(refuses(make_gemm(12, 8, 46, DType::bf16), config));
  EXPECT_FALSE(refuses(odd, backend("cuda").suggestions(odd, 1).front()));
}

TEST_F(AuditTest, KnownErrataAreFoundAgainOnRequest) {
  const std::vector<GemmProblem> problems = {make_gemm(12, 8, 41, DType::bf16),
                                             make_gemm(12, 8, 4616, DType::bf16)};
  EXPECT_EQ(audit(problems).errata().size(), 1U);
  EXPECT_EQ(audit(problems, {.with_known = true}).errata().size(), 2U);
}

/// Runs of engine 50 of cuDNN for some problems; right where the list says so.
std::vector<AuditedRun> runs_of_engine(const std::vector<std::pair<std::string, bool>>& problems) {
  std::vector<AuditedRun> runs;
  for (const auto& [problem, right] : problems)
    runs.push_back({parse_any_problem(problem),
                    parse_config_name("cudnn_conv_fwd_bf16_nhwgc_v91400__e50_workspace1").config,
                    "cuDNN 9.14.0", right});
  return runs;
}

TEST(Errata, TakeTheConditionThatTheFewestRightRunsMeet) {
  // Wrong: a stride and groups. Right: either of them alone.
  const auto errata = errata_of(runs_of_engine({{"conv_fwd:1x16x9x9:16x3x3:bf16:nhwgc:stride=2:g=2", false},
                                                {"conv_fwd:2x64x9x9:16x3x3:bf16:nhwgc:stride=2:g=4", false},
                                                {"conv_fwd:2x64x9x9:16x3x3:bf16:nhwgc:stride=2", true},
                                                {"conv_fwd:2x64x9x9:16x3x3:bf16:nhwgc:g=4", true}}));
  ASSERT_EQ(errata.size(), 1U);
  EXPECT_EQ(errata[0].name, "engine 50 of cuDNN 9.14.0, conv_fwd");
  EXPECT_EQ(errata[0].in_words, "there are groups and there is a stride");
  EXPECT_EQ(errata[0].wrong, 2U);
  EXPECT_EQ(errata[0].right, 0U);
  EXPECT_EQ(errata[0].others, 2U);
  EXPECT_EQ(errata[0].problem, "conv_fwd:1x16x9x9:16x3x3:bf16:nhwgc:stride=2:g=2") << "the smallest";
}

TEST(Errata, CountRightRunsThatNoConditionSpares) {
  const auto errata = errata_of(runs_of_engine(
      {{"conv_fwd:1x16x9x9:16x3x3:bf16:nhwgc", false}, {"conv_fwd:1x16x9x10:16x3x3:bf16:nhwgc", true}}));
  ASSERT_EQ(errata.size(), 1U);
  EXPECT_EQ(errata[0].condition, "") << "the problems differ in no property of the list";
  EXPECT_EQ(errata[0].right, 1U);
  EXPECT_EQ(errata[0].others, 0U);
  EXPECT_NE(errata_toml(errata, "h200", "audit").find("\"wrong in 1 of 2 runs (h200, audit;"),
            std::string::npos)
      << errata_toml(errata, "h200", "audit");
}

TEST(Errata, RightAlgorithmsHaveNone) {
  EXPECT_TRUE(errata_of(runs_of_engine({{"conv_fwd:1x16x9x9:16x3x3:bf16:nhwgc", true}})).empty());
}

TEST_F(AuditTest, ReproductionsAreShortAndNameTheConfig) {
  const Audit found = audit({make_gemm(12, 8, 41, DType::bf16)});
  const Reproduction programs = reproduction(found.wrong().front());
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  EXPECT_LE(lines(programs.cpp), 20);
  EXPECT_LE(lines(programs.pytorch), 20);
  EXPECT_NE(programs.cpp.find("gemm:12x8x41:bf16"), std::string::npos);
  // The name reads back as the config.
  const std::size_t at = programs.cpp.find("\"cublaslt_") + 1;
  const std::string name = programs.cpp.substr(at, programs.cpp.find('"', at) - at);
  EXPECT_EQ(parse_config_name(name).config, found.wrong().front().config);
  EXPECT_NE(programs.pytorch.find("torch.randn(8, 41, **on).mT"), std::string::npos) << programs.pytorch;
  for (const char* conv :
       {"conv_fwd:2x8x9x9:16x3x3:bf16:nhwgc:pad=1", "conv_bwd_data:2x8x9x9:16x3x3:fp32:ngchw",
        "conv_bwd_weight:2x8x5x9x9:16x3x3x3:tf32:ndhwgc"}) {
    const Reproduction of =
        reproduction({.problem = parse_any_problem(conv),
                      .config = provider("cudnn").parse("cudnn_conv_fwd_bf16_nhwgc_v0__suggestion1").config,
                      .reason = {},
                      .verdict = {}});
    EXPECT_LE(lines(of.cpp), 20) << conv;
    EXPECT_LE(lines(of.pytorch), 20) << of.pytorch;
    EXPECT_NE(of.pytorch.find("torch.nn.functional.conv"), std::string::npos);
  }
}

TEST_F(AuditTest, PyTorchIsNotShownWhatItCannotCall) {
  const auto pytorch = [](const char* problem, const char* config) {
    return reproduction({.problem = parse_any_problem(problem),
                         .config = parse_config_name(config).config,
                         .reason = {},
                         .verdict = {}})
        .pytorch;
  };
  EXPECT_EQ(pytorch("gemm:12x8x41:fp8", "cublaslt_gemm_fp8_rcr_v0__suggestion1"), "");
  EXPECT_EQ(
      pytorch("conv_fwd:2x8x9x9:16x3x3:bf16:nhwgc:left_pad_h=1", "cudnn_conv_fwd_bf16_nhwgc_v0__suggestion1"),
      "");
}

TEST_F(AuditTest, OtherBackendsHaveNoSuggestions) {
  Audit cpu(backend("cpu"), {});
  expect_error(Errc::unsupported, "backend cpu has no library that suggests kernels",
               [&] { cpu.plans({make_gemm(8, 8, 8)}); });
  expect_error(Errc::invalid_argument, "suggestions=0", [] { Audit(backend("cuda"), {.suggestions = 0}); });
}

}  // namespace
}  // namespace kscout
