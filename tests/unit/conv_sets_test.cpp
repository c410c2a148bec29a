// Tests the counts of the public training sets, and that their validation shapes can be held out of training.
#include "problems/conv_sets.h"

#include <set>

#include <gtest/gtest.h>

#include <kscout/any_problem.h>

namespace kscout {
namespace {

TEST(ConvSets, HaveTheCountsOfTheirDefinitions) {
  struct Counts {
    const char* name;
    std::size_t total, distinct;
  };
  for (const Counts& want :
       {Counts{"ck_conv_train_fwd", 1538, 1434}, Counts{"ck_conv_train_fwd_all", 1886, 1782},
        Counts{"ck_conv_train_bwd_data", 1242, 1154}, Counts{"ck_conv_train_bwd_weight", 2009, 1853},
        Counts{"ck_conv_validation_bwd_data", 10, 10}, Counts{"ck_conv_validation_bwd_weight", 10, 10},
        Counts{"ck_conv_wide", 1694, 1631}, Counts{"ck_conv_edge", 1604, 1514}, Counts{"conv", 206, 206}}) {
    EXPECT_EQ(repeated_conv_set(want.name, DType::bf16).size(), want.total) << want.name;
    const auto distinct = make_conv_set(want.name, DType::bf16);
    EXPECT_EQ(distinct.size(), want.distinct) << want.name;
    for (const ConvProblem& problem : distinct) {
      EXPECT_TRUE(is_valid(problem)) << print(problem);
      EXPECT_EQ(problem.weight, 1);
    }
  }
  EXPECT_EQ(conv_sets().size(), 9u);
}

TEST(ConvSets, TheValidationShapesLieInTheTrainingSetsSoTheyMustBeTakenOut) {
  for (const std::string direction : {"bwd_data", "bwd_weight"}) {
    std::set<ProblemSizes> validation;
    for (const ConvProblem& p : make_conv_set("ck_conv_validation_" + direction, DType::bf16))
      validation.insert(sizes_of(p));
    std::size_t inside = 0;
    for (const ConvProblem& p : make_conv_set("ck_conv_train_" + direction, DType::bf16))
      inside += validation.contains(sizes_of(p));
    EXPECT_EQ(inside, 10u) << direction;
  }
}

TEST(ConvSets, OurOwnHoldsEveryKindOfConvolution) {
  std::size_t depthwise = 0, grouped = 0, dilated = 0, strided = 0, deep = 0, pointwise = 0;
  for (const ConvProblem& p : make_conv_set("conv", DType::bf16)) {
    depthwise += is_depthwise(p);
    grouped += p.g > 1 && !is_depthwise(p);
    dilated += p.dilation_h > 1;
    strided += p.stride_h > 1;
    deep += p.layout == Layout::ndhwgc;
    pointwise += is_pointwise(p);
  }
  for (const std::size_t count : {depthwise, grouped, dilated, strided, deep, pointwise})
    EXPECT_GE(count, 10u);
}

TEST(ConvSets, WeightsAreValidatedInAnotherOrderThanData) {
  const auto data = make_conv_set("ck_conv_validation_bwd_data", DType::bf16);
  const auto weight = make_conv_set("ck_conv_validation_bwd_weight", DType::bf16);
  EXPECT_EQ(sizes_of(weight[0]), sizes_of(data[3]));
  EXPECT_EQ(sizes_of(weight[1]), sizes_of(data[8]));
  EXPECT_EQ(sizes_of(weight[8]), sizes_of(data[2]));
}

}  // namespace
}  // namespace kscout
