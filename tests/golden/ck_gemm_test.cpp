// Compares ck_gemm_55 and ck_gemm_72 with an independent transcription of their public description
// (ck_gemm_reference.py).
#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/field_text.h"
#include "features/schema.h"
#include "golden/golden.h"

namespace kscout {
namespace {

using namespace golden;

TEST(CkGemmSchemas, Gives55FeaturesAsPublished) { compare("ck_gemm_55", 55, gemm_of, gemm_config_of); }
TEST(CkGemmSchemas, Gives72FeaturesAsPublished) { compare("ck_gemm_72", 72, gemm_of, gemm_config_of); }

TEST(CkGemmSchemas, ListTheCategoricalOnes) {
  for (const char* name : {"ck_gemm_55", "ck_gemm_72"}) {
    const Schema& schema = Schema::find(name);
    std::vector<std::string> ids;
    for (const auto i : schema.categorical()) ids.push_back(schema.features()[i].id);
    EXPECT_EQ(ids, (std::vector<std::string>{"layout", "pipeline", "scheduler", "epilogue"}));
  }
}

TEST(CkGemmSchemas, RefuseWhatTheEncodingDoesNotKnow) {
  const Golden golden = read_golden("ck_gemm_72");
  const Schema& schema = Schema::find("ck_gemm_72");
  const Device device = device_of(golden.cases[0]);
  const KernelConfig config = gemm_config_of(golden.cases[0]);
  const GemmProblem problem = gemm_of(golden.cases[0]);
  std::vector<double> row(schema.size());
  const auto refuses = [&](const GemmProblem& p, const KernelConfig& c, std::string_view part) {
    try {
      schema.evaluate(p, device, c, Traits{}, row);
      ADD_FAILURE() << "not refused: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  };
  refuses(make_gemm(1, 2, 3, DType::fp64), config, "codes for fp32");
  KernelConfig unknown = config;
  unknown.set("pipeline", KernelConfig::unknown);
  refuses(problem, unknown, "codes for pipelines");
  KernelConfig newer = config;
  newer.set("epilogue", parse_axis_value(config.space->axes[config.space->axis_index("epilogue")], "tdm"));
  refuses(problem, newer, "codes for epilogues");
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
