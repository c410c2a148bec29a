#include "dataset/compact_table.h"

#include <gtest/gtest.h>

#include "dataset/columns.h"
#include "dataset_fixture.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::expect_error;
using test::made_up_table;
using test::toy_config;
using test::toy_options;

/// The row as a CompactTable holds it.
Measurement compact(Measurement measured) {
  measured.error = measured.setup_us = measured.workspace_bytes = Measurement::unknown;
  if (measured.status != Status::ok) measured.spread = Measurement::unknown;
  return measured;
}

/// Expects the head and the final rows of the table, and that all its rows are there.
void expect_same(const CompactTable& found, const MeasurementTable& wanted) {
  EXPECT_EQ(found.device, wanted.device);
  EXPECT_EQ(found.problems, wanted.problems);
  EXPECT_EQ(found.configs, wanted.configs);
  EXPECT_EQ(found.metadata, wanted.metadata);
  EXPECT_EQ(found.row_count(), wanted.rows.size());
  const auto rows = final_rows(wanted);
  ASSERT_EQ(found.problems.size(), rows.size());
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const std::vector<FinalRow> of = found.final_rows(p);
    ASSERT_EQ(of.size(), rows[p].size()) << p;
    for (std::size_t r = 0; r < of.size(); ++r) {
      EXPECT_EQ(of[r].config, rows[p][r].config);
      EXPECT_EQ(of[r].measured, compact(rows[p][r].measured)) << p << ", " << r;
      EXPECT_EQ(found.final_row(p, of[r].config), of[r].measured);
    }
  }
}

