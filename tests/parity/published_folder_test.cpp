// Tests folders of CK Tile's trainer, of every generation of features. Predictor must return LightGBM's
// prediction for the row that an independent transcription of the features gives (tests/golden).
#include <cmath>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <kscout/error.h>

#include "core/files.h"
#include "golden/golden.h"
#include "provider/ck_tile/ck_tile.h"
#include "select/predictor.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/lightgbm.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using namespace golden;

/// The table of a published schema; `ck_conv_91` is a part of another one's.
Golden table_of(const std::string& name) {
  if (name != "ck_conv_91") return read_golden(name);
  Golden whole = read_golden("ck_conv_97"), part;
  const Schema& schema = Schema::find(name);
  for (Case& row : whole.cases) {
    Case& kept = part.cases.emplace_back(Case{std::move(row.in), {}});
    for (std::size_t i = 0; i < whole.features.size(); ++i) {
      const bool has =
          std::ranges::find(schema.features(), whole.features[i], &Feature::id) != schema.features().end();
      if (has) kept.expected.push_back(row.expected[i]);
    }
  }
  for (const Feature& feature : schema.features()) part.features.push_back(feature.id);
  return part;
}

nlohmann::json hardware_of(const Case& row) {
  nlohmann::json hardware;
  for (const CkHardwareConstant& constant : kCkHardware)
    hardware[constant.name] = parse_field<double>(constant.name, row.in.at(std::string(constant.name)));
  return hardware;
}

class PublishedFolder : public testing::TestWithParam<const char*> {
 protected:
  /// Trains on the golden rows and writes what the trainer writes.
  lightgbm::Booster write_folder(const Golden& golden,
                                 const nlohmann::json& more = nlohmann::json::object()) const {
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
    nlohmann::json spec = {{"op_type", "any"},
                           {"dtype", "bf16"},
                           {"arch", "gfx950"},
                           {"feature_names", golden.features},
                           {"categorical_features", nlohmann::json::array()},
                           {"targets", {"tflops"}},
                           {"log_targets", {"tflops"}}};
    if (GetParam() == std::string_view("ck_gemm_78")) spec["feature_encoding_version"] = 1;
    spec.update(more);
    write_file_atomically(folder_ / "feature_spec.json", spec.dump());
    write_file_atomically(folder_ / "model_tflops.lgbm.gz", gzip(booster.text(booster.iterations())));
    return booster;
  }

  double predicted(const Case& one, const std::optional<Device>& device = {}) const {
    const bool conv = std::string_view(GetParam()).starts_with("ck_conv");
    const Problem problem = conv ? Problem(conv_of(one)) : Problem(gemm_of(one));
    const KernelConfig config = conv ? conv_config_of(one) : gemm_config_of(one);
    ConfigTable table(*config.space);
    table.push_back(config);
    return Predictor(folder_.path(), "", device).predict(problem, table)[0];
  }
  double expected(const lightgbm::Booster& booster, const Case& one) const {
    return std::expm1(booster.predict(one.expected, one.expected.size())[0]);
  }

  const test::TemporaryFolder folder_;
};

TEST_P(PublishedFolder, PredictsAsLightgbmDoes) {
  const std::string name = GetParam();
  const Golden golden = table_of(name);
  const lightgbm::Booster booster = write_folder(golden);
  EXPECT_EQ(Predictor(folder_.path()).schema(), name) << "the schema of exactly these features";
  std::size_t different = 0;
  const double first = expected(booster, golden.cases[0]);
  for (std::size_t i = 0; i < 40; ++i) {
    const Case& one = golden.cases[i];
    const double said = predicted(one, device_of(one)), want = expected(booster, one);
    EXPECT_NEAR(said, want, 1e-12 * std::abs(want)) << name << " case " << i;
    different += i > 0 && said != first;
  }
  EXPECT_GT(different, 20u) << "the models tell rows apart";
  EXPECT_THROW(Predictor(folder_.path(), name.starts_with("ck_conv") ? "ck_gemm_55" : "ck_conv_83"), Error)
      << "features of another kind";
}

