#include "op/operation.h"

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "support/expect_error.h"
#include "support/random_conv.h"

namespace kscout {
namespace {

using test::Rng;

TEST(Operation, ARecordHoldsWhatTheStructHolds) {
  Rng rng(1);
  for (int i = 0; i < 100; ++i) {
    GemmProblem gemm = test::random_problem(rng);
    gemm.weight = 2.5;
    const Problem of_gemm = gemm;
    EXPECT_EQ(of_gemm.as<GemmProblem>(), gemm);
    EXPECT_EQ(of_gemm.weight(), 2.5);
    EXPECT_EQ(of_gemm["k"], gemm.k);
    EXPECT_EQ(of_gemm["layout"], static_cast<std::int64_t>(gemm.layout));
    const ConvProblem conv = test::random_conv(rng, Op::conv_bwd_data);
    const Problem of_conv = conv;
    EXPECT_EQ(of_conv.conv(), conv);
    EXPECT_EQ(of_conv.op(), Op::conv_bwd_data);
    EXPECT_EQ(of_conv["left_pad_w"], conv.left_pad_w);
    EXPECT_NE(of_conv, of_gemm);
    EXPECT_EQ(print(of_conv), print(conv));
    EXPECT_EQ(signature_of(of_conv), signature_of(conv));
    EXPECT_EQ(flop_count(of_gemm), flop_count(gemm));
    EXPECT_EQ(sizes_of(of_conv), sizes_of(conv));
  }
}

TEST(Operation, TheWeightIsNoPartOfTheIdentity) {
  const Problem one = make_gemm(4, 5, 6);
  Problem other = one;
  other.set_weight(9);
  EXPECT_EQ(one, other);
  EXPECT_EQ(one.hash(), other.hash());
  other.set("m", 7);
  EXPECT_NE(one, other);
}

TEST(Operation, AReferenceKnowsTheStructItWasMadeFrom) {
  const GemmProblem gemm = make_gemm(4, 5, 6);
  const Problem record = gemm;
  EXPECT_EQ(ProblemRef(gemm).struct_of<GemmProblem>(), &gemm);
  EXPECT_EQ(ProblemRef(gemm).struct_of<ConvProblem>(), nullptr);
  EXPECT_EQ(ProblemRef(record).struct_of<GemmProblem>(), nullptr);
  EXPECT_EQ(ProblemRef(record).as<GemmProblem>(), gemm);
  EXPECT_TRUE(ProblemRef(record).is<GemmProblem>());
}

TEST(Operation, AProblemOfAnotherOperationIsRefused) {
  const Problem gemm = make_gemm(4, 5, 6);
  test::expect_error(Errc::unsupported, "gemm:4x5x6:fp32:rcr: supported for convolutions only",
                     [&] { gemm.conv(); });
  test::expect_error(Errc::unsupported, "supported for GEMMs only",
                     [] { ProblemRef(make_conv(Op::conv_fwd)).as<GemmProblem>(); });
  test::expect_error(Errc::invalid_argument, "unknown field 'layuot'; did you mean 'layout'?",
                     [&] { gemm["layuot"]; });
}

TEST(Operation, EveryOpHasOneOperation) {
  for (std::size_t i = 0; i < EnumWords<Op>::words.size(); ++i) {
    const auto op = static_cast<Op>(i);
    const Operation& of = operation(op);
    EXPECT_NE(std::ranges::find(of.ops, op), of.ops.end()) << word(op);
    EXPECT_EQ(of.make(op).op(), op);
    EXPECT_EQ(&problem_space(op), &of.space);
    EXPECT_EQ(of.space.fields.back().name, "weight");
    EXPECT_EQ(of.ops.size() > 1, of.space.fields.front().name == "op");
    EXPECT_LE(of.space.fields.size(), kMaxProblemFields);
  }
  EXPECT_TRUE(same_operation(Op::conv_fwd, Op::conv_bwd_weight));
  EXPECT_FALSE(same_operation(Op::conv_fwd, Op::gemm));
}

TEST(Operation, NumbersOfFieldsReadBackFromTheirText) {
  Problem problem = parse_any_problem("conv_fwd:8x64x56x56:128x3x3:bf16:ngchw:pad=1:weight=0.3:prepacked=1");
  const auto fields = problem.space().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    EXPECT_EQ(parse_value(fields[i], value_text(fields[i], problem[i])), problem[i]) << fields[i].name;
  }
  EXPECT_EQ(value_text(fields[problem.space().index("layout")], problem["layout"]), "ngchw");
  EXPECT_EQ(value_text(fields.back(), problem["weight"]), "0.3");
}

TEST(Operation, OperandsOfAGemmHaveItsElements) {
  Rng rng(2);
  for (int i = 0; i < 200; ++i) {
    const GemmProblem p = test::random_problem(rng);
    const OperandList operands = operation(Op::gemm).operands(p);
    const OperandElements expected = operand_elements(p);
    ASSERT_EQ(operands.size(), 3u);
    EXPECT_EQ(operands[0].elements(), expected.a) << print(p);
    EXPECT_EQ(operands[1].elements(), expected.b) << print(p);
    EXPECT_EQ(operands.result().elements(), expected.c) << print(p);
    EXPECT_EQ(operands.result().name, "c");
  }
}

TEST(Operation, OperandsOfAConvolutionHaveItsElements) {
  Rng rng(3);
  for (const Op op : kDirections) {
    for (int i = 0; i < 50; ++i) {
      const ConvProblem p = test::random_conv(rng, op);
      const ConvElements elements = operand_elements(p);
      const auto expected = by_operand(op, elements.in, elements.wei, elements.out);
      const OperandList operands = operation(op).operands(p);
      ASSERT_EQ(operands.size(), 3u);
      EXPECT_EQ(operands[0].elements(), expected.a) << print(p);
      EXPECT_EQ(operands[1].elements(), expected.b) << print(p);
      EXPECT_EQ(operands[2].elements(), expected.c) << print(p);
      EXPECT_EQ(&operands.result(), &operands[2]) << print(p);
    }
  }
}

TEST(Operation, OperandsOfAPartLieInTheProblemsOwn) {
  Rng rng(5);
  int parts = 0;
  for (int i = 0; i < 300; ++i) {
    const Problem whole = i % 2 == 0 ? Problem(test::random_problem(rng))
                                     : Problem(test::random_conv(rng, Op::conv_bwd_weight));
    const Operation& of = operation(whole.op());
    const Problem part = of.part_of(whole);
    if (part == whole) continue;
    ++parts;
    check(part);
    EXPECT_LE(flop_count(part), flop_count(whole) / 8) << print(whole);
    EXPECT_EQ(signature_of(part), signature_of(whole));
    const OperandList of_whole = of.operands(whole), of_part = of.operands(part);
    for (std::size_t at = 0; at < of_whole.size(); ++at) {
      EXPECT_LE(of_part[at].elements(), of_whole[at].elements()) << print(whole);
      for (std::size_t axis = 0; axis < of_whole[at].rank; ++axis) {
        EXPECT_LE(of_part[at].sizes[axis], of_whole[at].sizes[axis]);
        if (of_part[at].sizes[axis] > 1) {
          EXPECT_EQ(of_part[at].strides[axis], of_whole[at].strides[axis]) << print(whole);
        }
      }
    }
  }
  EXPECT_GT(parts, 50);
}

TEST(Operation, OnlyAnEpilogueWithABiasReadsOne) {
  GemmProblem p = make_gemm(4, 5, 6, DType::fp16);
  p.epilogue = Epilogue::bias_relu;
  const OperandList operands = operation(Op::gemm).operands(p);
  ASSERT_EQ(operands.size(), 4u);
  EXPECT_EQ(operands[3].name, "bias");
  EXPECT_EQ(operands[3].bytes(), 10);
  EXPECT_EQ(operation(Op::gemm).operands(make_gemm(4, 5, 6, DType::fp8)).size(), 5u) << "two scales";
}

}  // namespace
}  // namespace kscout
