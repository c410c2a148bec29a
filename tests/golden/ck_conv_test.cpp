// Compares ck_conv_83, ck_conv_113 and its parts with an independent transcription of their public
// description (ck_conv_reference.py).
#include <gtest/gtest.h>

#include <kscout/provider.h>

#include "features/schema.h"
#include "golden/golden.h"

namespace kscout {
namespace {

using namespace golden;

TEST(CkConvSchemas, Gives83FeaturesAsPublished) { compare("ck_conv_83", 83, conv_of, conv_config_of); }
TEST(CkConvSchemas, Gives113FeaturesAsPublished) { compare("ck_conv_113", 113, conv_of, conv_config_of); }

TEST(CkConvSchemas, PartsOfArchitecturesAreTheSupersetWithoutSome) {
  const Golden table = read_golden("ck_conv_113");
  const Schema& whole = Schema::find("ck_conv_113");
  for (const auto& [name, size] : {std::pair{"ck_conv_gfx950", 72u}, std::pair{"ck_conv_gfx942", 101u}}) {
    const Schema& part = Schema::find(name);
    ASSERT_EQ(part.size(), size);
    std::vector<double> all(whole.size()), some(part.size());
    const Case& row = table.cases[7];
    whole.evaluate(conv_of(row), device_of(row), conv_config_of(row), Traits{}, all);
    part.evaluate(conv_of(row), device_of(row), conv_config_of(row), Traits{}, some);
    std::size_t before = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::size_t at = whole.index(part.features()[i].id);
      EXPECT_GE(at, before) << part.features()[i].id;  // in the order of the superset
      before = at;
      EXPECT_EQ(some[i], all[at]) << part.features()[i].id;
    }
  }
  for (const char* gone : {"is_intrawave", "hw_num_cus"}) {
    for (const Feature& feature : Schema::find("ck_conv_gfx950").features()) EXPECT_NE(feature.id, gone);
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
