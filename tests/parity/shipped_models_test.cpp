// Checks that `kscout export --format lightgbm` gives, for each shipped model, a text with which LightGBM
// predicts the same bits as the model's own forest.
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "export/header.h"
#include "select/model.h"
#include "support/paths.h"
#include "train/lightgbm.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

/// Rows of thresholds and their neighbours, so that every comparison is close; now and then a value without
/// order.
std::vector<double> close_rows(const Forest& forest, std::size_t rows) {
  std::vector<std::vector<double>> thresholds(forest.feature_count);
  for (std::size_t node = 0; node < forest.threshold.size(); ++node)
    thresholds[static_cast<std::size_t>(forest.feature[node])].push_back(forest.threshold[node]);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::mt19937_64 random(7);
  std::vector<double> matrix;
  for (std::size_t r = 0; r < rows; ++r) {
    for (const auto& of_feature : thresholds) {
      const double at = of_feature.empty() ? 1.0 : of_feature[random() % of_feature.size()];
      const std::array values = {
          at,  at,   std::nextafter(at, kInfinity),           std::nextafter(at, -kInfinity), 0.0,
          1e9, -1.0, std::numeric_limits<double>::quiet_NaN()};
      matrix.push_back(values[random() % values.size()]);
    }
  }
  return matrix;
}

/// For stock_lightgbm.py: features, then the score, one row per line.
void keep_rows(const std::string& name, std::span<const double> matrix, std::span<const double> scores) {
  const char* const folder = std::getenv("KSCOUT_KEEP_ROWS");
  if (!folder) return;
  std::ofstream out(fs::path(folder) / (name + ".txt"));
  const std::size_t features = matrix.size() / scores.size();
  for (std::size_t r = 0; r < scores.size(); ++r) {
    out << fmt::format("{:.17g} {:.17g}\n", fmt::join(matrix.subspan(r * features, features), " "),
                       scores[r]);
  }
}

TEST(ShippedModels, LightgbmPredictsTheSameBitsFromTheirText) {
  constexpr std::size_t kRows = 200;
  std::size_t models = 0;
  for (const auto& folder : fs::directory_iterator(paths::in_repository("models"))) {
    if (!folder.is_directory()) continue;
    SCOPED_TRACE(folder.path().filename());
    ++models;
    const Model model = Model::load(folder.path());
    for (const ModelTarget& target : model.data().targets) {
      const Forest& forest = target.forest;
      const std::vector<double> rows = close_rows(forest, kRows);
      const lightgbm::Booster booster(model_lightgbm(model, target.target));
      EXPECT_EQ(booster.iterations(), static_cast<int>(forest.tree_count()));
      const auto expected = booster.predict(rows, forest.feature_count);
      std::vector<double> scores(kRows);
      forest.predict(rows.data(), forest.feature_count, 1, scores);
      std::set<double> distinct(scores.begin(), scores.end());
      EXPECT_GT(distinct.size(), kRows / 2);
      for (std::size_t r = 0; r < kRows; ++r)
        ASSERT_EQ(std::bit_cast<std::uint64_t>(scores[r]), std::bit_cast<std::uint64_t>(expected[r])) << r;
      keep_rows(folder.path().filename().string() + "." + std::string(word(target.target)), rows, scores);
    }
  }
  EXPECT_GE(models, 6u);
}

}  // namespace
}  // namespace kscout
