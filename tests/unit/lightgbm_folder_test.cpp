// Tests folders of LightGBM models, as written by CK Tile's trainer and by ours.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <kscout/error.h>

#include "core/files.h"
#include "lightgbm/lightgbm.h"
#include "support/random_forest.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

LightgbmModel model_of(std::uint64_t seed) {
  LightgbmModel model{toy::RandomForest({.features = 3, .trees = 4}, seed).forest(),
                      {"M", "N", "K"},
                      "regression",
                      Link::identity};
  return model;
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    spec_ = {{"op_type", "gemm_universal"},
             {"dtype", "fp8"},
             {"arch", "gfx950"},
             {"feature_names", {"M", "N", "K"}},
             {"categorical_features", {"K"}},
             {"targets", {"tflops", "latency", "bandwidth"}},
             {"log_targets", {"bandwidth", "tflops"}}};
    write_spec();
    write("model_tflops.lgbm.gz", gzip(lightgbm_text(model_of(1))));
    write("model_latency.lgbm", lightgbm_text(model_of(2)));
  }

  void write(const char* name, std::string_view bytes) { write_file_atomically(folder_ / name, bytes); }
  void write_spec() { write("feature_spec.json", spec_.dump()); }
  void expect_refused(Errc code, std::string_view part_of_message) {
    try {
      read_lightgbm_folder(folder_.path());
      ADD_FAILURE() << "accepted; expected: " << part_of_message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string_view(error.what()).find(part_of_message), std::string_view::npos) << error.what();
      EXPECT_NE(std::string_view(error.what()).find(folder_.path().string()), std::string_view::npos)
          << error.what();
    }
  }

  const test::TemporaryFolder folder_;
  Json spec_;
};

TEST_F(Folder, GivesModelsAndWhatTheyLearnt) {
  const LightgbmFolder folder = read_lightgbm_folder(folder_.path());
  EXPECT_EQ(folder.op, "gemm_universal");
  EXPECT_EQ(folder.arch, "gfx950");
  EXPECT_EQ(folder.categorical, std::vector<std::string>{"K"});
  ASSERT_EQ(folder.targets.size(), 2u);  // bandwidth was asked for and not trained
  const LightgbmTarget& tflops = folder.target("tflops");
  EXPECT_TRUE(tflops.log1p);
  EXPECT_EQ(tflops.model, model_of(1));
  EXPECT_EQ(tflops.value(2), std::expm1(2));
  EXPECT_EQ(tflops.value(-0.1), std::expm1(-0.1));
  EXPECT_FALSE(folder.target("latency").log1p);
  EXPECT_EQ(folder.target("latency").value(-0.1), 0);
  EXPECT_EQ(folder.target("latency").value(0.25), 0.25);
  EXPECT_THROW(folder.target("bandwidth"), Error);
  EXPECT_FALSE(fs::exists(folder_ / "model_tflops.lgbm")) << "nothing is unpacked beside the file";
}

TEST_F(Folder, OlderSpecsAreRead) {
  spec_.erase("log_targets");
  write_spec();
  EXPECT_FALSE(read_lightgbm_folder(folder_.path()).target("tflops").log1p);
  spec_["tflops_log_transform"] = true;
  write_spec();
  EXPECT_TRUE(read_lightgbm_folder(folder_.path()).target("tflops").log1p);
  spec_ = {{"feature_names", {"M", "N", "K"}}};
  write_spec();
  EXPECT_EQ(read_lightgbm_folder(folder_.path()).targets.size(), 2u);
  EXPECT_EQ(read_lightgbm_folder(folder_.path()).arch, "");
  LightgbmModel nameless = model_of(1);
  nameless.feature_names = {"Column_0", "Column_1", "Column_2"};
  write("model_tflops.lgbm.gz", gzip(lightgbm_text(nameless)));
  EXPECT_EQ(read_lightgbm_folder(folder_.path()).feature_names.front(), "M");
}

TEST_F(Folder, ContradictionsAreNamed) {
  write("model_tflops.lgbm", lightgbm_text(model_of(1)));  // equal: an unpacked copy
  EXPECT_EQ(read_lightgbm_folder(folder_.path()).target("tflops").model, model_of(1));
  write("model_tflops.lgbm", lightgbm_text(model_of(3)));
  expect_refused(Errc::corrupt_data, "differs; remove one");
  write("model_tflops.lgbm", lightgbm_text(model_of(1)));
  spec_["feature_names"] = {"M", "K", "N"};
  write_spec();
  expect_refused(Errc::corrupt_data, "reads feature 'N' where feature_spec.json has 'K'");
  spec_["feature_names"] = {"M"};
  write_spec();
  expect_refused(Errc::corrupt_data, "reads 3 features, feature_spec.json lists 1");
  spec_["feature_names"] = 7;
  write_spec();
  expect_refused(Errc::corrupt_data, "feature_spec.json");
  write("feature_spec.json", "{");
  expect_refused(Errc::corrupt_data, "feature_spec.json");
}

TEST_F(Folder, AbsentPartsAreNamed) {
  fs::remove(folder_ / "model_tflops.lgbm.gz");
  fs::remove(folder_ / "model_latency.lgbm");
  expect_refused(Errc::not_found, "expected model_tflops.lgbm or .lgbm.gz");
  fs::remove(folder_ / "feature_spec.json");
  expect_refused(Errc::not_found, "feature_spec.json");
}

}  // namespace
}  // namespace kscout
