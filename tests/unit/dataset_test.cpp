#include "dataset/dataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/files.h"
#include "core/json_fields.h"
#include "core/parquet_checksum.h"
#include "dataset/columns.h"
#include "dataset/operations.h"
#include "dataset/parquet.h"
#include "dataset_fixture.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::toy_options;
using test::toy_table;

class DatasetFile : public ::testing::Test {
 protected:
  fs::path file(const char* name = "a.parquet") const { return folder_ / name; }

  const test::TemporaryFolder folder_;
};

/// Equal in all but the order of rows, and so of problems.
void expect_same(const MeasurementTable& a, const MeasurementTable& b) {
  EXPECT_EQ(a.device, b.device);
  EXPECT_TRUE(std::ranges::is_permutation(a.problems, b.problems, [](const Problem& x, const Problem& y) {
    return x == y && x.weight() == y.weight();
  }));
  EXPECT_EQ(a.configs, b.configs);
  const Comparison rows = compare(a, b);
  EXPECT_EQ(rows.both, a.rows.size());
  EXPECT_TRUE(rows.differences.empty());
  EXPECT_EQ(a.metadata, b.metadata);
}

TEST_F(DatasetFile, ParquetReadsBackEveryValue) {
  write_dataset(file(), toy_table(), toy_options());
  expect_same(read_dataset(file(), toy_options()), toy_table());
}

TEST_F(DatasetFile, WhatFollowsFromTheRestMayBeLeftOut) {
  DatasetOptions options = toy_options();
  write_dataset(file(), toy_table(), options);
  options.derived = false;
  write_dataset(file("b.parquet"), toy_table(), options);
  EXPECT_LT(fs::file_size(file("b.parquet")), fs::file_size(file()));
  expect_same(read_dataset(file("b.parquet"), options), toy_table());
}

/// Reads a damaged form of a file. Returns whether the damage was noticed; without that, every value must be
/// that of `whole`.
bool notices_damage(const fs::path& file, const std::string& damaged, const MeasurementTable& whole,
                    const DatasetOptions& options) {
  write_file_atomically(file, damaged);
  try {
    expect_same(read_dataset(file, options), whole);
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_data);
    return true;
  }
}

std::string with_flipped_bit(std::string bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  return bytes;
}

/// The bits of the mark of the checksum: without the mark, a file counts as one without a checksum.
constexpr std::size_t kMarkBits = 8 * 16;

TEST_F(DatasetFile, FlippedBitsAreNoticed) {
  write_dataset(file("toy.parquet"), toy_table(), toy_options());
  struct Case {
    fs::path source;
    DatasetOptions options;
  };
  for (const Case& one : {Case{file("toy.parquet"), toy_options()},
                          Case{paths::in_repository("data/gemm_fp32_zen4-2c.held_out.parquet"), {}}}) {
    SCOPED_TRACE(one.source.string());
    const std::string bytes = read_file(one.source);
    const MeasurementTable whole = read_dataset(one.source, one.options);
    std::mt19937_64 random(20260101);
    for (int i = 0; i < 200; ++i) {
      const std::size_t bit = random() % (8 * bytes.size());
      SCOPED_TRACE(bit);
      const std::size_t mark = 8 * bytes.find("kscout checksum\n");
      EXPECT_EQ(notices_damage(file("damaged.parquet"), with_flipped_bit(bytes, bit), whole, one.options),
                bit < mark || bit >= mark + kMarkBits);
    }
  }
}

