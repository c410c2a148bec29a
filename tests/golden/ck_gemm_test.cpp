// Compares ck_gemm_55, ck_gemm_72 and ck_gemm_78 with an independent transcription of their public
// description (ck_gemm_reference.py).
#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/field_text.h"
#include "features/schema.h"
#include "golden/golden.h"
#include "support/expect_error.h"

namespace kscout {
namespace {

using namespace golden;

TEST(CkGemmSchemas, Gives55FeaturesAsPublished) { compare("ck_gemm_55", 55, gemm_of, gemm_config_of); }
TEST(CkGemmSchemas, Gives72FeaturesAsPublished) { compare("ck_gemm_72", 72, gemm_of, gemm_config_of); }

TEST(CkGemmSchemas, Gives78FeaturesAsPublished) { compare("ck_gemm_78", 78, gemm_of, gemm_config_of); }
TEST(CkGemmSchemas, Gives62AsAPartOf72) {
  compare_part("ck_gemm_62", 62, "ck_gemm_72", gemm_of, gemm_config_of);
}

TEST(CkGemmSchemas, ListTheCategoricalOnes) {
  for (const char* name : {"ck_gemm_55", "ck_gemm_72", "ck_gemm_78"}) {
    const Schema& schema = Schema::find(name);
    std::vector<std::string> ids;
    for (const auto i : schema.categorical()) ids.push_back(schema.features()[i].id);
    EXPECT_EQ(ids, (std::vector<std::string>{"layout", "pipeline", "scheduler", "epilogue"}));
  }
}

TEST(CkGemmSchemas, RefuseTypesAndNamesThatTheEncodingCannotRead) {
  const Golden golden = read_golden("ck_gemm_72");
  const Schema& schema = Schema::find("ck_gemm_72");
  const Device device = device_of(golden.cases[0]);
  const KernelConfig config = gemm_config_of(golden.cases[0]);
  std::vector<double> row(schema.size());
  const auto refuses = [&](const GemmProblem& p, const KernelConfig& c, std::string_view part) {
    test::expect_error(Errc::unsupported, part, [&] { schema.evaluate(p, device, c, Traits{}, row); });
  };
  refuses(make_gemm(1, 2, 3, DType::fp64), config, "codes for fp32");
  KernelConfig unknown = config;
  unknown.set("pipeline", KernelConfig::unknown);
  refuses(gemm_of(golden.cases[0]), unknown, "pipeline ?");
}

TEST(CkGemmSchemas, GiveCode0ToWordsWithoutACodeAsTheOriginalDoes) {
  // Preshuffle kernels have scheduler auto; newer kernels have pipelines and epilogues that the encoding
  // lacks.
  const Golden golden = read_golden("ck_gemm_72");
  const Schema& schema = Schema::find("ck_gemm_72");
  KernelConfig config = gemm_config_of(golden.cases[0]);
  for (const auto& [axis, value] :
       {std::pair{"pipeline", "comp_async"}, std::pair{"scheduler", "auto"}, std::pair{"epilogue", "tdm"}})
    config.set(axis, parse_axis_value(config.space->axes[config.space->axis_index(axis)], value));
  std::vector<double> row(schema.size());
  schema.evaluate(gemm_of(golden.cases[0]), device_of(golden.cases[0]), config, Traits{}, row);
  for (const char* axis : {"pipeline", "scheduler", "epilogue"})
    EXPECT_EQ(row[schema.index(axis)], 0) << axis;
}

TEST(CkGemmSchemas, TakeSplitKFromTheConfigWhenTheProblemLeavesItOpen) {
  const Golden golden = read_golden("ck_gemm_55");
  const Schema& schema = Schema::find("ck_gemm_55");
  GemmProblem problem = gemm_of(golden.cases[0]);
  KernelConfig config = gemm_config_of(golden.cases[0]);
  std::vector<double> row(schema.size());
  const auto split_k = [&] {
    schema.evaluate(problem, device_of(golden.cases[0]), config, Traits{}, row);
    return row[schema.index("split_k")];
  };
  problem.split_k = 0;
  EXPECT_EQ(split_k(), 1);
  config.set("split_k", 4);
  EXPECT_EQ(split_k(), 4);
  problem.split_k = 2;
  EXPECT_EQ(split_k(), 2);
}

}  // namespace
}  // namespace kscout
