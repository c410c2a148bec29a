// Tests folders of CK Tile's trainer, of both generations of features. Predictor must return LightGBM's
// prediction for the row that an independent transcription of the features gives (tests/golden).
#include <cmath>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <kscout/error.h>

#include "core/files.h"
#include "golden/golden.h"
#include "select/predictor.h"
#include "support/temporary_folder.h"
#include "train/lightgbm.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using namespace golden;

class PublishedFolder : public testing::TestWithParam<const char*> {
 protected:
  /// Trains on the golden rows and writes what the trainer writes.
  lightgbm::Booster write_folder(const Golden& golden) const {
    std::vector<double> matrix;
    std::vector<float> labels;
    std::mt19937 random(7);
    for (const Case& one : golden.cases) {
      matrix.insert(matrix.end(), one.expected.begin(), one.expected.end());
      labels.push_back(static_cast<float>(std::log1p(static_cast<double>(random() % 1000))));
    }
    const std::string parameters =
        "objective=regression num_leaves=15 min_data_in_leaf=2 num_threads=1 verbosity=-1 "
        "feature_pre_filter=false";
    lightgbm::Dataset data(matrix, golden.features, parameters);
    data.set_labels(labels);
    lightgbm::Booster booster(data, parameters);
    while (booster.iterations() < 15 && booster.update()) {
    }
    const nlohmann::json spec = {{"op_type", "any"},
                                 {"dtype", "bf16"},
                                 {"arch", "gfx950"},
                                 {"feature_names", golden.features},
                                 {"categorical_features", nlohmann::json::array()},
                                 {"targets", {"tflops"}},
                                 {"log_targets", {"tflops"}}};
    write_file_atomically(folder_ / "feature_spec.json", spec.dump());
    write_file_atomically(folder_ / "model_tflops.lgbm.gz", gzip(booster.text(booster.iterations())));
    return booster;
  }

  const test::TemporaryFolder folder_;
};

TEST_P(PublishedFolder, PredictsAsLightgbmDoes) {
  const std::string name = GetParam();
  const bool conv = name.starts_with("ck_conv");
  const Golden golden = read_golden(name);
  const lightgbm::Booster booster = write_folder(golden);
  EXPECT_EQ(Predictor(folder_.path()).schema(), name) << "the smallest schema that has all features";
  std::size_t different = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const Case& one = golden.cases[i];
    const Problem problem = conv ? Problem(conv_of(one)) : Problem(gemm_of(one));
    const KernelConfig config = conv ? conv_config_of(one) : gemm_config_of(one);
    ConfigTable table(*config.space);
    table.push_back(config);
    const double said = Predictor(folder_.path(), "", device_of(one)).predict(problem, table)[0];
    const double expected = std::expm1(booster.predict(one.expected, golden.features.size())[0]);
    EXPECT_NEAR(said, expected, 1e-12 * std::abs(expected)) << name << " case " << i;
    different +=
        i > 0 && said != std::expm1(booster.predict(golden.cases[0].expected, golden.features.size())[0]);
  }
  EXPECT_GT(different, 20u) << "the models tell rows apart";
  EXPECT_THROW(Predictor(folder_.path(), conv ? "ck_gemm_55" : "ck_conv_83"), Error)
      << "features of another kind";
}

INSTANTIATE_TEST_SUITE_P(Schemas, PublishedFolder,
                         testing::Values("ck_gemm_55", "ck_gemm_72", "ck_conv_83", "ck_conv_113"));

}  // namespace
}  // namespace kscout