TEST_F(DatasetFile, EveryFlippedBitOfChecksumAndEndIsNoticed) {
  write_dataset(file(), toy_table(), toy_options());
  const std::string bytes = read_file(file());
  const std::size_t mark = 8 * bytes.find("kscout checksum\n"), checksum = mark + kMarkBits;
  const auto notices = [&](std::size_t bit) {
    return notices_damage(file("damaged.parquet"), with_flipped_bit(bytes, bit), toy_table(), toy_options());
  };
  for (std::size_t bit = mark; bit < checksum; ++bit) EXPECT_FALSE(notices(bit)) << bit;
  for (std::size_t bit = checksum; bit < checksum + 32; ++bit) EXPECT_TRUE(notices(bit)) << bit;
  for (std::size_t bit = 8 * bytes.size() - 64; bit < 8 * bytes.size(); ++bit)
    EXPECT_TRUE(notices(bit)) << bit;
}

TEST_F(DatasetFile, FilesWithoutAChecksumAreRead) {
  write_dataset(file(), toy_table(), toy_options());
  EXPECT_TRUE(check_parquet_checksum(file()));
  std::string bytes = read_file(file());
  bytes.erase(bytes.find("kscout checksum\n"), 20);
  write_file_atomically(file(), bytes);
  EXPECT_FALSE(check_parquet_checksum(file()));
  expect_same(read_dataset(file(), toy_options()), toy_table());
  expect_error(Errc::not_found, {"none.parquet"}, [&] { check_parquet_checksum(file("none.parquet")); });
  expect_error(Errc::invalid_argument, {"whole Parquet file"}, [&] { end_with_parquet_checksum("PAR1", 0); });
}

TEST_F(DatasetFile, EveryCommittedFileHasAChecksum) {
  std::size_t files = 0;
  for (const char* const folder : {"data", "models"}) {
    for (const auto& entry : fs::recursive_directory_iterator(paths::in_repository(folder))) {
      if (entry.path().extension() != ".parquet") continue;
      ++files;
      EXPECT_TRUE(check_parquet_checksum(entry.path())) << entry.path();
    }
  }
  EXPECT_GT(files, 60u);
}

TEST_F(DatasetFile, CsvReadsBackEveryValueButProvenance) {
  write_dataset(file("a.csv"), toy_table(), toy_options());
  DatasetOptions options = toy_options();
  EXPECT_THROW(read_dataset(file("a.csv"), options), Error);  // no device
  options.device = toy_table().device;
  MeasurementTable again = read_dataset(file("a.csv"), options);
  const MeasurementTable wanted = toy_table();
  ASSERT_EQ(again.rows.size(), wanted.rows.size());
  for (std::size_t r = 0; r < again.rows.size(); ++r) {  // configs come in order of appearance
    EXPECT_EQ(again.problems[again.rows[r].problem], wanted.problems[wanted.rows[r].problem]);
    EXPECT_EQ(again.configs[again.rows[r].config], wanted.configs[wanted.rows[r].config]);
    EXPECT_EQ(again.rows[r].measured, wanted.rows[r].measured);
  }
}

TEST_F(DatasetFile, EqualTablesGiveEqualBytes) {
  write_dataset(file("a.parquet"), toy_table(), toy_options());
  write_dataset(file("b.parquet"), toy_table(), toy_options());
  EXPECT_EQ(read_file(file("a.parquet")), read_file(file("b.parquet")));
}

TEST_F(DatasetFile, TheOrderOfRowsAndProblemsLeavesNoTrace) {
  MeasurementTable table = toy_table();
  table.problems.push_back(make_gemm(512, 64, 256));
  table.rows.push_back({2, 1, test::timed(800)});
  write_dataset(file("a.parquet"), table, toy_options());
  std::ranges::reverse(table.rows);
  std::ranges::reverse(table.problems);
  for (auto& row : table.rows) row.problem = 2 - row.problem;
  write_dataset(file("b.parquet"), table, toy_options());
  EXPECT_EQ(read_file(file("a.parquet")), read_file(file("b.parquet")));
}

