#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/files.h"
#include "dataset/file_order.h"
#include "dataset/operations.h"
#include "dataset/stream.h"
#include "dataset_fixture.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::made_up_table;
using test::toy_config;
using test::toy_options;

class DatasetStream : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_ / name; }
  DatasetOptions small_groups() const {
    DatasetOptions options = toy_options();
    options.group_rows = 7;
    return options;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(DatasetStream, FilesOfManyRowGroupsHoldTheSameTable) {
  const MeasurementTable table = made_up_table(40, 1);
  write_dataset(file("one.parquet"), table, toy_options());
  write_dataset(file("many.parquet"), table, small_groups());
  const MeasurementTable one = read_dataset(file("one.parquet"), toy_options());
  const MeasurementTable many = read_dataset(file("many.parquet"), toy_options());
  EXPECT_EQ(one.rows, many.rows);
  EXPECT_EQ(one.problems, many.problems);
  EXPECT_EQ(one.configs, many.configs);
  EXPECT_EQ(one.metadata, many.metadata);
  EXPECT_EQ(one.device, many.device);
}

TEST_F(DatasetStream, DescribesWhatTheWholeTableHolds) {
  for (const int problems : {1, 40}) {
    write_dataset(file("a.parquet"), made_up_table(problems, 1), small_groups());
    const MeasurementTable whole = read_dataset(file("a.parquet"), toy_options());
    const Description wanted = describe(whole);
    const auto found = describe_file(file("a.parquet"), toy_options());
    ASSERT_TRUE(found);
    const Description& d = found->description;
    EXPECT_EQ(d.rows, wanted.rows);
    EXPECT_EQ(d.rows_by_status, wanted.rows_by_status);
    EXPECT_EQ(d.second_pass, wanted.second_pass);
    EXPECT_EQ(d.noisy, wanted.noisy);
    EXPECT_EQ(d.problems, wanted.problems);
    EXPECT_EQ(d.problems_without_oracle, wanted.problems_without_oracle);
    EXPECT_EQ(d.sizes, wanted.sizes);
    EXPECT_EQ(d.configs, wanted.configs);
    EXPECT_EQ(d.configs_per_problem, wanted.configs_per_problem);
    EXPECT_EQ(d.median_spread, wanted.median_spread);
    ASSERT_EQ(d.best.size(), wanted.best.size());
    for (std::size_t i = 0; i < d.best.size(); ++i) {
      EXPECT_EQ(found->table.configs[d.best[i].config], whole.configs[wanted.best[i].config]) << i;
      EXPECT_EQ(d.best[i].problems, wanted.best[i].problems) << i;
    }
    EXPECT_EQ(found->table.metadata, whole.metadata);
  }
}

/// Reads whole files, as for files that are not in order.
void merge_whole(std::span<const std::string> files, const std::string& out, const MergeOptions& merge_as,
                 const DatasetOptions& options) {
  std::vector<MeasurementTable> tables;
  for (const std::string& file : files) tables.push_back(read_dataset(file, options));
  write_dataset(out, reduce(merge(tables, merge_as.keep), merge_as.reduction).table, options);
}

TEST_F(DatasetStream, MergesToTheBytesOfTheWholeTables) {
  const std::vector<std::string> files = {file("a.parquet"), file("b.parquet"), file("c.parquet")};
  write_dataset(files[0], made_up_table(30, 1), small_groups());
  MeasurementTable slower = made_up_table(45, 2);  // Keep::mean and Keep::median remove this difference
  for (auto& row : slower.rows)
    row.measured.time_us *= 1.1 + 0.01 * (row.problem % 5) + 0.1 * row.measured.pass;
  write_dataset(files[1], slower, small_groups());
  write_dataset(files[2], made_up_table(20, 5), toy_options());
  for (const Keep keep : {Keep::best, Keep::first, Keep::last, Keep::mean, Keep::median}) {
    for (const Reduction& reduction :
         {Reduction{}, Reduction{.final_rows = true}, Reduction{.timed = true, .digits = 3},
          Reduction{.final_rows = true, .timed = true, .pruned_early_digits = 2}}) {
      merge_whole(files, file("whole.parquet"), {.keep = keep, .reduction = reduction}, small_groups());
      ASSERT_TRUE(merge_files(files, file("streamed.parquet"), {.keep = keep, .reduction = reduction},
                              small_groups()));
      EXPECT_EQ(read_file(file("whole.parquet")), read_file(file("streamed.parquet"))) << word(keep);
    }
  }
}

TEST_F(DatasetStream, ReducesTheShippedTablesToTheSameBytes) {
  const std::vector<std::string> files = {paths::in_repository("data/gemm_fp32_zen4-2c.train.parquet"),
                                          paths::in_repository("data/gemm_fp32_zen4-2c.held_out.parquet")};
  DatasetOptions options;
  options.derived = false;
  options.group_rows = 6'000;
  const MergeOptions merge_as{
      .keep = Keep::error,
      .reduction = {
          .final_rows = true, .rules = "tiny", .timed = true, .pruned_early_one_in = 3, .digits = 4}};
  merge_whole(files, file("whole.parquet"), merge_as, options);
  const auto merged = merge_files(files, file("streamed.parquet"), merge_as, options);
  ASSERT_TRUE(merged);
  EXPECT_EQ(read_file(file("whole.parquet")), read_file(file("streamed.parquet")));
  const MeasurementTable again = read_dataset(file("streamed.parquet"));
  EXPECT_EQ(merged->rows, again.rows.size());
  EXPECT_EQ(merged->problems, again.problems.size());
  EXPECT_EQ(merged->configs, again.configs.size());
}

TEST_F(DatasetStream, ARowMeasuredTwiceIsAnError) {
  write_dataset(file("a.parquet"), made_up_table(5, 1), small_groups());
  write_dataset(file("b.parquet"), made_up_table(5, 2), small_groups());
  const std::vector<std::string> files = {file("a.parquet"), file("b.parquet")};
  expect_error(Errc::invalid_argument, {"was measured twice", "--keep"},
               [&] { merge_files(files, file("c.parquet"), {}, small_groups()); });
  EXPECT_FALSE(fs::exists(file("c.parquet")));
}

TEST_F(DatasetStream, RowsInAnotherOrderAreLeftToWholeReading) {
  MeasurementTable table = rows_in_file_order(made_up_table(5, 1), test::toy_provider("toy"));
  std::swap(table.rows.front(), table.rows.back());
  const std::size_t rows = table.rows.size();
  DatasetWriter writer(file("a.parquet"), *table.configs.front().space, toy_options());
  writer.finish(table, table.configs);
  EXPECT_EQ(read_dataset(file("a.parquet"), toy_options()).rows.size(), rows);
  EXPECT_FALSE(describe_file(file("a.parquet"), toy_options()));
  EXPECT_FALSE(merge_files(std::vector{file("a.parquet")}, file("b.parquet"), {}, toy_options()));
  EXPECT_FALSE(fs::exists(file("b.parquet")));
}

TEST_F(DatasetStream, WeightsThatDifferBetweenFilesAreLeftToWholeReading) {
  MeasurementTable table = made_up_table(5, 1);
  write_dataset(file("a.parquet"), table, toy_options());
  table.problems.front().set_weight(9);
  write_dataset(file("b.parquet"), table, toy_options());
  const std::vector<std::string> files = {file("a.parquet"), file("b.parquet")};
  EXPECT_FALSE(merge_files(files, file("c.parquet"), {.keep = Keep::first}, toy_options()));
}

TEST_F(DatasetStream, ARepeatedRowIsNotInOrder) {
  MeasurementTable table = rows_in_file_order(made_up_table(5, 1), test::toy_provider("toy"));
  table.rows.insert(table.rows.begin(), table.rows.front());
  DatasetWriter writer(file("a.parquet"), *table.configs.front().space, toy_options());
  writer.finish(table, table.configs);
  EXPECT_FALSE(describe_file(file("a.parquet"), toy_options()));
  expect_error(Errc::corrupt_data, {"row 2", "row 1 has the same problem"},
               [&] { read_dataset(file("a.parquet"), toy_options()); });
}

/// Peak memory in KiB of a process that does only this.
template <class Work>
long peak_of(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return usage.ru_maxrss;
}

TEST_F(DatasetStream, MemoryDoesNotGrowWithTheRows) {
  DatasetOptions options = toy_options();
  options.group_rows = 20'000;
  MeasurementTable table;
  table.device = test::toy_device();
  for (int p = 0; p < 1000; ++p) table.problems.push_back(make_gemm(16, 16 + p, 16));
  const auto write = [&](const std::string& name, int configs) {
    table.configs.clear();
    for (int c = 0; c < configs; ++c) table.configs.push_back(toy_config(0, 1000 + c));
    DatasetWriter writer(file(name), *table.configs.front().space, options);
    for (std::uint32_t c = 0; c < table.configs.size(); ++c) {
      for (std::uint32_t p = 0; p < table.problems.size(); ++p)
        table.rows.push_back({p, c, test::timed(1 + (p * 31 + c) % 997)});
      writer.take_groups(table);
    }
    writer.finish(table, table.configs);
  };
  write("small.parquet", 200);
  write("large.parquet", 1200);
  const auto work = [&](const std::string& name) {
    return [this, name, options] {
      const std::vector<std::string> one = {file(name)};
      if (!describe_file(file(name), options) || !merge_files(one, file("out.parquet"), {}, options))
        _exit(1);
    };
  };
  const long small = peak_of(work("small.parquet")), large = peak_of(work("large.parquet"));
  // A million more rows are 72 MB in a MeasurementTable.
  EXPECT_LT(large - small, 36'000) << small << " and " << large << " KiB";
}

}  // namespace
}  // namespace kscout
