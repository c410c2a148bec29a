#include <gtest/gtest.h>

#include <kscout/any_problem.h>
#include <kscout/conv_problem.h>
#include <kscout/error.h>

namespace kscout {
namespace {

TEST(ConvProblem, PrintsOnlyWhatIsOffItsDefault) {
  ConvProblem p = make_conv(Op::conv_bwd_data, DType::bf16);
  p.n = 8, p.c = 64, p.k = 128, p.h = 56, p.w = 28, p.y = 3, p.x = 1;
  EXPECT_EQ(print(p), "conv_bwd_data:8x64x56x28:128x3x1:bf16:nhwgc");
  p.stride_h = p.stride_w = 2;
  p.left_pad_h = p.right_pad_h = 1;
  p.right_pad_w = 3;
  p.g = 4;
  EXPECT_EQ(print(p), "conv_bwd_data:8x64x56x28:128x3x1:bf16:nhwgc:stride=2:pad_h=1:g=4:right_pad_w=3");
  EXPECT_EQ(parse_conv_problem(print(p)), p);
}

TEST(ConvProblem, TheNumberOfSizesTellsTheRank) {
  const ConvProblem p = parse_conv_problem("conv_fwd:1x8x4x5x6:16x3x3x3:fp16:pad=1:dilation_d=1");
  EXPECT_EQ(p.layout, Layout::ndhwgc);
  EXPECT_EQ(p.d, 4);
  EXPECT_EQ(p.z, 3);
  EXPECT_EQ(p.right_pad_d, 1);
  EXPECT_EQ(output_sizes(p).d, 4);
}

TEST(ConvProblem, WeightIsNoPartOfTheIdentity) {
  const ConvProblem a = parse_conv_problem("conv_fwd:1x8x4x5:16x3x3"),
                    b = parse_conv_problem(print(a) + ":weight=3");
  EXPECT_EQ(a, b);
  EXPECT_EQ(std::hash<ConvProblem>{}(a), std::hash<ConvProblem>{}(b));
  EXPECT_EQ(parse_conv_problem(print(b)).weight, 3);
}

TEST(ConvProblem, PackingTheFilterOnceIsPartOfTheIdentity) {
  const ConvProblem once = parse_conv_problem("conv_bwd_data:1x8x4x5:16x3x3:prepacked=1");
  ConvProblem per_call = once;
  per_call.prepacked = false;
  EXPECT_EQ(print(once), "conv_bwd_data:1x8x4x5:16x3x3:fp32:nhwgc:prepacked=1");
  EXPECT_NE(once, per_call);
  EXPECT_NE(std::hash<ConvProblem>{}(once), std::hash<ConvProblem>{}(per_call));
  EXPECT_EQ(sizes_of(once), sizes_of(per_call)) << "held out together";
}

TEST(ConvProblem, OperandsFollowTheDirection) {
  ConvProblem p = make_conv(Op::conv_bwd_weight, DType::fp16);
  p.dtype_wei = DType::fp32;
  EXPECT_EQ(signature_of(p).dtype_c, DType::fp32);
  p.op = Op::conv_bwd_data;
  EXPECT_EQ(signature_of(p).dtype_b, DType::fp32);
  p.dtype_out = DType::bf16;
  EXPECT_EQ(signature_of(p).dtype_a, DType::bf16);
}

TEST(ConvProblem, SizesOfTheProductFollowDirectionAndGroup) {
  ConvProblem p = parse_conv_problem("conv_fwd:4x64x32x32:128x3x3:bf16:pad=1:g=2");
  EXPECT_EQ(implicit_gemm(p), (ImplicitGemm{4 * 32 * 32, 64, 32 * 9, 2, 1}));
  p.op = Op::conv_bwd_data;
  EXPECT_EQ(implicit_gemm(p), (ImplicitGemm{4 * 32 * 32, 32, 64 * 9, 2, 1}));
  p.op = Op::conv_bwd_weight;
  EXPECT_EQ(implicit_gemm(p), (ImplicitGemm{64, 32 * 9, 4 * 32 * 32, 2, 1}));
}

/// Where the filter is smaller than the stride some elements of the input meet nothing.
TEST(ConvProblem, BackwardDataFallsIntoPartsByStride) {
  const ConvProblem p = parse_conv_problem("conv_bwd_data:1x8x9x8:16x3x1:bf16:stride=2");
  const auto gemms = implicit_gemms(p);
  ASSERT_EQ(gemms.size(), 2u);
  EXPECT_EQ(gemms[0], (ImplicitGemm{5 * 4, 8, 16 * 2, 1, 2}));
  EXPECT_EQ(gemms[1], (ImplicitGemm{4 * 4, 8, 16 * 1, 1, 2}));
  EXPECT_EQ(implicit_gemm(p), gemms[0]);
}

void expect_conv_refused(std::string_view text, std::string_view part_of_message) {
  try {
    parse_conv_problem(text);
    ADD_FAILURE() << text << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(std::string_view(error.what()).find(part_of_message), std::string_view::npos) << error.what();
  }
}

TEST(ConvProblem, MessagesNameTheValueAndTheRemedy) {
  expect_conv_refused("gemm:4x4x4", "is not a convolution; write conv_fwd:");
  expect_conv_refused("conv_fwd:4x4x4:8x3x3", "is not a convolution");
  expect_conv_refused("conv_fwd:1x6x8x8:8x3x3:g=4", "g=4: must divide the channels c=6 and k=8");
  expect_conv_refused("conv_fwd:1x8x8x2:8x3x3", "axis w: a filter of 3 elements");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:stride_h=0", "stride_h=0: must be 1 to");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:pad=-1", "left_pad_h=-1: must be 0 to");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:fp16:rcr", "does not fit 2 spatial sizes");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:d=2", "has no axis d");
  expect_conv_refused("conv_bwd_weight:1x8x8x8:8x3x3:prepacked=1", "the filter is the result");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:stride_hh=2", "did you mean 'stride_h'");
  expect_conv_refused("conv_fwd:2147483647x2147483647x8x8:8x1x1", "2^62");
}

}  // namespace
}  // namespace kscout
