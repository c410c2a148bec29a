// Checks that our tree evaluation and LightGBM's own prediction give equal bits. Forests trained on random
// data cover every treatment of missing values, categorical splits, 2 to 255 leaves, single-leaf trees and
// averaged forests. Random forests are written as LightGBM text.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/error.h>

#include "forest/ksf.h"
#include "lightgbm/lightgbm.h"
#include "support/random_forest.h"
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
  /// What must occur in the forests, or the test would test nothing.
  bool (*saw)(const Forest&) = nullptr;
  const char* objective = "regression";
  Link link = Link::identity;
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
    {"stumps", "num_leaves=2"},
    {"large", "num_leaves=255 min_data_in_leaf=1", has_default_left},
    {"no missing values", "num_leaves=15 use_missing=false"},
    {"zero is missing", "num_leaves=15 zero_as_missing=true", has_zero_missing},
    {"categories", "num_leaves=31 categorical_feature=4,5,6 min_data_per_group=5 cat_smooth=1", has_sets},
    {"categories and zeros", "num_leaves=31 categorical_feature=5 zero_as_missing=true min_data_per_group=5",
     has_sets},
    {"one category each", "categorical_feature=4,6 max_cat_to_onehot=8 min_data_per_group=5", has_sets},
    {"random forest", "boosting=rf bagging_freq=1 bagging_fraction=0.6 num_leaves=20", is_average},
    {"random forest of e to the", "boosting=rf bagging_freq=1 bagging_fraction=0.6 num_leaves=20", is_average,
     "poisson", Link::exponential},
    {"single leaf", "min_data_in_leaf=100000", has_lone_leaf},
    {"no boost from average", "boost_from_average=false num_leaves=7 lambda_l1=0.3"},
    {"dropped trees", "boosting=dart drop_rate=0.5 num_leaves=15"},
    {"gradient sampling", "data_sample_strategy=goss num_leaves=15 learning_rate=0.5"},
    {"extra trees", "extra_trees=true path_smooth=2 num_leaves=31"},
    {"monotone", "monotone_constraints=0,1,0,0,0,0,-1,0 monotone_constraints_method=advanced"},
    {"coarse bins", "max_bin=4 min_data_in_bin=1 num_leaves=31"},
    {"quantised gradients", "use_quantized_grad=true quant_train_renew_leaf=true"},
    {"absolute error", "num_leaves=15", nullptr, "regression_l1"},
    {"huber", "num_leaves=15 reg_sqrt=true", nullptr, "huber"},
    {"fair", "num_leaves=15", nullptr, "fair"},
    {"quantile", "num_leaves=15 alpha=0.9", nullptr, "quantile"},
    {"mape", "num_leaves=15", nullptr, "mape"},
    {"square root", "num_leaves=15 reg_sqrt=true", nullptr, "regression", Link::signed_square},
    {"square root of absolute error", "num_leaves=15 reg_sqrt=true", nullptr, "regression_l1",
     Link::signed_square},
    {"poisson", "num_leaves=15", nullptr, "poisson", Link::exponential},
    {"gamma", "num_leaves=15", nullptr, "gamma", Link::exponential},
    {"tweedie", "num_leaves=15 tweedie_variance_power=1.3", nullptr, "tweedie", Link::exponential},
    {"lambdarank", "num_leaves=15", nullptr, "lambdarank"},
    {"xendcg", "num_leaves=15", nullptr, "rank_xendcg"},
};

class TrainedForest : public testing::TestWithParam<Kind> {};

/// Labels that the objective takes: relevances or classes from 0, positive numbers, or any.
std::vector<float> labels_for(const Kind& kind, const std::vector<double>& matrix, Rng& rng) {
  auto labels = labels_of(matrix, rng);
  const std::string_view objective = kind.objective;
  for (float& label : labels) {
    if (objective == "lambdarank" || objective == "rank_xendcg")
      label = std::floor(std::clamp(label, 0.0F, 4.0F));
    if (objective == "multiclass") label = std::floor(std::clamp(label, 0.0F, 2.0F));
    if (objective == "binary" || objective == "cross_entropy") label = label > 1 ? 1.0F : 0.0F;
    if (kind.link == Link::exponential) label = std::fabs(label) + 0.1F;
  }
  return labels;
}

lightgbm::Booster trained(const Kind& kind, std::uint64_t seed, Rng& rng) {
  const std::string parameters =
      fmt::format("verbosity=-1 num_threads=1 deterministic=true force_row_wise=true objective={} {}",
                  kind.objective, kind.parameters);
  const auto matrix = training_rows(400 + 200 * seed, rng);
  lightgbm::Dataset data(matrix, kNames, parameters);
  data.set_labels(labels_for(kind, matrix, rng));
  if (kind.objective == std::string_view("lambdarank") || kind.objective == std::string_view("rank_xendcg"))
    data.set_groups(std::vector<std::int32_t>(data.rows() / 20, 20));
  lightgbm::Booster booster(data, parameters);
  for (int round = 0; round < 25 && booster.update(); ++round) {
  }
  return booster;
}

