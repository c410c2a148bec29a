// Tests forms with aligned lines, and when a dispatcher uses them on a GPU (a module on this machine's CPU;
// nothing runs).
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/provider.h>

#include "dispatch/padding.h"
#include "op/gemm/gemm_views.h"
#include "support/paths.h"

namespace kscout {
namespace {

/// Which operands a form copies: "abc", "b", ...
std::string copied(const ExecutionForm& form) {
  return std::string(form.copied[kA] ? "a" : "") + (form.copied[kB] ? "b" : "") +
         (form.copied[kC] ? "c" : "");
}

TEST(AlignedForms, RoundSizesUpOrPutGapsBehindLines) {
  // The output layer of GPT-2: C has odd rows, and B gets more of its rows.
  auto forms = aligned_forms(make_gemm(8192, 50257, 768, DType::bf16));
  ASSERT_EQ(forms.size(), 2u);
  EXPECT_EQ(print(forms[0].form.problem), "gemm:8192x50304x768:bf16:rcr");
  EXPECT_EQ(print(forms[1].form.problem), "gemm:8192x50264x768:bf16:rcr");
  EXPECT_EQ(forms[1].chosen_for, forms[1].form.problem);
  EXPECT_EQ(copied(forms[0].form), "bc");
  EXPECT_DOUBLE_EQ(forms[1].form.copy_bytes, 2.0 * (50257 + 50264) * 768 + 2 * 2.0 * 8192 * 50257);
  // Its gradient of the input: K is odd, and only A has it along its rows.
  forms = aligned_forms(make_gemm(8192, 768, 50257, DType::bf16, Layout::rrr));
  ASSERT_EQ(forms.size(), 4u);
  EXPECT_EQ(print(forms[0].form.problem), "gemm:8192x768x50257:bf16:rrr:lda=50304");
  EXPECT_EQ(print(forms[0].chosen_for), "gemm:8192x768x50304:bf16:rrr");
  EXPECT_EQ(copied(forms[0].form), "a");
  EXPECT_EQ(forms[3].form.problem.gemm().k, 50264);
  EXPECT_EQ(copied(forms[3].form), "ab");
  // Of the weights.
  forms = aligned_forms(make_gemm(50257, 768, 8192, DType::bf16, Layout::crr));
  ASSERT_EQ(forms.size(), 4u);
  EXPECT_EQ(copied(forms[2].form), "a");
  EXPECT_EQ(forms[2].form.problem.gemm().lda, 50264);
  EXPECT_EQ(forms[3].form.problem.gemm().m, 50264);
  EXPECT_EQ(copied(forms[3].form), "ac");
}

TEST(AlignedForms, AlignWhatLargerSizesChange) {
  // A is one line until K is rounded up; then it has lines of two elements.
  GemmProblem p = make_gemm(2, 60, 1, DType::fp32, Layout::ccr);
  p.ldb = 10;
  const auto forms = aligned_forms(p);
  ASSERT_EQ(forms.size(), 4u);
  EXPECT_EQ(forms[3].form.problem, make_gemm(4, 60, 4, DType::fp32, Layout::ccr));
  EXPECT_EQ(copied(forms[3].form), "abc");
}

TEST(AlignedForms, AreForLinesThatNeedThem) {
  EXPECT_TRUE(aligned_forms(make_gemm(33, 64, 8, DType::bf16)).empty()) << "M is not along any line";
  EXPECT_TRUE(aligned_forms(make_gemm(1, 51, 8, DType::bf16)).empty()) << "C is one line";
  EXPECT_FALSE(aligned_forms(make_gemm(2, 51, 8, DType::bf16)).empty());
  EXPECT_TRUE(aligned_forms(make_gemm(33, 60, 20, DType::fp32)).empty()) << "four elements of 4 bytes";
  EXPECT_FALSE(aligned_forms(make_gemm(33, 60, 20, DType::bf16)).empty());
  EXPECT_TRUE(aligned_forms(make_gemm(5, 5, 5, DType::int4)).empty());
  GemmProblem gaps = make_gemm(16, 16, 16, DType::bf16);
  gaps.lda = 19;
  const auto forms = aligned_forms(gaps);
  ASSERT_EQ(forms.size(), 4u);
  EXPECT_EQ(forms[2].form.problem.gemm().lda, 16);
  EXPECT_EQ(forms[3].form.problem, make_gemm(16, 16, 16, DType::bf16))
      << "the sizes are aligned, the gaps are not";
  EXPECT_EQ(copied(forms[3].form), "a");
}

class AlignedOnGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("KSCOUT_CUDA_MODULE", paths::host_gpu, 1);
    setenv("KSCOUT_MODEL_PATH", paths::in_repository("models").c_str(), 1);
  }
  static void TearDownTestSuite() { unsetenv("KSCOUT_MODEL_PATH"); }

  static Solution solution(const GemmProblem& problem, const DispatchPolicy& policy = {},
                           const Limits& limits = {}) {
    Registry gpu;
    gpu.add(backend("cuda"));
    return Dispatcher(gpu, policy).get_solution(problem, {}, limits);
  }
};

