#include <gtest/gtest.h>

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
