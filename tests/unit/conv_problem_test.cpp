#include <algorithm>
#include <array>
#include <string>

#include <gtest/gtest.h>

#include <kscout/any_problem.h>
#include <kscout/conv_problem.h>
#include <kscout/error.h>

#include "op/operation.h"

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

TEST(ConvProblem, ABiasIsAnOperandAndPartOfTheSignature) {
  const ConvProblem biased = parse_conv_problem("conv_fwd:1x8x4x5:16x3x3:bf16:epilogue=bias");
  EXPECT_EQ(print(biased), "conv_fwd:1x8x4x5:16x3x3:bf16:nhwgc:epilogue=bias");
  ConvProblem plain = biased;
  plain.epilogue = Epilogue::none;
  EXPECT_NE(signature_of(biased), signature_of(plain));
  EXPECT_EQ(sizes_of(biased), sizes_of(plain)) << "held out together";
  EXPECT_EQ(min_bytes(biased), min_bytes(plain) + 16 * 2);
  const OperandList operands = operation(Op::conv_fwd).operands(biased);
  const auto bias = std::ranges::find(operands, std::string_view("bias"), &Tensor::name);
  ASSERT_NE(bias, operands.end());
  EXPECT_EQ(bias->elements(), 16);
  EXPECT_EQ(bias->dtype, DType::bf16);
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

/// The pads of a 2-D problem: left_pad_h, left_pad_w, right_pad_h, right_pad_w.
std::array<std::int64_t, 4> pads(std::string_view fields) {
  const ConvProblem p = parse_conv_problem("conv_fwd:1x8x20x20:8x3x3:" + std::string(fields));
  return {p.left_pad_h, p.left_pad_w, p.right_pad_h, p.right_pad_w};
}

TEST(ConvProblem, TheSpecificFieldWinsInAnyOrder) {
  using Pads = std::array<std::int64_t, 4>;
  for (const char* text : {"pad=1:left_pad_h=3", "left_pad_h=3:pad=1"})
    EXPECT_EQ(pads(text), (Pads{3, 1, 1, 1}));
  for (const char* text : {"pad=1:pad_h=2:right_pad_h=3", "right_pad_h=3:pad_h=2:pad=1"})
    EXPECT_EQ(pads(text), (Pads{2, 1, 3, 1}));
  for (const char* text : {"stride=2:stride_h=1", "stride_h=1:stride=2"}) {
    const ConvProblem p = parse_conv_problem("conv_fwd:1x8x20x20:8x3x3:" + std::string(text));
    EXPECT_EQ(p.stride_h, 1);
    EXPECT_EQ(p.stride_w, 2);
  }
  const ConvProblem types = parse_conv_problem("conv_fwd:1x8x20x20:8x3x3:dtype_wei=fp32:dtype=bf16");
  EXPECT_EQ(types.dtype_in, DType::bf16);
  EXPECT_EQ(types.dtype_wei, DType::fp32);
}

TEST(ConvProblem, AGeneralFieldHasOneNumberOrOnePerAxis) {
  using Pads = std::array<std::int64_t, 4>;
  EXPECT_EQ(pads("pad=0x3"), (Pads{0, 3, 0, 3}));
  EXPECT_EQ(pads("pad=0x3:left_pad_w=1"), (Pads{0, 1, 0, 3}));
  const ConvProblem flat = parse_conv_problem("conv_fwd:1x8x20x20:8x3x3:stride=2x1:dilation=1x2");
  EXPECT_EQ(print(flat), "conv_fwd:1x8x20x20:8x3x3:fp32:nhwgc:stride_h=2:dilation_w=2");
  const ConvProblem deep = parse_conv_problem("conv_fwd:1x8x9x20x20:8x3x3x3:stride=1x2x3:pad=0x1x2");
  EXPECT_EQ(deep.stride_d, 1);
  EXPECT_EQ(deep.stride_w, 3);
  EXPECT_EQ(deep.left_pad_h, 1);
  EXPECT_EQ(deep.right_pad_w, 2);
  expect_conv_refused("conv_fwd:1x8x20x20:8x3x3:pad=0x3x1", "has 3 numbers; give one, or 2: height x width");
  expect_conv_refused("conv_fwd:1x8x9x20x20:8x3x3x3:stride=2x1", "one, or 3: depth x height x width");
  expect_conv_refused("conv_fwd:1x8x20x20:8x3x3:pad_h=1x2", "has 2 numbers; give one");
  expect_conv_refused("conv_fwd:1x8x20x20:8x3x3:pad=1x", "pad='': not a whole number");
}

TEST(ConvProblem, AFieldIsGivenOnceAndHasAnEffect) {
  const auto refused = [](const char* fields, const char* message) {
    expect_conv_refused("conv_fwd:1x8x20x20:8x3x3:fp32:nhwgc" + std::string(fields), message);
  };
  refused(":pad=1:pad=2", "pad is given twice: pad=1 and pad=2; leave one out");
  refused(":left_pad_h=2:g=1:left_pad_h=2", "left_pad_h is given twice: left_pad_h=2 and left_pad_h=2");
  refused(":n=2", "n is given twice: n=1 and n=2");
  refused(":layout=ngchw", "layout is given twice: layout=nhwgc and layout=ngchw");
  refused(":dtype=bf16", "dtype is given twice: dtype=fp32 and dtype=bf16");
  refused(":op=conv_bwd_data", "op is given twice: op=conv_fwd and op=conv_bwd_data");
  refused(":pad=1:pad_h=2:pad_w=3",
          "pad=1 has no effect: pad_h=2, pad_w=3 set all that it stands for; leave it out");
  refused(":stride=2:stride_h=1:stride_w=1", "stride=2 has no effect: stride_h=1, stride_w=1");
  refused(":m=5", "m=5: convolutions have no such field, GEMMs have");
}

TEST(ConvProblem, MessagesNameTheValueAndTheRemedy) {
  expect_conv_refused("gemm:4x4x4", "is not a convolution; write conv_fwd:");
  expect_conv_refused("conv_fwd:4x4x4:8x3x3", "is not a convolution");
  expect_conv_refused("conv_bwd_data:4x4x4:8x3x3", "write conv_bwd_data:NxCxHxW:KxYxX");
  expect_conv_refused("conv_fwd:1x6x8x8:8x3x3:g=4", "g=4: must divide the channels c=6 and k=8");
  expect_conv_refused("conv_fwd:1x8x8x2:8x3x3", "axis w: a filter of 3 elements");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:stride_h=0", "stride_h=0: must be 1 to");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:pad=-1", "left_pad_h=-1: must be 0 to");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:fp16:rcr", "does not fit 2 spatial sizes");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:d=2", "has no axis d");
  expect_conv_refused("conv_bwd_weight:1x8x8x8:8x3x3:prepacked=1", "the filter is the result");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:epilogue=gelu", "epilogue=gelu: conv_fwd takes none or bias");
  expect_conv_refused("conv_bwd_data:1x8x8x8:8x3x3:epilogue=bias", "the gradients none");
  expect_conv_refused("conv_fwd:1x8x8x8:8x3x3:stride_hh=2", "did you mean 'stride_h'");
  expect_conv_refused("conv_fwd:2147483647x2147483647x8x8:8x1x1", "2^62");
}

}  // namespace
}  // namespace kscout