class CompactTableTest : public ::testing::Test {
 protected:
  /// Writes a table in row groups of a few rows.
  std::string written(const std::string& name, const MeasurementTable& table) const {
    DatasetOptions options = toy_options();
    options.group_rows = 7;
    const std::string file = folder_ / name;
    write_dataset(file, table, options);
    return file;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(CompactTableTest, AFileGivesTheTableOfItsRows) {
  const std::string file = written("a.parquet", made_up_table(40, 1));
  expect_same(read_compact({{file}}, toy_options()), read_dataset(file, toy_options()));
}

TEST_F(CompactTableTest, CsvGivesTheTableOfItsRows) {
  DatasetOptions options = toy_options();
  options.device = test::toy_device();
  const std::string file = written("a.csv", made_up_table(9, 2));
  expect_same(read_compact({{file}}, options), read_dataset(file, options));
}

TEST_F(CompactTableTest, SeveralFilesGiveTheMergedTable) {
  MeasurementTable first = made_up_table(40, 1), second = made_up_table(40, 2);
  std::erase_if(first.rows, [](const auto& row) { return row.problem % 3 == 0; });
  std::erase_if(second.rows, [](const auto& row) { return row.problem % 3 != 0; });
  const std::vector<std::string> files = {written("a.parquet", first), written("b.parquet", second)};
  std::vector<MeasurementTable> tables;
  for (const std::string& file : files) tables.push_back(read_dataset(file, toy_options()));
  expect_same(read_compact(files, toy_options()), merge(tables, Keep::error));
}

TEST_F(CompactTableTest, EqualRowsCountOnceAndOthersAreAnError) {
  const std::string a = written("a.parquet", made_up_table(20, 1)),
                    b = written("b.parquet", made_up_table(9, 1));
  expect_same(read_compact(std::vector{a, b}, toy_options()), read_dataset(a, toy_options()));
  const std::string c = written("c.parquet", made_up_table(9, 3));
  expect_error(Errc::invalid_argument, "measured twice", [&] {
    read_compact(std::vector{a, c}, toy_options());
  });
}

TEST_F(CompactTableTest, FilesOfTwoDevicesAreAnError) {
  MeasurementTable other = made_up_table(3, 1);
  other.device.name = "toy-4c";
  const std::vector<std::string> files = {written("a.parquet", made_up_table(3, 1)),
                                          written("b.parquet", other)};
  expect_error(Errc::invalid_argument, "devices differ", [&] { read_compact(files, toy_options()); });
}

TEST_F(CompactTableTest, ProblemsAreSelectedWithTheirRows) {
  const MeasurementTable table = made_up_table(40, 1);
  const auto wanted = [](const Problem& problem) { return signature_of(problem).layout == Layout::rcr; };
  const MeasurementTable part = table_of_problems(table, wanted);
  CompactTable compact = table;
  expect_same(compact.of_problems(wanted), part);
  compact.keep_problems(wanted);
  expect_same(compact, part);
}

TEST_F(CompactTableTest, RowsAreDroppedByProblemAndConfig) {
  CompactTable compact = made_up_table(9, 1);
  compact.keep_rows(
      [](std::uint32_t problem, std::uint32_t config) { return problem != 3 && config % 2 == 1; });
  MeasurementTable wanted = made_up_table(9, 1);
  std::erase_if(wanted.rows, [](const auto& row) { return row.problem == 3 || row.config % 2 == 0; });
  expect_same(compact, wanted);
}

TEST_F(CompactTableTest, SetUpTimesStayWithTheirConfigs) {
  MeasurementTable table = made_up_table(9, 1);
  for (auto& row : table.rows) {
    if ((row.problem + row.config) % 4 == 0) row.measured.setup_us = row.problem * 10 + row.config;
  }
  using Setup = std::tuple<std::string, std::string, double>;
  const auto found = [](const CompactTable& compact) {
    std::vector<Setup> setups;
    compact.for_each_setup([&](std::uint32_t problem, std::uint32_t config, double setup_us) {
      setups.emplace_back(print(compact.problems[problem]), config_text(compact.configs[config]), setup_us);
    });
    std::ranges::sort(setups);
    return setups;
  };
  const auto wanted = [](const MeasurementTable& whole) {
    std::vector<Setup> setups;
    for (const auto& row : whole.rows) {
      if (row.measured.setup_us >= 0)
        setups.emplace_back(print(whole.problems[row.problem]), config_text(whole.configs[row.config]),
                            row.measured.setup_us);
    }
    std::ranges::sort(setups);
    return setups;
  };
  MeasurementTable other = table;
  other.problems = {make_gemm(7, 7, 7)};
  std::erase_if(other.rows, [](const auto& row) { return row.problem > 0; });
  other.configs[3] = toy_config(0, 99);
  const std::string a = written("a.parquet", table), b = written("b.parquet", other);
  std::vector<Setup> both = wanted(table), of_other = wanted(other);
  both.insert(both.end(), of_other.begin(), of_other.end());
  std::ranges::sort(both);
  EXPECT_GT(both.size(), wanted(table).size());
  EXPECT_EQ(found(read_compact(std::vector{a, b}, toy_options())), both);
  const auto some = [](const Problem& problem) { return signature_of(problem).layout == Layout::rcr; };
  CompactTable kept = table;
  EXPECT_EQ(found(kept.of_problems(some)), wanted(table_of_problems(table, some)));
  kept.keep_problems(some);
  EXPECT_EQ(found(kept), wanted(table_of_problems(table, some)));
}

TEST_F(CompactTableTest, ReadsTheLaterPassFirst) {
  const CompactTable table = test::toy_table();
  std::vector<std::pair<std::uint32_t, double>> rows;
  table.for_each_row(0, [&](std::uint32_t config, const Measurement& m, std::uint32_t) {
    rows.emplace_back(config, m.time_us);
  });
  EXPECT_EQ(rows, (std::vector<std::pair<std::uint32_t, double>>{{0, 100.25}, {1, 700}, {2, 91.5}, {2, 90}}));
  std::vector<std::uint32_t> numbers;
  table.for_each_row(
      0, [&](std::uint32_t, const Measurement&, std::uint32_t number) { numbers.push_back(number); });
  EXPECT_EQ(numbers, (std::vector<std::uint32_t>{1, 3, 2, 0}));
  EXPECT_FALSE(table.final_row(1, 3));
}

}  // namespace
}  // namespace kscout