/// What LightGBM makes of a text and what we make of it.
void expect_equal_outputs(const std::string& text, const LightgbmModel& model,
                          const std::vector<double>& rows) {
  const std::size_t features = model.forest.feature_count;
  const auto expected = lightgbm::Booster(text).predict(rows, features);
  std::vector<double> scores(expected.size());
  model.forest.predict(rows.data(), features, 1, scores);
  for (std::size_t r = 0; r < scores.size(); ++r) {
    const double output = model.output(scores[r]);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(output), std::bit_cast<std::uint64_t>(expected[r]))
        << "row " << r << ": " << output << " against " << expected[r];
  }
}

TEST_P(TrainedForest, EveryBitEqualsLightgbm) {
  const Kind& kind = GetParam();
  bool saw = false;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(fmt::format("{} seed {}", kind.name, seed));
    Rng rng(seed);
    const std::string text = trained(kind, seed, rng).text(-1);
    const LightgbmModel model = parse_lightgbm(text);
    ASSERT_EQ(model.feature_names, kNames);
    ASSERT_EQ(model.objective, kind.objective);
    ASSERT_EQ(model.link, kind.link);
    saw = saw || !kind.saw || kind.saw(model.forest);
    const auto rows = awkward_rows(3000, model.forest, rng);
    expect_equal_outputs(text, model, rows);
    // What we write of it means the same to LightGBM and to us.
    const std::string again = lightgbm_text(model);
    EXPECT_EQ(parse_lightgbm(again), model);
    expect_equal_outputs(again, model, rows);
    EXPECT_EQ(parse_forest(forest_bytes(model.forest)), model.forest);
  }
  EXPECT_TRUE(saw) << "no forest shows what this kind is for";
}

INSTANTIATE_TEST_SUITE_P(Kinds, TrainedForest, testing::ValuesIn(kKinds), [](const auto& kind) {
  std::string name = kind.param.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
});

// Forests of any shape that check() admits, also of shapes that training never gives: 1.2 million rows.
TEST(ForestParity, RandomForestsEqualLightgbm) {
  constexpr std::size_t kForests = 120, kRows = 10'000;
  std::array<std::size_t, Decision::most + 1> nodes{};
  std::size_t max_leaves = 0, rows = 0;
  for (std::uint64_t seed = 0; seed < kForests; ++seed) {
    SCOPED_TRACE(seed);
    const auto share = static_cast<std::uint32_t>(seed);
    toy::RandomForest draw({.features = 1 + share % 16,
                            .trees = 1 + share % 17,
                            .min_leaves = 1 + share % 2,
                            .max_leaves = share % 5 == 0 ? 255 : 2 + share % 62,
                            .categorical = share % 3 == 0 ? 0 : 0.25,
                            .max_category = share % 7 == 0 ? 2000U : 90U,
                            .average = share % 4 == 0},
                           seed);
    LightgbmModel model{draw.forest(), {}, share % 2 == 0 ? "regression" : "", Link::identity};
    for (std::uint32_t f = 0; f < model.forest.feature_count; ++f)
      model.feature_names.push_back(fmt::format("x{}", f));
    const std::string text = lightgbm_text(model);
    ASSERT_EQ(parse_lightgbm(text), model);
    expect_equal_outputs(text, model, draw.rows(model.forest, kRows));
    for (const auto decision : model.forest.decision) ++nodes[decision];
    for (std::size_t t = 0; t < model.forest.tree_count(); ++t)
      max_leaves =
          std::max<std::size_t>(max_leaves, model.forest.tree_leaves[t + 1] - model.forest.tree_leaves[t]);
    rows += kRows;
  }
  EXPECT_GE(rows, 1'000'000u);
  EXPECT_GE(max_leaves, 250u);
  for (std::uint8_t decision = 0; decision < nodes.size(); ++decision)
    EXPECT_GT(nodes[decision], 300u) << "decision " << int{decision};
}

// LightGBM's own text of what cannot be served is refused by name.
TEST(ForestParity, OtherModelsAreRefusedByName) {
  const auto refused = [](const char* objective, const char* parameters, std::string_view name) {
    Rng rng(1);
    const std::string text =
        trained({objective, parameters, nullptr, objective, Link::identity}, 1, rng).text(-1);
    try {
      parse_lightgbm(text);
      ADD_FAILURE() << "accepted: " << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
      EXPECT_NE(std::string_view(error.what()).find(name), std::string_view::npos) << error.what();
    }
  };
  refused("regression", "linear_tree=true", "linear trees");
  refused("multiclass", "num_class=3", "multiclass");
  refused("binary", "", "'binary'");
  refused("cross_entropy", "", "'cross_entropy'");
}

}  // namespace
}  // namespace kscout