TEST_P(PublishedFolder, CountsWithTheHardwareOfItsTraining) {
  const Golden golden = table_of(GetParam());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < golden.cases.size() && compared < 6; ++i) {
    const Case& one = golden.cases[i];
    const auto arch = one.in.find("arch");
    if (arch != one.in.end() && arch->second != "gfx950") continue;
    const lightgbm::Booster booster = write_folder(golden, {{"hardware", hardware_of(one)}});
    const double want = expected(booster, one);
    EXPECT_NEAR(predicted(one), want, 1e-12 * std::abs(want)) << "case " << i;
    ++compared;
  }
  EXPECT_EQ(compared, 6u);
}

TEST_P(PublishedFolder, WithoutHardwareCountsWithTheLdsOfPublishedTrainings) {
  const Golden golden = table_of(GetParam());
  const lightgbm::Booster booster = write_folder(golden);
  std::size_t compared = 0;
  for (const Case& one : golden.cases) {
    const Device device = device_of(one);
    const auto arch = one.in.find("arch");
    if (device.cores != 256 || device.shared_bytes_per_core != 65536) continue;
    if (arch != one.in.end() && arch->second != "gfx950") continue;
    const double want = expected(booster, one);
    EXPECT_NEAR(predicted(one), want, 1e-12 * std::abs(want));
    ++compared;
  }
  EXPECT_GE(compared, 10u);
}

TEST_P(PublishedFolder, RefusesOtherEnginesAndEncodings) {
  const Golden golden = table_of(GetParam());
  const auto refused = [&](const nlohmann::json& more, Errc code,
                           std::initializer_list<std::string_view> parts) {
    write_folder(golden, more);
    test::expect_error(code, parts, [&] { Predictor(folder_.path()); });
  };
  refused({{"feature_encoding_version", 7}}, Errc::unsupported, {"feature_encoding_version 7", GetParam()});
  refused({{"feature_engine", "FmhaFeatureEngine"}}, Errc::unsupported, {"FmhaFeatureEngine is unknown"});
  const bool conv = std::string_view(GetParam()).starts_with("ck_conv");
  const char* const other = conv ? "GemmUniversalFeatureEngine" : "GroupedConvFeatureEngine";
  refused({{"feature_engine", other}}, Errc::unsupported, {other, "is another one"});
  refused({{"hardware", {{"lds_capacty", 65536}}}}, Errc::invalid_argument, {"did you mean 'lds_capacity'"});
  refused({{"hardware", {{"num_cus", 0}}}}, Errc::corrupt_data, {"num_cus = 0: must be above 0"});
}

TEST_P(PublishedFolder, RefusesNamesThatFitNoSchemaExactly) {
  Golden golden = table_of(GetParam());
  const auto is_refused = [&](std::initializer_list<std::string_view> parts) {
    write_folder(golden);
    test::expect_error(Errc::invalid_argument, parts, [&] { Predictor(folder_.path()); });
  };
  // One feature less: other schemas have all of the rest, with other meanings.
  const std::string dropped = "cu_utilization";
  const auto at = std::ranges::find(golden.features, dropped) - golden.features.begin();
  golden.features.erase(golden.features.begin() + at);
  for (Case& one : golden.cases) one.expected.erase(one.expected.begin() + at);
  is_refused({GetParam(), "lacks 1 (cu_utilization)", "name the schema"});
  EXPECT_EQ(Predictor(folder_.path(), GetParam()).targets().size(), 1u) << "named, it is taken";
  golden.features.push_back("moon_phase");
  for (Case& one : golden.cases) one.expected.push_back(0);
  is_refused({GetParam(), "1 (moon_phase) are not in it"});
}

INSTANTIATE_TEST_SUITE_P(Schemas, PublishedFolder,
                         testing::Values("ck_gemm_55", "ck_gemm_72", "ck_gemm_78", "ck_conv_83", "ck_conv_91",
                                         "ck_conv_97", "ck_conv_113"));

}  // namespace
}  // namespace kscout
