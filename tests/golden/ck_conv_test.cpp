// Compares ck_conv_83, ck_conv_97, ck_conv_113 and their parts with an independent transcription of their
// public description (ck_conv_reference.py).
#include <gtest/gtest.h>

#include <kscout/provider.h>

#include "features/schema.h"
#include "golden/golden.h"

namespace kscout {
namespace {

using namespace golden;

TEST(CkConvSchemas, Gives83FeaturesAsPublished) { compare("ck_conv_83", 83, conv_of, conv_config_of); }
TEST(CkConvSchemas, Gives97FeaturesAsPublished) { compare("ck_conv_97", 97, conv_of, conv_config_of); }
TEST(CkConvSchemas, Gives113FeaturesAsPublished) { compare("ck_conv_113", 113, conv_of, conv_config_of); }

TEST(CkConvSchemas, PartsAreThePublishedOnesWithoutSome) {
  compare_part("ck_conv_74", 74, "ck_conv_83", conv_of, conv_config_of);
  compare_part("ck_conv_75", 75, "ck_conv_83", conv_of, conv_config_of);
  compare_part("ck_conv_91", 91, "ck_conv_97", conv_of, conv_config_of);
  compare_part("ck_conv_gfx950", 72, "ck_conv_113", conv_of, conv_config_of);
  compare_part("ck_conv_gfx942", 101, "ck_conv_113", conv_of, conv_config_of);
  compare_part("ck_conv_104", 104, "ck_conv_113", conv_of, conv_config_of);
  for (const char* gone : {"is_intrawave", "hw_num_cus"}) {
    for (const Feature& feature : Schema::find("ck_conv_gfx950").features()) EXPECT_NE(feature.id, gone);
  }
}

TEST(CkConvSchemas, NamesWithoutAWaveModeAreIntrawave) {
  const auto is_intrawave = [](const char* schema, std::string_view name) {
    const NamedConfig kernel = parse_config_name(name);
    const Schema& of = Schema::find(schema);
    std::vector<double> row(of.size());
    of.evaluate(make_conv(Op::conv_fwd, DType::bf16), device_preset("gfx942"), kernel.config, Traits{}, row);
    return row[of.index("is_intrawave")];
  };
  for (const char* schema : {"ck_conv_113", "ck_conv_gfx942"}) {
    EXPECT_EQ(is_intrawave(schema, "grouped_conv_forward_bf16_2d_16x64x64_mem"), 1);
    EXPECT_EQ(is_intrawave(schema, "grouped_conv_forward_bf16_2d_16x64x64_mem_intrawave"), 1);
    EXPECT_EQ(is_intrawave(schema, "grouped_conv_forward_bf16_2d_16x64x64_mem_interwave"), 0);
  }
}

TEST(CkConvSchemas, OneFormulaCoversTheThreeDirections) {
  const Schema backward = Schema::find("ck_conv_113").for_op(Op::conv_bwd_weight);
  EXPECT_EQ(backward.data().op, Op::conv_bwd_weight);
  EXPECT_EQ(backward.hash(), Schema::find("ck_conv_113").hash());
  EXPECT_THROW(Schema::find("gemm").for_op(Op::conv_fwd), Error);
}

}  // namespace
}  // namespace kscout
