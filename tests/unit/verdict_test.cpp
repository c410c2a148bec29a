// Tests what rules say about configs of any source: rule_verdict() and Selector::verdict().
#include <gtest/gtest.h>

#include <kscout/device.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "family/family_file.h"
#include "provider/cublaslt/cublaslt.h"
#include "support/expect_error.h"
#include "support/nvidia_config.h"

namespace kscout {
namespace {

/// Algorithm 66 of cuBLASLt with a tile depth of 64 and nine split-K slices.
KernelConfig nine_slices(std::int32_t version = 130100) {
  return CublasLtConfig{version, 0, 66, 64, 64, 64, 0, 9, 2, 0, 0, 0, 1, 1}.kernel_config();
}

Verdict verdict(ProblemRef problem, const KernelConfig& config) {
  return rule_verdict(problem, config, device_preset("h200"));
}

TEST(Verdict, NamesTheErratumAndItsRelease) {
  const Verdict refused = verdict(make_gemm(16, 8, 4616, DType::bf16), nine_slices());
  EXPECT_EQ(refused.status, VerdictStatus::refused);
  EXPECT_EQ(refused.rule, "algorithm 66 of cuBLASLt 13.1.0, gemm");
  EXPECT_EQ(refused.since, "cuBLASLt 13.1.0");
  EXPECT_NE(refused.because.find("the split-K slices end before K"), std::string::npos) << refused.because;

  const Verdict careful = verdict(make_gemm(16, 8, 4616, DType::bf16), nine_slices(130200));
  EXPECT_EQ(careful.rule, "parts-reach-the-end") << "no other release was audited";

  const Verdict allowed = verdict(make_gemm(16, 8, 4608, DType::bf16), nine_slices());
  EXPECT_EQ(allowed.status, VerdictStatus::allowed);
  EXPECT_EQ(allowed.rule + allowed.because + allowed.since, "");
  // The same config as one of the joint family.
  EXPECT_EQ(verdict(make_gemm(16, 8, 4616, DType::bf16), test::nvidia_config(nine_slices())).rule,
            refused.rule);
}

TEST(Verdict, OtherRulesRefuseWithoutARelease) {
  const Verdict legal = verdict(make_gemm(16, 8, 4608, DType::fp64), nine_slices());
  EXPECT_EQ(legal.status, VerdictStatus::refused);
  EXPECT_EQ(legal.rule, "types");
  EXPECT_EQ(legal.since, "");
  const Verdict rows = verdict(make_gemm(16, 8, 4603, DType::bf16), nine_slices());
  EXPECT_EQ(rows.rule, "rows-16-byte-aligned");
  const GemmProblem both = make_gemm(16, 12, 4616, DType::bf16);  // and the end of K is left out
  EXPECT_EQ(verdict(both, nine_slices()).since, "cuBLASLt 13.1.0") << "what is wrong comes first";
  const Verdict other = verdict(parse_any_problem("conv_fwd:8x64x56x56:128x3x3:bf16"), nine_slices());
  EXPECT_EQ(other.status, VerdictStatus::refused);
  EXPECT_EQ(other.rule, "operation");
}

TEST(Verdict, IsUnknownForOtherReleasesAndSuggestions) {
  const GemmProblem right = make_gemm(16, 8, 4608, DType::bf16);
  const Verdict other = verdict(right, nine_slices(120900));
  EXPECT_EQ(other.status, VerdictStatus::unknown);
  EXPECT_NE(other.because.find("120900"), std::string::npos) << other.because;
  EXPECT_EQ(verdict(right, nine_slices(0)).status, VerdictStatus::unknown);
  // A rule that refuses holds for other releases, too.
  EXPECT_EQ(verdict(make_gemm(16, 8, 4616, DType::bf16), nine_slices(120900)).status, VerdictStatus::refused);
  CublasLtConfig suggestion;
  suggestion.suggestion = 3;
  const Verdict suggested = verdict(right, suggestion.kernel_config());
  EXPECT_EQ(suggested.status, VerdictStatus::unknown);
  EXPECT_NE(suggested.because.find("suggestion 3"), std::string::npos) << suggested.because;
  // A rule about a fact that the device does not state.
  Device blank = device_preset("h200");
  blank.vendor.clear();
  EXPECT_NE(rule_verdict(right, nine_slices(), blank).status, VerdictStatus::allowed);
}

TEST(Verdict, BadInputIsAnError) {
  GemmProblem bad = make_gemm(16, 8, 64);
  bad.batch = 0;
  EXPECT_THROW(verdict(bad, nine_slices()), Error);
  EXPECT_THROW(verdict(make_gemm(16, 8, 64), {}), Error);
  KernelConfig partial = nine_slices();
  partial.set("split_k", KernelConfig::unknown);
  EXPECT_THROW(verdict(make_gemm(16, 8, 64, DType::bf16), partial), Error);
}

TEST(Verdict, EveryErratumStatesItsRelease) {
  for (const Op op : {Op::gemm, Op::conv_fwd, Op::conv_bwd_data, Op::conv_bwd_weight}) {
    const char* const provider = op == Op::gemm ? "cublaslt" : "cudnn";
    for (const Rule& rule : family_file(provider, op).rules)
      EXPECT_TRUE(!rule.suggested || !rule.since.empty()) << rule.name;
    EXPECT_EQ(family_file(provider, op).releases.size(), 1u) << provider;
  }
}

TEST(Verdict, ASelectorAddsTheRulesOfItsOwnFamily) {
  const Device cpu = device_preset("epyc-7763");
  const Selector rules = Selector::analytic({.device = cpu});
  const GemmProblem odd = make_gemm(48, 33, 60), even = make_gemm(48, 32, 60);
  const KernelConfig chosen = rules.select(odd).config;
  EXPECT_EQ(rules.verdict(odd, chosen).status, VerdictStatus::allowed);
  const Selector library = Selector::analytic({.device = cpu}, [&](const Signature& signature) {
    Family family = enumerate({.provider = "native", .signature = signature, .device = cpu, .filter = {}});
    family.applicability.push_back(
        {"pairs", RuleKind::applicability, "p.n % 2 == 0", "stores of two elements"});
    return family;
  });
  const Verdict refused = library.verdict(odd, chosen);
  EXPECT_EQ(refused.status, VerdictStatus::refused);
  EXPECT_EQ(refused.rule, "pairs");
  EXPECT_EQ(library.verdict(even, chosen).status, rules.verdict(even, chosen).status);
}

}  // namespace
}  // namespace kscout
