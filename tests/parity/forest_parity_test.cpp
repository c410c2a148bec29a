// Our tree walk and LightGBM's own prediction give the same bits: forests trained on random data with every
// way of treating missing values, categorical splits, 2 to 255 leaves, single-leaf trees and averaged
// forests.
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "forest/forest.h"
#include "forest/ksf.h"
#include "train/lightgbm.h"

namespace kscout {
namespace {

constexpr std::size_t kFeatures = 8;
const std::vector<std::string> kNames = {"dense",    "skewed",        "sparse", "holes",
                                         "category", "wide_category", "flag",   "constant"};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Rng = std::mt19937_64;

double value_of(std::size_t feature, Rng& rng) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  switch (feature) {
    case 0:
      return normal(rng);
    case 1:
      return std::exp(3 * normal(rng));
    case 2:
      return uniform(rng) < 0.7 ? 0.0 : normal(rng);
    case 3:
      return uniform(rng) < 0.3 ? kNan : normal(rng);
    case 4:
      return static_cast<double>(rng() % 5);
    case 5:
      return static_cast<double>(rng() % 90);
    case 6:
      return static_cast<double>(rng() % 2);
    default:
      return 4;
  }
}

std::vector<double> training_rows(std::size_t rows, Rng& rng) {
  std::vector<double> matrix;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t f = 0; f < kFeatures; ++f) matrix.push_back(value_of(f, rng));
  }
  return matrix;
}

/// Rows for prediction: ordinary ones, and in each feature now and then a value where implementations part.
std::vector<double> awkward_rows(std::size_t rows, const Forest& forest, Rng& rng) {
  constexpr std::array special = {kNan,
                                  0.0,
                                  -0.0,
                                  1e-36,
                                  -1e-36,
                                  1e-35,
                                  -1.0,
                                  -0.5,
                                  3e9,
                                  -3e9,
                                  1e300,
                                  -1e300,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  4.7};
  auto matrix = training_rows(rows, rng);
  for (double& value : matrix) {
    const auto dice = rng() % 10;
    if (dice == 0) value = special[rng() % special.size()];
    if (dice == 1 && !forest.threshold.empty()) value = forest.threshold[rng() % forest.threshold.size()];
  }
  return matrix;
}

std::vector<float> labels_of(const std::vector<double>& matrix, Rng& rng) {
  std::normal_distribution<double> normal;
  std::vector<float> labels;
  for (std::size_t r = 0; r * kFeatures < matrix.size(); ++r) {
    const double* const x = matrix.data() + r * kFeatures;
    double y = x[0] * x[0] + std::log(x[1]) + (x[2] == 0 ? 2 : x[2]) + (std::isnan(x[3]) ? 3 : x[3]);
    y += std::sin(x[4] * 2) + std::cos(x[5] * 7) + x[6] * x[0] + 0.1 * normal(rng);
    labels.push_back(static_cast<float>(y));
  }
  return labels;
}

struct Kind {
  const char* name;
  const char* parameters;
  bool sees(const Forest& forest) const { return !saw || saw(forest); }
  bool (*saw)(const Forest&);  ///< what must occur in the forests, or the test would test nothing
};

bool any_decision(const Forest& forest, std::uint8_t mask, std::uint8_t value) {
  for (const auto decision : forest.decision) {
    if ((decision & mask) == value) return true;
  }
  return false;
}
bool has_zero_missing(const Forest& f) { return any_decision(f, 0b1101, 0b0100); }
bool has_nan_missing(const Forest& f) { return any_decision(f, 0b1101, 0b1000); }
bool has_default_left(const Forest& f) { return any_decision(f, 0b1011, 0b1010); }
bool has_sets(const Forest& f) { return f.set_count() > 1; }
bool has_lone_leaf(const Forest& f) { return f.tree_count() > 0 && f.decision.empty(); }
bool is_average(const Forest& f) { return f.average; }

constexpr Kind kKinds[] = {
    {"plain", "num_leaves=31", has_nan_missing},
    {"stumps", "num_leaves=2", nullptr},
    {"large", "num_leaves=255 min_data_in_leaf=1", has_default_left},
    {"no missing values", "num_leaves=15 use_missing=false", nullptr},
    {"zero is missing", "num_leaves=15 zero_as_missing=true", has_zero_missing},
    {"categories", "num_leaves=31 categorical_feature=4,5,6 min_data_per_group=5 cat_smooth=1", has_sets},
    {"categories and zeros", "num_leaves=31 categorical_feature=5 zero_as_missing=true min_data_per_group=5",
     has_sets},
    {"random forest", "boosting=rf bagging_freq=1 bagging_fraction=0.6 num_leaves=20", is_average},
    {"single leaf", "min_data_in_leaf=100000", has_lone_leaf},
    {"no boost from average", "boost_from_average=false num_leaves=7 lambda_l1=0.3", nullptr},
};

class ForestParity : public testing::TestWithParam<Kind> {};

TEST_P(ForestParity, EveryBitEqualsLightgbm) {
  const Kind& kind = GetParam();
  bool saw = false;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(fmt::format("{} seed {}", kind.name, seed));
    Rng rng(seed);
    const std::string parameters = fmt::format(
        "verbosity=-1 num_threads=1 deterministic=true force_row_wise=true objective=regression {}",
        kind.parameters);
    const auto matrix = training_rows(400 + 200 * seed, rng);
    lightgbm::Dataset data(matrix, kNames, parameters);
    data.set_labels(labels_of(matrix, rng));
    lightgbm::Booster booster(data, parameters);
    for (int round = 0; round < 25 && booster.update(); ++round) {
    }
    const std::string text = booster.text(-1);
    const LightgbmModel model = parse_lightgbm(text);
    ASSERT_EQ(model.feature_names, kNames);
    saw = saw || kind.sees(model.forest);

    const auto rows = awkward_rows(3000, model.forest, rng);
    const auto expected = lightgbm::Booster(text).predict(rows, kFeatures);
    std::vector<double> scores(expected.size());
    model.forest.predict(rows.data(), kFeatures, 1, scores);
    for (std::size_t r = 0; r < scores.size(); ++r) {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(scores[r]), std::bit_cast<std::uint64_t>(expected[r]))
          << "row " << r << ": " << scores[r] << " against " << expected[r];
    }
    EXPECT_EQ(parse_forest(forest_bytes(model.forest)), model.forest);
  }
  EXPECT_TRUE(saw) << "no forest shows what this kind is for";
}

INSTANTIATE_TEST_SUITE_P(Kinds, ForestParity, testing::ValuesIn(kKinds), [](const auto& kind) {
  std::string name = kind.param.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace kscout