TEST_F(DatasetFile, RowsStandByLayoutThenByKernelThenByWeights) {
  MeasurementTable table = toy_table();
  table.problems.push_back(make_gemm(512, 64, 256));
  table.rows.push_back({2, 1, test::timed(800)});
  write_dataset(file(), table, toy_options());
  const MeasurementTable again = read_dataset(file(), toy_options());
  std::vector<std::string> rows;
  for (const auto& row : again.rows) {
    const Problem& problem = again.problems[row.problem];
    rows.push_back(fmt::format("{} {} {} {} {}", word(signature_of(problem).layout),
                               config_text(again.configs[row.config]), problem.gemm().n, problem.gemm().m,
                               row.measured.pass));
  }
  const std::vector<std::string> wanted = {"rcr skinny,8,? 64 512 1",   "rcr skinny,8,? 256 256 1",
                                           "rcr tiled,128,4 256 256 1", "rcr tiled,128,4 256 256 2",
                                           "rcr tiled,64,1 256 256 1",  "rrr skinny,8,? 4096 1 1",
                                           "rrr tiled,128,4 4096 1 1",  "rrr tiled,64,1 4096 1 1"};
  EXPECT_EQ(rows, wanted);
}

TEST_F(DatasetFile, LongTextsAreStoredCompressed) {
  MeasurementTable table = toy_table();
  write_dataset(file(), table, toy_options());
  const auto plain = fs::file_size(file());
  for (int i = 0; i < 3000; ++i) table.metadata["filter"] += fmt::format("c.tile > {}; ", i % 10);
  ASSERT_GT(table.metadata["filter"].size(), 30'000u);
  write_dataset(file(), table, toy_options());
  EXPECT_LT(fs::file_size(file()), plain + 3000);
  expect_same(read_dataset(file(), toy_options()), table);
}

/// A file of the toy table with these metadata beside what every file has.
std::string toy_bytes(const std::map<std::string, std::string>& more) {
  const MeasurementTable table = toy_table();
  std::map<std::string, std::string> metadata = {
      {"kscout.op", "gemm"}, {"kscout.provider", "toy"}, {"kscout.device", record_json(table.device).dump()}};
  metadata.insert(more.begin(), more.end());
  return parquet_bytes(dataset_columns(test::kSpace),
                       make_block(table, test::toy_provider("toy"), test::kSpace), metadata);
}

TEST_F(DatasetFile, Version1IsReadAndNewerOnesAreNot) {
  const auto metadata = [](const char* version) {
    return std::map<std::string, std::string>{{"kscout.dataset_version", version},
                                              {"kscout.provenance", "{}"},
                                              {"kscout.config_order", R"(["skinny,8,?"])"}};
  };
  write_file_atomically(file(), toy_bytes(metadata("1")));
  const MeasurementTable again = read_dataset(file(), toy_options());
  EXPECT_EQ(again.rows.size(), toy_table().rows.size());
  EXPECT_EQ(config_text(again.configs.front()), "skinny,8,?");
  write_file_atomically(file(), toy_bytes(metadata("3")));
  try {
    read_dataset(file(), toy_options());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_NE(std::string_view(error.what()).find("reads 1 to 2"), std::string_view::npos) << error.what();
  }
}

TEST_F(DatasetFile, EarlierFilesLackLaterColumns) {
  const fs::path earlier = paths::in_repository("data/ck_tile_conv_fwd_bf16_gfx950.parquet");
  MeasurementTable table = read_dataset(earlier);
  ASSERT_FALSE(table.rows.empty());
  for (const Problem& problem : table.problems) EXPECT_FALSE(problem.conv().prepacked);
  for (const auto& row : table.rows) EXPECT_TRUE(std::isnan(row.measured.setup_us));
  ConvProblem packed_once = table.problems[table.rows.front().problem].conv();
  packed_once.prepacked = true;
  table.problems[table.rows.front().problem] = packed_once;
  table.rows.front().measured.setup_us = 9;
  write_dataset(file(), table);
  expect_same(read_dataset(file()), table);
  const MeasurementTable again = read_dataset(file());
  EXPECT_EQ(std::ranges::count_if(again.problems, [](const Problem& p) { return p.conv().prepacked; }), 1);
}

TEST_F(DatasetFile, DamagedCompressedTextsAreRefusedByName) {
  for (const char* const text : {"%%", "bm8gZ3ppcA=="}) {  // no base64, no gzip
    write_file_atomically(file(), toy_bytes({{"kscout.dataset_version", "2"},
                                             {"kscout.provenance", "{}"},
                                             {"kscout.config_order.gz", text}}));
    try {
      read_dataset(file(), toy_options());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_data);
      EXPECT_NE(std::string_view(error.what()).find("kscout.config_order.gz"), std::string_view::npos)
          << error.what();
    }
  }
}