TEST_F(AlignedOnGpu, CopiesAreUsedWhereTheyAreWorthTheirTime) {
  const GemmProblem large = make_gemm(8192, 8191, 8191, DType::bf16);
  const Solution copies = solution(large);
  EXPECT_TRUE(copies.form.padded());
  EXPECT_GT(copies.copies_us, 100);
  EXPECT_LT(copies.copies_us, 1000);
  const Solution direct = solution(large, {.copies_bytes = 0});
  EXPECT_FALSE(direct.form.padded());
  EXPECT_EQ(direct.copies_us, 0);
  EXPECT_LT(copies.choice.time_us + copies.copies_us, 0.9 * direct.choice.time_us);
  // Copies would take longer than the product.
  EXPECT_FALSE(solution(make_gemm(64, 51, 64, DType::bf16)).form.padded());
  EXPECT_FALSE(solution(make_gemm(8192, 50304, 768, DType::bf16)).form.padded());
}

TEST_F(AlignedOnGpu, GapsBehindRowsDoWhereCIsAligned) {
  const Solution input = solution(make_gemm(8192, 4096, 50257, DType::bf16, Layout::rrr));
  EXPECT_EQ(copied(input.form), "a");
  EXPECT_EQ(input.form.problem.gemm().k, 50257);
  const std::string name = config_name(signature_of(input.form.problem), input.choice.config);
  EXPECT_NE(name.find("_v130100__"), name.npos) << "the library would suggest for the odd K: " << name;
  EXPECT_EQ(copied(solution(make_gemm(50257, 4096, 8192, DType::bf16, Layout::crr)).form), "a");
  EXPECT_EQ(copied(solution(make_gemm(8192, 8191, 8191, DType::bf16)).form), "abc");
  // fp16 in this layout is answered by the model's bf16.
  EXPECT_EQ(copied(solution(make_gemm(8192, 4096, 50257, DType::fp16, Layout::rrr)).form), "a");
}

TEST_F(AlignedOnGpu, CopiesKeepLimits) {
  const GemmProblem problem = make_gemm(8192, 4096, 50257, DType::bf16, Layout::rrr);
  const auto bytes = static_cast<std::size_t>(2 * 50264) * 8192;
  EXPECT_TRUE(solution(problem, {.copies_bytes = bytes}).form.padded());
  EXPECT_FALSE(solution(problem, {.copies_bytes = bytes - 1}).form.padded());
}

std::string_view provider_of(const Solution& solution) { return solution.choice.config.space->provider; }

TEST_F(AlignedOnGpu, HopperKernelsRunWhereTheyNeedLessThanCopies) {
  // The output layer of GPT-2: A and B are aligned, C is not.
  const GemmProblem forward = make_gemm(8192, 50257, 768, DType::bf16);
  const Solution own = solution(forward);
  EXPECT_EQ(provider_of(own), "hopper");
  EXPECT_FALSE(own.form.padded());
  EXPECT_EQ(own.choice.decided_by, ChoiceSource::analytic);
  EXPECT_GT(own.choice.time_us, 700);
  EXPECT_LT(own.choice.time_us, 1400);
  EXPECT_EQ(provider_of(solution(make_gemm(8192, 250002, 768, DType::bf16))), "hopper");
  EXPECT_EQ(provider_of(solution(make_gemm(8192, 50257, 768, DType::fp16))), "hopper");
  GemmProblem other = forward;
  other.epilogue = Epilogue::bias_gelu;
  EXPECT_EQ(provider_of(solution(other)), "hopper");
  // They compute one product, and read no C.
  other = forward;
  other.batch = 2;
  EXPECT_NE(provider_of(solution(other)), "hopper");
  other = forward;
  other.accumulate = true;
  EXPECT_NE(provider_of(solution(other)), "hopper");
  // cuBLASLt's are faster, or not clearly slower.
  EXPECT_NE(provider_of(solution(make_gemm(8192, 50304, 768, DType::bf16))), "hopper");
  EXPECT_NE(provider_of(solution(make_gemm(16, 51, 64, DType::bf16))), "hopper");
}

TEST_F(AlignedOnGpu, HopperKernelsKeepLimits) {
  // Few tiles and a long K: split-K, with sums in the workspace.
  const GemmProblem problem = make_gemm(256, 1001, 65536, DType::bf16);
  const auto split_of = [](const Solution& solution) { return solution.choice.config["split_k"]; };
  const Solution free = solution(problem, {.copies_bytes = 0});
  ASSERT_EQ(provider_of(free), "hopper");
  EXPECT_GT(split_of(free), 1);
  const Solution bound = solution(problem, {.copies_bytes = 0}, {.workspace_bytes = 0});
  EXPECT_TRUE(provider_of(bound) != "hopper" || split_of(bound) == 1);
}

TEST_F(AlignedOnGpu, HopperKernelsArePreparedByName) {
  const GemmProblem problem = make_gemm(129, 257, 65, DType::bf16);
  const auto launch =
      backend("cuda").prepare(problem, parse_config_name("hopper_gemm_bf16_rcr__128x192x64_c1_k1").config);
  EXPECT_NE(launch, nullptr);
  EXPECT_THROW(
      backend("cuda").prepare(problem, parse_config_name("hopper_gemm_bf16_rcr__128x256x64_c1_k1").config),
      Error)
      << "lines of A and B are not aligned";
}

TEST_F(AlignedOnGpu, KernelsOnTheCpuRunWithoutCopies) {
  Registry cpu;
  cpu.add(backend("cpu"));
  EXPECT_FALSE(Dispatcher(cpu).get_solution(make_gemm(1024, 5021, 769)).form.padded());
}

}  // namespace
}  // namespace kscout
