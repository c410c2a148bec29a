// Tests the file of the matrix that a training reads.
#include "train/training_matrix.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dataset/parquet.h"
#include "support/compact_tables.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/toy.h"
#include "train/cross_validate.h"

namespace kscout {
namespace {

/// The columns of a file as texts, by name.
std::map<std::string, std::vector<std::string>> columns_of(const std::filesystem::path& file) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> columns;
  read_parquet_as_text(
      file.string(), file.string(),
      [&](const ParquetHeader& header) {
        names = header.names;
        return std::vector<bool>(names.size(), true);
      },
      [&](const std::vector<std::string_view>& cells) {
        for (std::size_t i = 0; i < cells.size(); ++i) columns[names[i]].emplace_back(cells[i]);
      });
  return columns;
}

TEST(TrainingMatrix, HasWhatTheTrainingReads) {
  const test::TemporaryFolder folder;
  MeasurementTable table = toy::measurements(6, 1);
  table.problems[2].set_weight(40);
  table.rows[3].measured.status = Status::wrong;
  const auto families = std::vector{toy::family(Layout::rcr), toy::family(Layout::crr)};
  const auto shared = toy::schema();
  const Schema& schema = *shared;
  const TrainingSet set = make_training_set(test::compact({&table, 1}), families, schema);
  write_training_matrix(folder / "f.parquet", set, schema, {.folds = 3});
  const auto columns = columns_of(folder / "f.parquet");
  EXPECT_EQ(columns.size(), 13 + schema.size());
  const auto relative = labels_of(set, Target::relative), rank = labels_of(set, Target::rank);
  std::map<std::string, std::string> fold_of;
  for (std::size_t r = 0; r < set.row_count(); ++r) {
    const Problem& problem = set.problems[set.problem_of(r)];
    Problem plain = problem;
    plain.set_weight(1);
    EXPECT_EQ(columns.at("problem").at(r), print(plain));
    EXPECT_EQ(std::stod(columns.at("calls")[r]), problem.weight());
    EXPECT_NEAR(std::stod(columns.at("label_relative")[r]), relative[r], 1e-6);
    EXPECT_NEAR(std::stod(columns.at("label_rank")[r]), rank[r], 1e-6);
    EXPECT_NEAR(std::stod(columns.at("tflops")[r]), set.tflops(set.problem_of(r), r), 1e-9);
    const std::vector<double> values = set.features_of(set.problem_of(r));
    for (std::size_t f = 0; f < schema.size(); ++f) {
      const double expected = values[(r - set.first_row[set.problem_of(r)]) * set.features + f];
      const std::string& cell = columns.at(schema.features()[f].id)[r];
      if (std::isnan(expected)) {
        EXPECT_EQ(cell, "");
      } else {
        EXPECT_DOUBLE_EQ(std::stod(cell), expected);
      }
    }
    const auto [known, is_new] = fold_of.try_emplace(print(plain), columns.at("fold")[r]);
    EXPECT_EQ(known->second, columns.at("fold")[r]) << "the rows of a problem are in one fold";
  }
  EXPECT_EQ(std::stod(columns.at("tflops")[3]), 0) << "the run failed";
  EXPECT_EQ(columns.at("time_us")[3], "");
}

TEST(TrainingMatrix, RefusesAFeatureWithTheNameOfAColumn) {
  const test::TemporaryFolder folder;
  const MeasurementTable table = toy::measurements(6, 1);
  SchemaData data = toy::schema()->data();
  data.features.front().id = "fold";
  const Schema schema(data);
  const auto families = std::vector{toy::family(Layout::rcr), toy::family(Layout::crr)};
  const TrainingSet set = make_training_set(test::compact({&table, 1}), families, schema);
  test::expect_error(Errc::invalid_argument, "feature 'fold' has the name of another column",
                     [&] { write_training_matrix(folder / "f.parquet", set, schema, {}); });
  EXPECT_FALSE(std::filesystem::exists(folder / "f.parquet"));
}

}  // namespace
}  // namespace kscout