TEST_F(DatasetFile, EveryTruncationIsRefused) {
  write_dataset(file(), toy_table(), toy_options());
  const std::string bytes = read_file(file());
  for (std::size_t keep = 0; keep < bytes.size(); keep += 97) {
    std::ofstream(file("cut.parquet"), std::ios::binary) << bytes.substr(0, keep);
    try {
      read_dataset(file("cut.parquet"), toy_options());
      ADD_FAILURE() << keep << " of " << bytes.size() << " bytes were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_data);
      EXPECT_NE(std::string_view(error.what()).find("cut.parquet"), std::string_view::npos) << error.what();
    }
  }
}

TEST_F(DatasetFile, AbsentFileIsNotFound) {
  try {
    read_dataset(file("none.parquet"), toy_options());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_found);
  }
}

TEST_F(DatasetFile, OneWithoutRowsIsNotWritten) {
  MeasurementTable table = toy_table();
  table.rows.clear();
  for (const char* const name : {"a.parquet", "a.csv"})
    expect_error(Errc::invalid_argument, "at least one row",
                 [&] { write_dataset(file(name), table, toy_options()); });
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(DatasetFile, AFolderThatIsNotThereLeavesNoFile) {
  EXPECT_THROW(write_dataset(folder_ / "no" / "a.parquet", toy_table(), toy_options()), Error);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

/// Reads CSV text as a dataset of the toy device; the message of the error.
std::string csv_error(const std::string& text) {
  DatasetOptions options = toy_options();
  options.device = test::toy_device();
  try {
    parse_dataset_csv(text, "t.csv", options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// The table as CSV with one text replaced by another.
std::string csv_with(const std::string& from, const std::string& to) {
  std::string text = dataset_csv(toy_table(), toy_options());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " not in\n" << text;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& text, std::initializer_list<std::string_view> parts) {
  const std::string message = csv_error(text);
  for (const auto part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nnot in: " << message;
}

TEST(DatasetCsv, MessagesNameFileRowColumnValueAndRemedy) {
  expect_refused(csv_with("time_us", "time_su"),
                 {"t.csv", "unknown column 'time_su'", "did you mean 'time_us'"});
  expect_refused(csv_with("ok,warm,1,90,", "ok,warm,1,,"),
                 {"t.csv", "row 1", "'time_us'", "nan", "status 'ok'"});
  expect_refused(csv_with("ok,warm,1,90,", "ok,warm,1,nan,"), {"row 1", "'time_us'", "nan", "status 'ok'"});
  expect_refused(csv_with("ok,warm,1,90,", "ok,warm,1,-90,"), {"row 1", "'time_us'", "-90", "above 0"});
  expect_refused(csv_with("ok,warm,1,90,", "ok,warm,1,5e-324,"), {"row 1", "'time_us'", "at least 0.001 us"});
  expect_refused(csv_with("ok,warm,1,90,", "ok,warm,1,9O,"), {"row 1", "'time_us'", "9O", "not a number"});
  expect_refused(csv_with("ok,warm,1,90,", "ok,warm,3,90,"), {"row 1", "'pass'", "3", "1 or 2"});
  expect_refused(csv_with("ok,warm,1,90,", "good,warm,1,90,"), {"row 1", "'status'", "'good'", "one of: ok"});
  expect_refused(csv_with("fp32", "fp23"), {"row 1", "'dtype_a'", "did you mean 'fp32'"});
  expect_refused(csv_with(",256,256,256,", ",-256,256,256,"), {"row 1", "m=-256", "at least 0"});
  expect_refused(csv_with("toy-2c", "toy-4c"), {"row 1", "'device'", "'toy-4c'", "'toy-2c'"});
  expect_refused(csv_with("tiled,128,4", "tilde,128,4"), {"row 1", "'config_kind'", "did you mean 'tiled'"});
  expect_refused(csv_with("tiled,128,4", "tiled,64,4"), {"row 1", "'config'", "toy_rcr_tiled_128_4"});
  expect_refused(csv_with("gemm,toy,", "gemm,toi,"), {"unknown provider 'toi'"});
}

TEST(DatasetCsv, ARowTwiceIsRefused) {
  const std::string text = dataset_csv(toy_table(), toy_options());
  const std::size_t first = text.find('\n') + 1;
  const std::string row = text.substr(first, text.find('\n', first) + 1 - first);
  expect_refused(text + row, {"row 8", "row 1 has the same problem, config and pass"});
}

TEST(DatasetCsv, ACutFileIsRefused) {
  const std::string text = dataset_csv(toy_table(), toy_options());
  expect_refused(text.substr(0, text.size() - 30), {"row 7", "cells under"});
  expect_refused("", {"empty"});
  expect_refused("provider,m,n\ntoy,1,2\n", {"'k'", "missing"});
  expect_refused("m,n,k,time_us,config\n\"1,2,3,4,x\n", {"quote is not closed"});
}

TEST(DatasetCsv, PlainTablesMayLeaveDefaultsOut) {
  DatasetOptions options = toy_options();
  options.device = test::toy_device();
  const auto table = parse_dataset_csv(
      "provider,m,n,k,config,time_us,noisy\r\ntoy,8,16,32,toy_rcr_skinny_8_2,5,True\r\n", "t.csv", options);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.problems[0], make_gemm(8, 16, 32));
  EXPECT_EQ(table.configs[0], test::toy_config(1, 8, 2));
  EXPECT_EQ(table.rows[0].measured.time_us, 5);
  EXPECT_TRUE(table.rows[0].measured.noisy);
}

/// One problem, these configs' times.
MeasurementTable timed(const std::vector<double>& times_us) {
  MeasurementTable table = toy_table();
  table.rows.clear();
  for (std::uint32_t c = 0; c < times_us.size(); ++c)
    table.rows.push_back({0, c, {.status = Status::ok, .time_us = times_us[c], .repeats = 10}});
  return table;
}

TEST(DatasetMerge, MeanIsWhatSweepsAgreeOnWhateverTheMachinesState) {
  ASSERT_GE(toy_table().configs.size(), 3u);
  const MeasurementTable tables[] = {timed({10, 20, 40}),
                                     timed({30, 60, 120 * 1.21})};  // a machine 3 times slower
  const MeasurementTable merged = merge(tables, Keep::mean);
  ASSERT_EQ(merged.rows.size(), 3u);
  EXPECT_NEAR(merged.rows[0].measured.time_us, 10, 1e-9);
  EXPECT_NEAR(merged.rows[1].measured.time_us, 20, 1e-9);
  EXPECT_NEAR(merged.rows[2].measured.time_us, 44, 1e-9);
  EXPECT_EQ(merged.rows[2].measured.repeats, 20);
}

TEST(DatasetMerge, DriftOfMeasuredFactsIsNoOtherDevice) {
  MeasurementTable a = timed({10, 20}), b = timed({10, 20, 30});
  a.device.max_clock_mhz = 2595;
  b.device.max_clock_mhz = 2596;
  const MeasurementTable merged = merge(std::vector{a, b}, Keep::error);
  EXPECT_EQ(merged.rows.size(), 3u);
  EXPECT_EQ(merged.device.max_clock_mhz, 2595);

  b.device.max_clock_mhz = 3100;
  b.device.cores = 3;
  test::expect_error(Errc::invalid_argument,
                     {"cores is 2 and 3", "max_clock_mhz is 2595 MHz and 3100 MHz", "--mixed-devices"}, [&] {
                       merge(std::vector{a, b}, Keep::error);
                     });
  EXPECT_EQ(merge(std::vector{a, b}, Keep::error, /*mixed_devices=*/true).device.max_clock_mhz, 2595);
  b = a;
  b.device.max_clock_mhz = Device::unknown;
  test::expect_error(Errc::invalid_argument, {"max_clock_mhz is 2595 MHz and unknown"}, [&] {
    merge(std::vector{a, b}, Keep::error);
  });
}

TEST(DatasetMerge, MetadataListEveryValueOnce) {
  auto a = timed({10, 20, 30}), b = a, c = a;
  a.metadata = {{"seed", "1"}, {"host", "x"}, {"filter", ""}};
  b.metadata = {{"seed", "1; 4"}, {"host", "x"}, {"filter", "c.mr > 4"}};
  c.metadata = {{"seed", "4; 2; 1"}, {"filter", ""}};
  const auto merged = merge(std::vector{a, b, c}, Keep::mean).metadata;
  EXPECT_EQ(merged.at("seed"), "1; 4; 2");
  EXPECT_EQ(merged.at("host"), "x");
  EXPECT_EQ(merged.at("filter"), "; c.mr > 4") << "no filter is one of both";
}

TEST(DatasetMerge, ATableThatNamesNoFilterHasNone) {
  auto filtered = timed({10, 20, 30}), silent = filtered;
  filtered.metadata = {{"filter", "c.mr > 4"}};
  silent.metadata = {};
  EXPECT_EQ(merge(std::vector{filtered, silent}, Keep::mean).metadata.at("filter"), "c.mr > 4; ");
  EXPECT_EQ(merge(std::vector{silent, filtered}, Keep::mean).metadata.at("filter"), "; c.mr > 4");
  EXPECT_TRUE(merge(std::vector{silent, silent}, Keep::mean).metadata.empty());
}

TEST(DatasetMerge, ClocksAndTimesOfCreationAreSpans) {
  auto a = timed({10, 20, 30}), b = a, c = a;
  a.metadata = {{"clock_mhz_min", "990"},  // not the least text
                {"clock_mhz_max", "1290"},
                {"created", "2026-11-21T21:36:43Z"}};
  b.metadata = {{"clock_mhz_min", "1440; 975.5; 1290"},
                {"clock_mhz_max", "1980; 990"},
                {"created", "2026-11-22T17:20:11Z; 2026-11-20T08:00:00Z; 2026-11-21T21:36:43Z"}};
  c.metadata = {{"created", "2026-11-23T00:00:01Z"}};
  const auto before = merge(std::vector{a, b}, Keep::mean);
  EXPECT_EQ(before.metadata.at("clock_mhz_min"), "975.5");
  EXPECT_EQ(before.metadata.at("clock_mhz_max"), "1980");
  EXPECT_EQ(before.metadata.at("created"), "2026-11-20T08:00:00Z to 2026-11-22T17:20:11Z");
  EXPECT_EQ(merge(std::vector{c, before}, Keep::mean).metadata.at("created"),
            "2026-11-20T08:00:00Z to 2026-11-23T00:00:01Z");
  EXPECT_EQ(merge(std::vector{a, a}, Keep::mean).metadata, a.metadata);
  EXPECT_EQ(merge(std::vector{b}, Keep::mean).metadata.at("clock_mhz_min"), "975.5")
      << "lists of files merged before";
}

TEST(DatasetMerge, WhatIsAveragedHasTheDigitsThatMeanSomething) {
  MeasurementTable tables[] = {timed({10, 20, 30}), timed({10, 20, 31})};
  tables[0].rows[2].measured.spread = 0.01234;
  tables[0].rows[2].measured.setup_us = 17.30001;
  tables[1].rows[2].measured.setup_us = 19;
  tables[1].rows[2].measured.error = 0.9876;
  tables[1].rows[0].measured.error = 0;
  for (const Keep keep : {Keep::mean, Keep::median}) {
    const MeasurementTable merged = merge(tables, keep);
    const Measurement& measured = merged.rows[2].measured;
    EXPECT_EQ(measured.time_us, 30.496);
    EXPECT_EQ(measured.spread, 0.012);
    EXPECT_EQ(measured.setup_us, 17.3) << "the time that is not disturbed";
    EXPECT_EQ(measured.error, 0.99);
    EXPECT_EQ(merged.rows[0].measured.error, 0);
    EXPECT_TRUE(std::isnan(merged.rows[1].measured.error));
  }
  MeasurementTable once[] = {timed({10.123456, 20, 30})};
  once[0].rows[0].measured.spread = 0.01234;
  const Measurement kept = merge(once, Keep::first).rows[0].measured;
  EXPECT_EQ(kept.time_us, 10.123456) << "nothing was averaged";
  EXPECT_EQ(kept.spread, 0.01234);
}

TEST(DatasetMerge, MeanKeepsWhatTookPartAndWhatWasWrong) {
  auto once = timed({10, 20, 40}), again = timed({10, 5, 40});
  again.rows[1].measured.status = Status::pruned_early;
  again.rows[2].measured = {.status = Status::wrong};
  const MeasurementTable merged = merge(std::vector{once, again}, Keep::mean);
  EXPECT_NEAR(merged.rows[1].measured.time_us, 20, 1e-9) << "a time of a row pruned early is coarse";
  EXPECT_EQ(merged.rows[2].measured.status, Status::wrong) << "wrong once is wrong";
}

TEST(DatasetMerge, MedianForgetsADisturbedSweep) {
  auto wrong_last = timed({10, 20, 40});
  wrong_last.rows[2].measured = {.status = Status::wrong};
  const std::vector tables = {timed({10, 20, 40}), timed({11, 9000, 44}), timed({10, 20, 40}),
                              timed({10, 22.05, 40})};
  const MeasurementTable merged = merge(tables, Keep::median);
  EXPECT_NEAR(merged.rows[0].measured.time_us, 10, 1e-9);
  EXPECT_NEAR(merged.rows[1].measured.time_us, 21, 1e-3) << "between 20 and 22.05, in logarithms";
  EXPECT_EQ(merged.rows[1].measured.repeats, 40);
  EXPECT_EQ(merge(std::vector{tables[0], tables[1], wrong_last}, Keep::median).rows[2].measured.status,
            Status::wrong);
}

TEST(DatasetColumns, NamesAreDistinctAndUnitsStated) {
  std::vector<std::string> names;
  for (const ColumnSpec& spec : dataset_columns(test::kSpace)) {
    EXPECT_FALSE(spec.unit.empty()) << spec.name;
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    names.push_back(spec.name);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(DatasetColumns, SpeedsFollowFromTimeAndSizes) {
  const GemmProblem problem = make_gemm(1000, 1000, 1000);
  EXPECT_DOUBLE_EQ(tflops_of(problem, test::timed(1000)), 2.0);  // 2e9 operations in 1 ms
  EXPECT_DOUBLE_EQ(gb_s_of(problem, test::timed(1000)), 12.0);   // 3 x 4 MB in 1 ms
  EXPECT_TRUE(std::isnan(tflops_of(problem, test::timed(1, Status::wrong))));
}

}  // namespace
}  // namespace kscout
