// Tests the distance to the trained problems, and the guard that asks the library far from them.
#include "select/region.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/error.h>
#include <kscout/selector.h>

#include "core/files.h"
#include "select/model.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/toy_model.h"

namespace kscout {
namespace {

using test::expect_error;

constexpr std::size_t kSuggestion = 7;  ///< config of the toy family that stands for a library's suggestion

/// The toy model, trained near 64 x 64 x 64 in one layout and near 16 x 16 x 16 in the other.
ModelData guarded_data() {
  ModelData data = toy::model().data();
  for (Family& family : data.families) family.traits[kSuggestion].suggestion = 1;
  data.region = Region{{{{96, 96, 96, 0}}, {{64, 64, 64, 0}}}};
  data.guard = Guard{.distance = 2, .lead = 1e9};
  return data;
}

TEST(Region, DistanceIsInOctavesToTheNearestPrototype) {
  const Region region{{{{96, 96, 96, 0}, {160, 96, 96, 0}}, {{64, 64, 64, 0}}}};
  EXPECT_EQ(region.distance(0, make_gemm(64, 64, 64)), 0);
  EXPECT_NEAR(region.distance(0, make_gemm(128, 64, 64)), 1, 1e-12);
  EXPECT_NEAR(region.distance(0, make_gemm(512, 64, 64)), 1, 1e-12) << "2^10 is nearer";
  EXPECT_NEAR(region.distance(0, make_gemm(64, 128, 32)), std::sqrt(2), 1e-12);
  EXPECT_NEAR(region.distance(1, make_gemm(64, 64, 64)), std::sqrt(12), 1e-12);
  EXPECT_EQ(region.distance(1, make_gemm(16, 16, 16)), 0);
  EXPECT_NEAR(region.distance(1, make_gemm(0, 16, 16)), 4, 1e-12) << "size 0 counts as 1";
}

TEST(Region, WrongOnesAreRefused) {
  const auto refused = [](const Region& region, std::string_view part) {
    ModelData data = toy::model().data();
    data.region = region;
    expect_error(Errc::invalid_argument, part, [&] { Model(ModelData(data)); });
  };
  refused(Region{{{{0, 0, 0, 0}}}}, "prototypes of 1 families in a model of 2");
  refused(Region{{{{0, 0, 0, 0}}, {}}}, "no prototype");
  refused(Region{{{{0, 0, -1, 0}}, {{0, 0, 0, 0}}}}, "a size of 2^(-1 / 16)");
  refused(Region{{std::vector<Region::Prototype>(8192), {{0, 0, 0, 0}}}},
          "8193 prototypes; the limit is 8192");
  ModelData data = guarded_data();
  data.region.reset();
  expect_error(Errc::invalid_argument, "a guard needs", [&] { Model(ModelData(data)); });
}

TEST(Guard, AppliesFarAwayWithoutAClearLead) {
  const Guard guard{.distance = 2, .lead = 0.1};
  EXPECT_TRUE(guard.applies(2, 0.09));
  EXPECT_FALSE(guard.applies(2, 0.1));
  EXPECT_FALSE(guard.applies(1.9, 0.09));
}

TEST(Guard, TravelsInTheFile) {
  const Model model{guarded_data()};
  const Model again = Model::parse(model.bytes());
  EXPECT_EQ(again.data().region, model.data().region);
  EXPECT_EQ(again.data().guard, model.data().guard);
  EXPECT_EQ(again.bytes(), model.bytes());
  EXPECT_EQ(model.bytes().find("\"guard\""), std::string::npos) << "older programs read another guard there";
  const std::string plain = toy::model().bytes();
  EXPECT_EQ(plain.find("region"), std::string::npos) << "files of older models stay as they are";
  EXPECT_FALSE(Model::parse(plain).data().guard);
}

class GuardTest : public testing::Test {
 protected:
  void SetUp() override { write_file_atomically(folder_ / "model.ksf", Model(guarded_data()).bytes()); }
  void TearDown() override { unsetenv("KSCOUT_DISABLE"); }
  Selector load() const { return Selector::load(folder_.path()); }

