#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/error.h>

#include "core/files.h"
#include "lightgbm/lightgbm.h"
#include "support/temporary_folder.h"
#include "support/two_trees.h"

namespace kscout {
namespace {

std::string with(const std::string& from, const std::string& to) {
  std::string text = test::kTwoTrees;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& text, Errc code, std::string_view part_of_message) {
  try {
    parse_lightgbm(text);
    ADD_FAILURE() << "accepted; expected: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part_of_message), std::string_view::npos) << error.what();
  }
}

TEST(Forest, WalksByThresholdCategoryAndDefault) {
  const LightgbmModel model = parse_lightgbm(test::kTwoTrees);
  EXPECT_EQ(model.feature_names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(model.objective, "regression");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto score = [&](double x, double y) { return model.forest.predict(std::array{x, y}); };
  EXPECT_EQ(score(0.6, 1), 4.25);  // right of the root
  EXPECT_EQ(score(0.5, 1), 1.25);  // left, category 1 in the set {1, 2}
  EXPECT_EQ(score(0.5, 2.9), 1.25);
  EXPECT_EQ(score(0.5, 3), 2.25);
  EXPECT_EQ(score(0.5, -1), 2.25);
  EXPECT_EQ(score(nan, 1), 1.25);  // NaN goes the default way: left
  EXPECT_EQ(score(0.5, nan), 2.25);
}

TEST(Forest, StridesReachRowsAndColumns) {
  const Forest forest = parse_lightgbm(test::kTwoTrees).forest;
  const std::array by_column = {0.6, 0.5, 0.5, 9.0, 1.0, 3.0};
  std::array<double, 3> scores{};
  forest.predict(by_column.data(), 1, 3, scores);
  EXPECT_EQ(scores, (std::array{4.25, 1.25, 2.25}));
}

TEST(Forest, ReadsVersion3AndAverages) {
  EXPECT_EQ(parse_lightgbm(with("version=v4", "version=v3")).forest, parse_lightgbm(test::kTwoTrees).forest);
  const auto averaged =
      parse_lightgbm(with("objective=regression", "average_output\nobjective=regression")).forest;
  EXPECT_EQ(averaged.predict(std::array{0.6, 1.0}), 4.25 / 2);
}

TEST(Forest, RefusesByName) {
  expect_refused(with("version=v4", "version=v2"), Errc::unsupported, "'v2'");
  expect_refused(with("num_class=1", "num_class=3"), Errc::unsupported, "multiclass");
  expect_refused(with("num_tree_per_iteration=1", "num_tree_per_iteration=3"), Errc::unsupported,
                 "multiclass");
  expect_refused(with("is_linear=0", "is_linear=1"), Errc::unsupported, "linear trees");
  expect_refused(with("objective=regression", "objective=binary sigmoid:1"), Errc::unsupported, "'binary'");
  expect_refused(with("objective=regression", "objective=cross_entropy"), Errc::unsupported,
                 "'cross_entropy': supported are regression, ");
}

TEST(Forest, LinksFollowTheObjective) {
  const auto link = [](const char* objective) {
    return parse_lightgbm(with("objective=regression", std::string("objective=") + objective));
  };
  EXPECT_EQ(link("lambdarank").output(-2.5), -2.5);
  EXPECT_EQ(link("quantile alpha:0.9").objective, "quantile");
  EXPECT_EQ(link("regression sqrt").output(-2.5), -6.25);
  EXPECT_EQ(link("regression sqrt").output(0), 0);
  EXPECT_EQ(link("tweedie tweedie_variance_power:1.5").output(0.5), std::exp(0.5));
  EXPECT_EQ(parse_lightgbm(with("objective=regression\n", "")).objective, "");
}

TEST(Forest, TextIsWrittenBack) {
  for (const char* const objective : {"regression", "regression sqrt", "poisson", "lambdarank"}) {
    const LightgbmModel model =
        parse_lightgbm(with("objective=regression", std::string("average_output\nobjective=") + objective));
    EXPECT_EQ(parse_lightgbm(lightgbm_text(model)), model);
  }
  LightgbmModel model = parse_lightgbm(test::kTwoTrees);
  for (const char* const name : {"", "tile m", "a=b", "line\nend"}) {
    model.feature_names[1] = name;
    EXPECT_THROW(lightgbm_text(model), Error) << name;
  }
  model.feature_names.pop_back();
  EXPECT_THROW(lightgbm_text(model), Error);
}

TEST(Forest, NamesTheLineOfDamage) {
  expect_refused("", Errc::corrupt_data, "first line");
  expect_refused("PAR1", Errc::corrupt_data, "'PAR1'");
  expect_refused(with("threshold=0.5 0", "threshold=0.5"), Errc::corrupt_data,
                 "line 17: threshold has 1 values instead of 2");
  expect_refused(with("threshold=0.5 0", "threshold=0.5 x"), Errc::corrupt_data, "line 17: 'x' in threshold");
  expect_refused(with("threshold=0.5 0", "threshold=nan 0"), Errc::corrupt_data, "threshold NaN");
  expect_refused(with("threshold=0.5 0", "threshold=0.5 1"), Errc::corrupt_data, "category set 1 of 1");
  expect_refused(with("leaf_value=1 2 4", "leaf_value=1 2 inf"), Errc::corrupt_data, "leaf value inf");
  expect_refused(with("split_feature=0 1", "split_feature=0 2"), Errc::corrupt_data,
                 "refers to feature 2 of 2");
  expect_refused(with("left_child=1 -1", "left_child=0 -1"), Errc::corrupt_data, "child 0 is out of order");
  expect_refused(with("left_child=1 -1", "left_child=-1 -1"), Errc::corrupt_data, "two parents");
  expect_refused(with("right_child=-3 -2", "right_child=-4 -2"), Errc::corrupt_data, "child -4");
  expect_refused(with("decision_type=10 1", "decision_type=14 1"), Errc::corrupt_data, "decision_type 14");
  expect_refused(with("cat_boundaries=0 1", "cat_boundaries=0 2"), Errc::corrupt_data,
                 "cat_threshold has 1 values");
  expect_refused(with("num_leaves=3", "num_leaves=4000000000"), Errc::corrupt_data, "instead of 4000000000");
  expect_refused(with("num_leaves=3", "num_leaves=3\nnum_leaves=3"), Errc::corrupt_data, "occurs twice");
  expect_refused(with("Tree=1", "Tree=2"), Errc::corrupt_data, "where tree 1 was expected");
  expect_refused(with("tree_sizes=300 100", "tree_sizes=300"), Errc::corrupt_data,
                 "announces 1 trees but contains 2");
  expect_refused(with("feature_names=x y", "feature_names=x"), Errc::corrupt_data, "1 feature names");
  expect_refused(with("leaf_value=1 2 4\n", ""), Errc::corrupt_data, "'leaf_value=' is missing");
}

TEST(Forest, EveryCutIsAnErrorAndNoCrash) {
  const std::size_t whole = test::kTwoTrees.find("end of trees") + 12;
  for (std::size_t size = 0; size < whole; ++size) {
    EXPECT_THROW(parse_lightgbm(test::kTwoTrees.substr(0, size)), Error) << size;
  }
}

TEST(Forest, EveryChangedByteIsReadOrRefused) {
  std::size_t read = 0;
  for (std::size_t at = 0; at < test::kTwoTrees.size(); ++at) {
    for (const char replacement : {'9', '-', ' ', '\n', '=', '\0', '\xff'}) {
      SCOPED_TRACE(fmt::format("byte {}: '{}'", at, replacement));
      std::string text = test::kTwoTrees;
      text[at] = replacement;
      LightgbmModel model;
      try {
        model = parse_lightgbm(text);
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == Errc::corrupt_data || error.code() == Errc::unsupported) << error.what();
        continue;
      }
      ++read;
      EXPECT_NO_THROW(check(model.forest)) << "what is accepted holds together";
    }
  }
  EXPECT_GT(read, test::kTwoTrees.size()) << "unknown lines and numbers that fit";
}

class ModelFile : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;
};

TEST_F(ModelFile, ReadsPlainAndGzip) {
  write_file_atomically(folder_ / "m.txt", test::kTwoTrees);
  write_file_atomically(folder_ / "m.lgbm.gz", gzip(test::kTwoTrees));
  EXPECT_EQ(read_lightgbm(folder_ / "m.txt").forest, parse_lightgbm(test::kTwoTrees).forest);
  EXPECT_EQ(read_lightgbm(folder_ / "m.lgbm.gz").forest, parse_lightgbm(test::kTwoTrees).forest);
  EXPECT_EQ(gzip(test::kTwoTrees), gzip(test::kTwoTrees));
}

TEST_F(ModelFile, DamagedGzipAndAbsentFilesAreErrors) {
  const std::string packed = gzip(test::kTwoTrees);
  for (const std::size_t size : {std::size_t{2}, std::size_t{12}, packed.size() / 2, packed.size() - 1}) {
    write_file_atomically(folder_ / "m.gz", packed.substr(0, size));
    EXPECT_THROW(read_lightgbm(folder_ / "m.gz"), Error) << size;
  }
  try {
    read_lightgbm(folder_ / "none.lgbm");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_found);
  }
  EXPECT_THROW(write_file_atomically(folder_ / "no" / "such" / "folder", "x"), Error);
}

}  // namespace
}  // namespace kscout
