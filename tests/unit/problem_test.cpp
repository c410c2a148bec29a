#include <gtest/gtest.h>

#include <kscout/any_problem.h>
#include <kscout/error.h>
#include <kscout/problem.h>

namespace kscout {
namespace {

TEST(Problem, PrintsOnlyWhatIsOffItsDefault) {
  EXPECT_EQ(print(make_gemm(4096, 4096, 512)), "gemm:4096x4096x512:fp32:rcr");
  GemmProblem p = make_gemm(1, 2, 3, DType::fp8, Layout::ccr);
  p.batch = 7;
  p.lda = 9;
  EXPECT_EQ(print(p), "gemm:1x2x3:fp8:ccr:batch=7:lda=9");
  EXPECT_EQ(parse_problem(print(p)), p);
}

TEST(Problem, WeightIsNoPartOfTheIdentity) {
  GemmProblem a = make_gemm(8, 8, 8), b = a;
  b.weight = 3;
  EXPECT_EQ(a, b);
  EXPECT_EQ(std::hash<GemmProblem>{}(a), std::hash<GemmProblem>{}(b));
  EXPECT_EQ(parse_problem(print(b)).weight, 3);
}

void expect_refused(std::string_view text, std::string_view part_of_message) {
  try {
    parse_problem(text);
    ADD_FAILURE() << text << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(std::string_view(error.what()).find(part_of_message), std::string_view::npos) << error.what();
  }
}

TEST(Problem, MessagesNameTheValueAndTheRemedy) {
  expect_refused("gemm:4x4x4:fp23", "did you mean 'fp32'");
  expect_refused("gemm:4x4", "sizes are MxNxK");
  expect_refused("gemm:4x4x99999999999999999999", "does not fit 64 bits");
  expect_refused("gemm:4x4x-1", "k=-1");
  expect_refused("gemm:4x4x4:lda=3", "at least 4");
  expect_refused("gemm:4x4x4:leda=3", "did you mean 'lda'");
  expect_refused("gemm:4611686018427387904x4x4", "2^62");
  expect_refused("conv:4x4x4", "write gemm:");
  expect_refused("conv_fwd:1x8x8x8:8x3x3", "is a convolution, and a GEMM is needed here; write gemm:MxNxK");
  expect_refused("gem:4x4x4", "unknown op 'gem', did you mean 'gemm'? write gemm:MxNxK");
  expect_refused("gemm:16x16x16:m=5", "m is given twice: m=16 and m=5; leave one out");
  expect_refused("gemm:4x4x4:lda=8:batch=2:lda=9", "lda is given twice: lda=8 and lda=9");
  expect_refused("gemm:4x4x4:dtype=fp16:dtype_a=fp32:dtype_b=fp32:dtype_c=fp32:dtype_acc=fp32",
                 "dtype=fp16 has no effect");
  expect_refused("gemm:4x4x4:pad=1", "pad=1: GEMMs have no such field, convolutions have; write conv_fwd:");
}

TEST(Problem, AnUnknownOpGetsTheSyntaxOfTheNearest) {
  try {
    parse_any_problem("conv_fw:1x8x8x8:8x3x3");
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what())
                  .find("unknown op 'conv_fw', did you mean 'conv_fwd'? write conv_fwd:NxCxHxW:KxYxX"),
              std::string_view::npos)
        << error.what();
  }
}

TEST(Problem, TypeAndLayoutAreEachOptional) {
  EXPECT_EQ(parse_problem("gemm:4x5x6:rrr"), make_gemm(4, 5, 6, DType::fp32, Layout::rrr));
  GemmProblem mixed = make_gemm(4, 5, 6, DType::bf16);
  mixed.dtype_c = DType::fp32;
  EXPECT_EQ(parse_problem("gemm:4x5x6:dtype_c=fp32:dtype=bf16"), mixed);
}

TEST(Problem, LeadingDimensionsFollowTheLayout) {
  const auto ld = leading_dimensions(make_gemm(3, 5, 7, DType::fp32, Layout::crr));
  EXPECT_EQ(ld.a, 3);
  EXPECT_EQ(ld.b, 5);
  EXPECT_EQ(ld.c, 5);
  EXPECT_EQ(operand_elements(make_gemm(3, 5, 7)).b, 35);
}

TEST(Problem, EmptySizesAreLegal) {
  EXPECT_NO_THROW(check(make_gemm(0, 5, 0)));
  EXPECT_EQ(flop_count(make_gemm(0, 5, 0)), 0);
}

}  // namespace
}  // namespace kscout