  test::TemporaryFolder folder_;
  const KernelConfig suggestion_ = toy::family().configs[kSuggestion];
};

TEST_F(GuardTest, TheSuggestionAnswersFarFromTheTrainedProblems) {
  const GemmProblem near = make_gemm(96, 64, 64), far = make_gemm(4096, 64, 64);
  setenv("KSCOUT_DISABLE", "guard", 1);
  const auto free_near = load().rank(near, 12), free_far = load().rank(far, 12);
  ASSERT_NE(free_far.front().config, suggestion_) << "the test needs a model that chooses another config";
  unsetenv("KSCOUT_DISABLE");
  const auto guarded_near = load().rank(near, 12), guarded_far = load().rank(far, 12);
  ASSERT_EQ(guarded_near.size(), free_near.size());
  EXPECT_EQ(guarded_near.front().config, free_near.front().config);

  ASSERT_EQ(guarded_far.size(), free_far.size()) << "the suggestion is in the ranking once";
  EXPECT_EQ(guarded_far[0].config, suggestion_);
  EXPECT_EQ(guarded_far[0].time_us, free_far[0].time_us) << "it counts as equally fast";
  EXPECT_EQ(guarded_far[0].source, ChoiceSource::model);
  EXPECT_TRUE(std::isnan(guarded_far[0].confidence));
  for (std::size_t i = 1, free = 0; i < guarded_far.size(); ++i, ++free) {
    if (free_far[free].config == suggestion_) ++free;
    EXPECT_EQ(guarded_far[i].config, free_far[free].config) << i;
  }
  EXPECT_EQ(load().select(far).config, suggestion_) << "also where only the first config is asked for";
}

TEST_F(GuardTest, ThePredictedLeadOverTheSuggestionDecides) {
  const GemmProblem far = make_gemm(4096, 64, 64);
  setenv("KSCOUT_DISABLE", "guard", 1);
  const auto ranked = load().rank(far, 12);
  unsetenv("KSCOUT_DISABLE");
  const auto suggested = std::ranges::find(ranked, suggestion_, &Choice::config);
  ASSERT_NE(suggested, ranked.end());
  const double lead = std::log(ranked.front().tflops / suggested->tflops);
  ASSERT_GT(lead, 0.001);
  const auto choice = [&](double limit) {
    ModelData data = guarded_data();
    data.guard->lead = limit;
    write_file_atomically(folder_ / "model.ksf", Model(std::move(data)).bytes());
    return load().select(far).config;
  };
  EXPECT_EQ(choice(lead + 1e-9), suggestion_);
  EXPECT_EQ(choice(lead - 1e-9), ranked.front().config);
}

TEST_F(GuardTest, ASuggestionThatARuleRefusesNeverAnswers) {
  ModelData data = guarded_data();
  for (Family& family : data.families) {
    const auto columns = family.configs[kSuggestion][family.configs.space().axis_index("nr")];
    family.applicability.push_back({"refused", RuleKind::applicability,
                                    fmt::format("c.nr != {} or p.m < 1000", columns), "a toy's rule"});
  }
  write_file_atomically(folder_ / "model.ksf", Model(std::move(data)).bytes());
  const Choice choice = load().select(make_gemm(4096, 64, 64));
  EXPECT_NE(choice.config, suggestion_);
  EXPECT_EQ(choice.source, ChoiceSource::model);
  EXPECT_EQ(load().select(make_gemm(512, 64, 64)).config, suggestion_) << "allowed here";
}

TEST_F(GuardTest, ADisabledSuggestionDoesNotAnswer) {
  const GemmProblem far = make_gemm(4096, 64, 64);
  setenv("KSCOUT_DISABLE", config_name(signature_of(far), suggestion_).c_str(), 1);
  EXPECT_NE(load().select(far).config, suggestion_);
  setenv("KSCOUT_DISABLE", "gard", 1);
  expect_error(Errc::invalid_argument, "did you mean 'guard'?", [&] { load(); });
}

}  // namespace
}  // namespace kscout
