// Tests the backend of a BLAS, with the BLAS of the tests.
#include "backend/cpu/blas_backend.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "measure/problem_bench.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace kscout {
namespace {

class BlasBackendTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("KSCOUT_OPENBLAS", paths::stand_in_blas, 1); }
};

TEST_F(BlasBackendTest, ResultsAreVerifiedInEveryForm) {
  ProblemBench bench({.repeat = 1, .contenders = 0}, 1);
  for (const char* const text :
       {"gemm:5x7x9", "gemm:5x7x9:fp32:rrr", "gemm:5x7x9:fp32:crr", "gemm:5x7x9:fp32:ccr",
        "gemm:5x7x9:batch=3", "gemm:5x7x9:lda=11:ldb=12:ldc=13", "gemm:5x7x9:accumulate=1",
        "gemm:5x7x9:epilogue=bias", "gemm:5x7x9:batch=2:epilogue=relu",
        "gemm:5x7x9:ldc=9:epilogue=bias_relu"}) {
    const Problem problem = parse_any_problem(text);
    bench.open(problem);
    const Outcome outcome = bench.coarse({&blas_backend("openblas"), {}}, 1e9);
    EXPECT_EQ(outcome.measured.status, Status::ok) << text << ": " << outcome.reason;
  }
}

TEST_F(BlasBackendTest, NamesTheFileTheReleaseAndTheKernels) {
  EXPECT_EQ(
      blas_backend("openblas").versions(),
      (std::map<std::string, std::string>{{"file", std::filesystem::canonical(paths::stand_in_blas).string()},
                                          {"release", "0.3.99"},
                                          {"kernels", "StandIn"}}));
}

TEST_F(BlasBackendTest, SaysWhatTheLibraryDoesNotCompute) {
  Backend& library = blas_backend("openblas");
  const auto refusal = [&](const char* text) { return library.refusal(parse_any_problem(text), {}); };
  EXPECT_EQ(refusal("gemm:5x7x9"), "");
  EXPECT_EQ(refusal("gemm:5x7x9:bf16"), "openblas is timed on fp32 only");
  EXPECT_EQ(refusal("gemm:5x7x9:epilogue=bias_gelu"), "openblas has no gelu");
  EXPECT_EQ(refusal("conv_fwd:1x8x8x8:8x3x3"), "openblas is timed on GEMMs only");
  EXPECT_EQ(refusal("gemm:5x7x9:epilogue=bias:accumulate=1"),
            "openblas has no product that adds both C and a bias");
  test::expect_error(Errc::unsupported, "gemm:5x7x9:bf16:rcr: openblas is timed on fp32 only",
                     [&] { library.prepare(parse_any_problem("gemm:5x7x9:bf16"), {}); });
  test::expect_error(Errc::invalid_argument, "known are openblas and onednn", [] { blas_backend("mkl"); });
}

}  // namespace
}  // namespace kscout
