// Tests the import of foreign formats, on short handwritten inputs.
#include "import/import.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <kscout/provider.h>

#include "core/files.h"
#include "dataset/dataset.h"
#include "dataset/parquet.h"
#include "support/compact_tables.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/train.h"

namespace kscout {
namespace {

using test::expect_error;

/// A file that lives as long as this.
class TextFile {
 public:
  explicit TextFile(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  const std::filesystem::path& path() const { return path_; }

 private:
  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "text";
};

Imported read(const std::string& text, ImportFormat from, Op op, DType dtype = DType::bf16) {
  const TextFile file(text);
  ImportRequest request{.from = from, .op = op, .dtype = dtype};
  request.device = device_preset("gfx950");
  return import_file(file.path(), request);
}

const std::string kCsv =
    "kernel,problem_idx,N,C,K,G,Hi,Wi,Y,X,stride_h,stride_w,pad_h,pad_w,latency_ms,tflops,non_zero\n";

TEST(Import, ReadsTheTableOfConvolutions) {
  const auto imported =
      read(kCsv +
               "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,1,128,256,1,32,32,2,2,2,2,0,0,"
               "0.008,8.4,65536\n"
               "grouped_conv_forward_bf16_2d_32x64x64_compv4,0,1,128,256,1,32,32,2,2,2,2,0,0,"
               "0.007,9.8,65536\r\n",
           ImportFormat::ck_csv, Op::conv_fwd);
  ASSERT_EQ(imported.table.rows.size(), 2u);
  ASSERT_EQ(imported.table.problems.size(), 1u);
  const ConvProblem& problem = imported.table.problems.front().conv();
  EXPECT_EQ(print(problem), "conv_fwd:1x128x32x32:256x2x2:bf16:nhwgc:stride=2");
  EXPECT_DOUBLE_EQ(imported.table.rows[1].measured.time_us, 7);
  EXPECT_EQ(imported.table.configs[1]["tile_m"], 32);
  EXPECT_EQ(imported.table.metadata.at("rules"), "measured");
  EXPECT_EQ(imported.skipped_count, 0u);
}

TEST(Import, ReadsDepthAndDilationInAnyOrderOfColumnsAndTimeFromSpeed) {
  const auto imported = read(
      "Di,Hi,Wi,Z,Y,X,N,C,K,G,stride_d,stride_h,stride_w,pad_d,pad_h,pad_w,dilation_d,dilation_h,dilation_w,"
      "tflops,kernel\n"
      "8,28,28,3,3,3,2,64,64,1,1,1,1,1,2,2,1,2,2,100,grouped_conv_forward_bf16_3d_64x64x64_compv3_"
      "intrawave\n",
      ImportFormat::ck_csv, Op::conv_fwd);
  const ConvProblem& problem = imported.table.problems.front().conv();
  EXPECT_EQ(problem.layout, Layout::ndhwgc);
  EXPECT_EQ(problem.dilation_h, 2);
  EXPECT_NEAR(imported.table.rows.front().measured.time_us, flop_count(problem) / 1e8, 1e-9);
}

TEST(Import, SkipsWhatCannotBeReadWithLineAndReason) {
  const std::string good =
      "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,1,64,64,1,8,8,1,1,1,1,0,0,0.01,1,1\n";
  const auto imported =
      read(kCsv + good + "no_such_kernel,0,1,64,64,1,8,8,1,1,1,1,0,0,0.01,1,1\n" + "a,b\n" +
               "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,x,64,64,1,8,8,1,1,1,1,0,0,0.01,1,1\n" +
               "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,1,65,64,2,8,8,1,1,1,1,0,0,0.01,1,1\n" +
               "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,1,64,64,1,8,8,1,1,1,1,0,0,0.005,2,1\n",
           ImportFormat::ck_csv, Op::conv_fwd);
  EXPECT_EQ(imported.table.rows.size(), 1u);
  EXPECT_EQ(imported.repeated, 1u);
  EXPECT_DOUBLE_EQ(imported.table.rows.front().measured.time_us, 5);  // the fastest of two
  ASSERT_EQ(imported.skipped_count, 4u);
  EXPECT_EQ(imported.skipped[0].line, 3u);
  EXPECT_NE(imported.skipped[0].reason.find("no_such_kernel"), std::string::npos);
  EXPECT_EQ(imported.skipped[1].line, 4u);
  EXPECT_NE(imported.skipped[2].reason.find("'x'"), std::string::npos);
  EXPECT_EQ(imported.skipped[3].line, 6u);  // 2 does not divide 65
}

TEST(Import, ReadsShortNamesOfMemAndCanWriteTheirDataset) {
  // Every published table of a backward direction contains such names.
  const std::string rest = ",0,1,64,64,1,8,8,1,1,1,1,0,0,0.01,1,1\n";
  const std::vector<std::string> names = {"grouped_conv_bwd_data_bf16_2d_64x64x64_mem",
                                          "grouped_conv_bwd_data_bf16_2d_64x64x64_mem_interwave_dsb",
                                          "grouped_conv_bwd_data_bf16_2d_64x64x64_compv3"};
  std::string rows;
  for (const std::string& name : names) rows += name + rest;
  const auto imported = read(kCsv + rows, ImportFormat::ck_csv, Op::conv_bwd_data);
  EXPECT_EQ(imported.skipped_count, 0u);
  ASSERT_EQ(imported.table.configs.size(), names.size());
  EXPECT_EQ(imported.table.configs[0]["pad_m"], KernelConfig::unknown);
  const std::string csv = dataset_csv(imported.table);
  for (const std::string& name : names) EXPECT_NE(csv.find(name), std::string::npos) << name;
}

TEST(Import, SkipsRowsOfImpossibleProblemsWhoseTimeFollowsFromTheirSpeed) {
  const auto imported = read(
      "kernel,N,C,K,G,Hi,Wi,Y,X,stride_h,tflops\n"
      "grouped_conv_forward_bf16_2d_16x64x64_compv3,1,64,64,0,8,8,1,1,1,10\n"
      "grouped_conv_forward_bf16_2d_16x64x64_compv3,1,64,64,1,8,8,1,1,0,10\n"
      "grouped_conv_forward_bf16_2d_16x64x64_compv3,1,64,64,1,8,8,1,1,1,10\n",
      ImportFormat::ck_csv, Op::conv_fwd);
  EXPECT_EQ(imported.table.rows.size(), 1u);
  ASSERT_EQ(imported.skipped_count, 2u);
  EXPECT_EQ(imported.skipped[0].line, 2u);
  EXPECT_EQ(imported.skipped[1].line, 3u);
}

TEST(Import, RefusesTablesThatLackWhatIsNeeded) {
  expect_error(Errc::corrupt_data, "'Hi'",
               [] { read("kernel,N,C,K,Wi,Y,X,tflops\n", ImportFormat::ck_csv, Op::conv_fwd); });
  expect_error(Errc::corrupt_data, "no measurement", [] { read(kCsv, ImportFormat::ck_csv, Op::conv_fwd); });
  expect_error(Errc::invalid_argument, "--op conv_fwd", [] { read(kCsv, ImportFormat::ck_csv, Op::gemm); });
}

TEST(Import, ReadsTheCsvOfTheTileEnginesGemms) {
  const std::string kernel =
      "gemm_fp16_rcr_compv3_cshuffle_intrawave_True_True_True_False_128x128x64_2x2x1_32x32x16";
  const std::string header =
      "rocm_version,device_name,split_k,m,n,k,stride_a,stride_b,stride_c,dtype_a,dtype_b,dtype_acc,dtype_c,"
      "layout_a,layout_b,layout_c,name,latency(ms),tflops(TFlops),bandwidth(GB/s),metric\n";
  const std::string types = "fp16,fp16,fp32,fp16,RowMajor,ColumnMajor,RowMajor," + kernel;
  const auto imported =
      read(header + "6.4.1,MI350X,1,64,128,256,256,256,128," + types + ",0.0200,0.21,9.8,Latency\n" +
               "6.4.1,MI350X,1,64,128,256,0,512,0," + types + ",0.0300,0.14,6.5,Latency\n" +
               "6.4.1,MI350X,1,64,128,256,0,0,0," + types + ",fast,0.14,6.5,Latency\n",
           ImportFormat::ck_csv, Op::gemm);
  ASSERT_EQ(imported.table.problems.size(), 2u);
  EXPECT_EQ(print(imported.table.problems[0]), "gemm:64x128x256:fp16:rcr")
      << "its strides are those of packed operands";
  EXPECT_EQ(print(imported.table.problems[1]), "gemm:64x128x256:fp16:rcr:ldb=512");
  EXPECT_DOUBLE_EQ(imported.table.rows[0].measured.time_us, 20);
  EXPECT_DOUBLE_EQ(imported.table.rows[1].measured.time_us, 30);
  ASSERT_EQ(imported.skipped_count, 1u);
  EXPECT_EQ(imported.skipped[0].line, 4u);
}

TEST(Import, ReadsTheCsvOfGemmSweepsByAModel) {
  const std::string kernel =
      "gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_True_True_True_False_128x128x128_1x4x1_16x16x128";
  const auto imported = read(
      "dtype,M,N,K,selected_kernel,predicted_tflops,selection_time_ms,actual_time_ms,actual_tflops,status,"
      "error\n"
      "fp8,64,128,256," +
          kernel + ",300,0.4,0.02,0.21,ok,\n" + "fp8,1,128,256," + kernel + ",300,0.4,,,failed,no kernel\n",
      ImportFormat::ck_csv, Op::gemm);
  ASSERT_EQ(imported.table.rows.size(), 1u);
  EXPECT_EQ(print(imported.table.problems[0]), "gemm:64x128x256:fp8:rcr");
  EXPECT_DOUBLE_EQ(imported.table.rows[0].measured.time_us, 20);
  EXPECT_EQ(imported.skipped_count, 1u);
}

const std::string kKernel =
    "gemm_universal_fp8_rcr_mem_cshuffle_intrawave_False_False_False_False_128x128x128_1x4x1_16x16x128";

std::string block(const std::string& ms) {
  return "{\n \"name\": \"" + kKernel +
         "\",\n \"problem\": {\"m\": 64, \"n\": 128, \"k\": 256, \"split_k\": 1, \"dtype_a\": \"fp8\", "
         "\"layout_a\": \"RowMajor\", \"layout_b\": \"ColumnMajor\", \"layout_c\": \"RowMajor\", \"note\": "
         "\"a } in a text\"},\n"
         " \"perf_result\": {\"latency(ms)\": " +
         ms + ", \"tflops(TFlops)\": 1.5, \"bandwidth(GB/s)\": 2}\n}\n";
}

TEST(Import, ReadsTheStreamingLogAndPadsMem) {
  const auto imported =
      read("banner\nShape 0: M=64 N=128 K=256 dtype=fp8 layout=rcr\n====\nFound 2 kernels\n" + block("0.02") +
               "{\n \"name\": \"cut off\"\nShape 1: M=32 N=128 K=256 dtype=fp8 layout=rcr\n" + block("0.03"),
           ImportFormat::ck_log, Op::gemm, DType::fp8);
  ASSERT_EQ(imported.table.rows.size(), 1u);  // the block's own sizes win over the header's
  EXPECT_EQ(imported.repeated, 1u);
  EXPECT_EQ(imported.skipped_count, 1u);
  EXPECT_EQ(imported.table.problems.front().gemm().m, 64);
  EXPECT_DOUBLE_EQ(imported.table.rows.front().measured.time_us, 20);
  EXPECT_EQ(imported.table.configs.front()["pad_m"], 1);  // pipeline mem pads whatever its name says
}

TEST(Import, SkipsMalformedBlocksOfALogAndKeepsTheirNeighbours) {
  const auto imported =
      read("Shape 0: M=64 N=128 K=256 dtype=fp8 layout=rcr\n" + block("0.02") + "{\n \"name\": \"" + kKernel +
               "\" \"problem\": {}\n}\n" +  // a comma is missing
               "{\"name\": 7, \"perf_result\": {\"latency(ms)\": 1}}\n" +
               "{\"name\": \"x\", \"perf_result\": {\"latency(ms)\": 1}}\n" +  // no kernel
               "{\"perf_result\": {}}\n" + "Shape 1: M=few N=1 K=1\n" + block("0.01") + "{ \"name\": 1\n",
           ImportFormat::ck_log, Op::gemm, DType::fp8);
  EXPECT_EQ(imported.table.rows.size(), 1u);
  EXPECT_EQ(imported.repeated, 1u);
  EXPECT_EQ(imported.skipped_count, 6u);
  std::vector<std::size_t> lines;
  for (const Skipped& one : imported.skipped) lines.push_back(one.line);
  EXPECT_EQ(lines, (std::vector<std::size_t>{7, 10, 11, 12, 13, 19}));
}

TEST(Import, BlockOfALogWhoseTextDoesNotEndTakesNoneOfItsNeighbours) {
  const auto imported =
      read("Shape 0: M=64 N=128 K=256 dtype=fp8 layout=rcr\n" +
               std::string("{\n \"name\": \"cut {,\n \"problem\": {\"m\": 1}\n}\n") + block("0.02") +
               "{\"name\": \"" + kKernel + "\", \"problem\": [{\"m\": 8}]}\n",
           ImportFormat::ck_log, Op::gemm, DType::fp8);
  EXPECT_EQ(imported.table.rows.size(), 1u);
  ASSERT_EQ(imported.skipped_count, 2u);
  EXPECT_EQ(imported.skipped[0].line, 2u);
  EXPECT_EQ(imported.skipped[0].reason, "a block that is no JSON");
  EXPECT_EQ(imported.skipped[1].reason, "'problem' is of another type than in a log");
}

TEST(Import, BlocksBehindAShapeLineThatTellsNothingAreNotOfTheShapeBefore) {
  const std::string measured =
      "{\"name\": \"" + kKernel + "\", \"perf_result\": {\"latency(ms)\": 0.02, \"tflops(TFlops)\": 1.5}}\n";
  const auto imported = read(
      "Shape 0: M=64 N=128 K=256 dtype=fp8 layout=rcr\n" + measured + "Shape 1: M=few N=1 K=1\n" + measured,
      ImportFormat::ck_log, Op::gemm, DType::fp8);
  EXPECT_EQ(imported.table.rows.size(), 1u);
  EXPECT_EQ(imported.repeated, 0u);
  ASSERT_EQ(imported.skipped_count, 2u);
  EXPECT_EQ(imported.skipped[1].line, 4u);
}

/// A file in the form of the public heuristics' converters.
class Converted : public testing::Test {
 protected:
  void add(const std::string& name, std::vector<std::string> texts) {
    ColumnValues values;
    for (auto& text : texts) {
      values.index.push_back(text.empty() ? ColumnValues::null_word
                                          : static_cast<std::int32_t>(values.words.size()));
      if (!text.empty()) values.words.push_back(std::move(text));
    }
    add_column(name, ColumnType::text, std::move(values));
  }
  void add(const std::string& name, std::vector<double> numbers) {
    ColumnValues values;
    values.number = std::move(numbers);
    add_column(name, ColumnType::float64, std::move(values));
  }
  void add(const std::string& name, std::vector<std::int64_t> numbers, ColumnType type = ColumnType::int64) {
    ColumnValues values;
    values.whole = std::move(numbers);
    add_column(name, type, std::move(values));
  }
  Imported read_as(Op op) const {
    return read(parquet_bytes(specs_, {2, columns_}, {}), ImportFormat::parquet, op);
  }

 private:
  void add_column(const std::string& name, ColumnType type, ColumnValues values) {
    specs_.push_back({name, "1", "", type, /*nullable=*/true});
    columns_.push_back(std::move(values));
  }
  std::vector<ColumnSpec> specs_;
  std::vector<ColumnValues> columns_;
};

TEST_F(Converted, GemmsWithTheFactsOfTheirDevice) {
  add("op_type", std::vector<std::string>{"gemm_universal", "gemm_universal"});
  add("dtype", std::vector<std::string>{"fp8", "fp8"});
  add("layout", std::vector<std::string>{"rcr", "rcr"});
  add("arch", std::vector<std::string>{"gfx950:sramecc+:xnack-", "gfx950"});
  add("kernel_name", std::vector<std::string>{kKernel, kKernel});
  for (const std::string name : {"m", "n", "k"}) add(name, std::vector<std::int64_t>{64, 32});
  add("split_k", std::vector<std::int64_t>{1, 1});
  add("measured_tflops", std::vector<double>{1.5, 0});
  add("latency_ms", std::vector<double>{0.02, 0});
  add("is_valid", std::vector<std::int64_t>{1, 0}, ColumnType::boolean);
  add("hw_num_cus", std::vector<std::int64_t>{304, 304});
  add("hw_l1_cache_kb", std::vector<double>{32, 32});
  const Imported imported = read_as(Op::gemm);
  ASSERT_EQ(imported.table.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(imported.table.rows[0].measured.time_us, 20);
  EXPECT_EQ(imported.table.rows[1].measured.status, Status::unsupported);
  EXPECT_EQ(imported.table.problems[0].gemm(), make_gemm(64, 64, 64, DType::fp8));
  EXPECT_EQ(imported.table.configs.size(), 1u);
  EXPECT_EQ(imported.table.configs[0]["pad_m"], 1) << "pipeline mem";
  EXPECT_EQ(imported.table.device.cores, 304) << "the file knows better than the preset";
  EXPECT_EQ(imported.table.device.l1_bytes, 32768);
}

TEST_F(Converted, ConvolutionsWithWhatIsMissingAndWhatContradicts) {
  const std::string kernel = "grouped_conv_forward_bf16_2d_16x64x64_compv3";
  add("kernel_name", std::vector<std::string>{kernel, kernel});
  add("variant", std::vector<std::string>{"forward", "bwd_data"});
  for (const std::string name : {"N", "C", "K", "Hi", "Wi"}) add(name, std::vector<std::int64_t>{64, 64});
  for (const std::string name : {"Y", "X"}) add(name, std::vector<double>{3, 3});
  add("dilation_h", std::vector<double>{2, 2});
  add("Di", std::vector<double>{Measurement::unknown, Measurement::unknown});
  add("tflops", std::vector<double>{100, 100});
  const Imported imported = read_as(Op::conv_fwd);
  ASSERT_EQ(imported.table.rows.size(), 1u);
  EXPECT_EQ(print(imported.table.problems[0]), "conv_fwd:64x64x64x64:64x3x3:bf16:nhwgc:dilation_h=2");
  ASSERT_EQ(imported.skipped_count, 1u);
  EXPECT_EQ(imported.skipped[0].line, 2u);
  EXPECT_NE(imported.skipped[0].reason.find("bwd_data"), std::string::npos);
  add("hw_num_cus", std::vector<std::int64_t>{256, 300});
  EXPECT_NE(read_as(Op::conv_fwd).skipped[0].reason.find("variant"), std::string::npos);
}

TEST(Import, ReadsTheBenchmarkJsonWithMetadataBehindResults) {
  const std::string results =
      "\"results\": [{\"kernel_config\": {\"name\": \"" + kKernel +
      "\"}, \"benchmarks\": [{\"m\": 64, \"n\": 64, \"k\": 64, \"avg_time_ms\": 0.01, \"tflops\": 1, "
      "\"is_valid\": true}, {\"m\": 32, \"n\": 64, \"k\": 64, \"avg_time_ms\": 0, \"is_valid\": false}]}]";
  const std::string metadata = "\"metadata\": {\"dtype\": \"fp8\", \"layout\": \"rcr\", \"repeat\": 50}";
  for (const std::string& text :
       {"{" + metadata + "," + results + "}", "{" + results + "," + metadata + "}"}) {
    const auto imported = read(text, ImportFormat::ck_json, Op::gemm, DType::fp16);
    ASSERT_EQ(imported.table.rows.size(), 2u);
    EXPECT_EQ(imported.table.rows[0].measured.repeats, 50);
    EXPECT_EQ(imported.table.rows[0].measured.status, Status::ok);
    EXPECT_EQ(imported.table.rows[1].measured.status, Status::unsupported);
    EXPECT_EQ(imported.table.problems.front().gemm().dtype_a, DType::fp8);
  }
  expect_error(Errc::corrupt_data, "no JSON",
               [] { read("{\"results\": [", ImportFormat::ck_json, Op::gemm); });
}

TEST(Import, ReadsProfilerLinesUnderTheirProblems) {
  const auto imported = read(
      "Perf: 0.5 ms, before_any_problem\n"
      "conv_fwd:1x64x8x8:64x1x1:bf16:nhwgc\n"
      "Perf: 0.004 ms, 12 TFlops, 3 GB/s, grouped_conv_forward_bf16_2d_16x64x64_compv3\n"
      "Perf: soon\n",
      ImportFormat::ck_profiler, Op::conv_fwd);
  ASSERT_EQ(imported.table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(imported.table.rows.front().measured.time_us, 4);
  EXPECT_EQ(imported.skipped_count, 2u);
}

TEST(Import, ReadsProfilerLinesAsTheProgramWritesThem) {
  // Times are right-aligned in ten columns; the forms are those of the classic profiler, of its CK Tile
  // algorithms and of the dispatcher's.
  const std::string name = "grouped_conv_forward_bf16_2d_";
  const std::string full = "grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_2x2x1_16x16x32";
  const auto imported = read(
      "conv_fwd:1x64x8x8:64x1x1:bf16:nhwgc\n"
      "Perf:      0.004 ms, " +
          name +
          "16x64x64_compv3\n"
          "Perf:   0.00512 ms, 12.5 TFlops, 3 GB/s, " +
          name +
          "32x64x64_compv3\n"
          "[Valid] Perf:     0.006 ms, 12 TFlops, 3 GB/s, " +
          name +
          "64x64x64_compv3 (instance 7)\n"
          "Perf:   7.5e-03 ms, 12 TFlops, 3 GB/s, " +
          full +
          ", SplitK 4\n"
          "Perf:      0.008 ms, 12 TFlops, 3 GB/s, " +
          full +
          ", SplitK 1\n"
          "[Not supported] " +
          name +
          "64x64x64_compv4\n"
          "Perf:      0.001 ms, " +
          name +
          "128x64x64_compv3\n"
          "Number of incorrect values: 64 Is all zero:1 max err: 3\n",
      ImportFormat::ck_profiler, Op::conv_fwd);
  EXPECT_EQ(imported.skipped_count, 0u);
  const auto& table = imported.table;
  ASSERT_EQ(table.rows.size(), 7u);
  const std::vector<double> us = {4, 5.12, 6, 7.5, 8};
  for (std::size_t i = 0; i < us.size(); ++i) EXPECT_DOUBLE_EQ(table.rows[i].measured.time_us, us[i]) << i;
  EXPECT_EQ(table.configs[table.rows[3].config]["split_k"], 4);
  EXPECT_EQ(table.configs[table.rows[4].config]["split_k"], 1);
  EXPECT_EQ(table.rows[5].measured.status, Status::unsupported);
  EXPECT_EQ(table.rows[6].measured.status, Status::unsupported) << "its results are wrong";
}

TEST(Import, SkipsProfilerLinesOfOtherLibrariesWithTheirWholeName) {
  const auto imported = read(
      "conv_fwd:1x64x8x8:64x1x1:bf16:nhwgc\n"
      "Perf:      0.004 ms, 12 TFlops, 3 GB/s, DeviceGroupedConvFwd<256, 128, 64, Default>\n"
      "Perf:      0.004 ms, grouped_conv_forward_bf16_2d_16x64x64_compv3, Grid_size 304, streamk 1\n"
      "Perf:      0.005 ms, grouped_conv_forward_bf16_2d_16x64x64_compv3\n"
      "Perf:      0.004 ms\n"
      "Best Perf:  0.005 ms, 3 GB/s, grouped_conv_forward_bf16_2d_16x64x64_compv3\n",
      ImportFormat::ck_profiler, Op::conv_fwd);
  EXPECT_EQ(imported.table.rows.size(), 1u);
  EXPECT_EQ(imported.repeated, 1u) << "the summary repeats the best";
  ASSERT_EQ(imported.skipped_count, 3u);
  EXPECT_NE(imported.skipped[0].reason.find("DeviceGroupedConvFwd<256, 128, 64, Default>"),
            std::string::npos);
  EXPECT_NE(imported.skipped[1].reason.find("'Grid_size 304, streamk 1'"), std::string::npos);
  EXPECT_EQ(imported.skipped[2].line, 5u);
}

const std::string kFindDb =
    "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F="
    "ConvAsm1x1U:0.25,0,miopenConvolutionFwdAlgoDirect;GemmFwd1x1_0_1:0.5,1024,miopenConvolutionFwdAlgoGEMM\n"
    "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-B="
    "GemmBwd1x1_stride1:0.5,0,miopenConvolutionBwdDataAlgoGEMM\n"
    "16-5-4-3x3-8-9-7-2-1x1-2x2-1x1-0-NCHW-FP32-B=GemmBwdRest:0.5,0,miopenConvolutionBwdDataAlgoGEMM\n"
    "16-5-4-3x3-8-9-7-2-1x1-2x2-1x1-0-NCHW-FP32-W=GemmWrwUniversal:0.5,0,"
    "miopenConvolutionBwdWeightsAlgoGEMM\n"
    "16-8-14-14-3x3x3-32-4-7-7-2-1x1x1-2x2x2-1x1x1-0-NCDHW-FP16-F_g4="
    "ConvDirectNaiveConvFwd:0.125,0,miopenConvolutionFwdAlgoDirect\n"
    "8-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NHWC-NHWC-NHWC-FP32-F="
    "ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC:0.01,0,miopenConvolutionFwdAlgoImplicitGEMM\r\n";

TEST(Import, ReadsMiopensFindDatabaseInOneDirection) {
  const auto imported = read(kFindDb, ImportFormat::miopen_find_db, Op::conv_fwd);
  ASSERT_EQ(imported.table.problems.size(), 3u);
  EXPECT_EQ(print(imported.table.problems[0]), "conv_fwd:32x64x28x28:256x1x1:fp32:ngchw");
  EXPECT_EQ(print(imported.table.problems[1]),
            "conv_fwd:2x16x8x14x14:32x3x3x3:fp16:ngcdhw:stride=2:pad=1:g=4");
  EXPECT_EQ(print(imported.table.problems[2]), "conv_fwd:1x8x9x9:8x3x3:fp32:nhwgc:pad=1");
  ASSERT_EQ(imported.table.rows.size(), 4u);
  EXPECT_DOUBLE_EQ(imported.table.rows[0].measured.time_us, 250);
  EXPECT_DOUBLE_EQ(imported.table.rows[1].measured.workspace_bytes, 1024);
  const KernelConfig& gemm = imported.table.configs[1];
  EXPECT_EQ(config_name(signature_of(imported.table.problems[0]), gemm),
            "miopen_conv_fwd_fp32_ngchw__GemmFwd1x1_0_1");
  EXPECT_EQ(axis_value_text(gemm.space->axes[1], gemm["algorithm"]), "GEMM");
  EXPECT_EQ(imported.skipped_count, 0u);
  // Backward lines begin with the output's gradient.
  const auto data = read(kFindDb, ImportFormat::miopen_find_db, Op::conv_bwd_data);
  ASSERT_EQ(data.table.problems.size(), 2u);
  EXPECT_EQ(print(data.table.problems[0]), "conv_bwd_data:32x256x28x28:64x1x1:fp32:ngchw");
  EXPECT_EQ(print(data.table.problems[1]), "conv_bwd_data:2x8x9x7:16x3x3:fp32:ngchw:stride=2:pad=1");
  const auto weight = read(kFindDb, ImportFormat::miopen_find_db, Op::conv_bwd_weight);
  ASSERT_EQ(weight.table.problems.size(), 1u);
  EXPECT_EQ(print(weight.table.problems[0]), "conv_bwd_weight:2x8x9x7:16x3x3:fp32:ngchw:stride=2:pad=1");
}

TEST(Import, TypesAndLayoutsOfAFindDatabaseCanBeChosen) {
  const TextFile file(kFindDb);
  ImportRequest request{.from = ImportFormat::miopen_find_db, .op = Op::conv_fwd, .only_dtype = DType::fp32};
  request.device = device_preset("gfx90a");
  EXPECT_EQ(import_file(file.path(), request).table.problems.size(), 2u);
  request.layout = Layout::nhwgc;
  EXPECT_EQ(import_file(file.path(), request).table.problems.size(), 1u);
}

TEST(Import, TheNameOfAFindDatabaseSaysHowManyComputeUnits) {
  const struct {
    const char* name;
    double cores;
  } kNames[] = {{"gfx90a68.HIP.fdb.txt", 104},
                {"gfx90a_60.HIP.fdb.txt", 60},
                {"gfx90a.txt", 110},
                {"mine.ufdb.txt", 110}};
  const test::TemporaryFolder folder;
  ImportRequest request{.from = ImportFormat::miopen_find_db, .op = Op::conv_fwd};
  request.device = device_preset("gfx90a");
  for (const auto& one : kNames) {
    write_file_atomically(folder / one.name, kFindDb);
    EXPECT_EQ(import_file(folder / one.name, request).table.device.cores, one.cores) << one.name;
  }
}

std::vector<std::string> rule_names(const std::vector<Family>& families, Layout layout) {
  std::vector<std::string> names;
  for (const Family& family : families) {
    if (family.signature.layout != layout) continue;
    for (const Rule& rule : family.applicability) names.push_back(rule.name);
  }
  return names;
}

TEST(Import, ModelsOfAFindDatabaseKnowWhichProblemsASolverTakes) {
  ImportRequest request{.from = ImportFormat::miopen_find_db, .op = Op::conv_fwd, .only_dtype = DType::fp32};
  request.device = device_preset("gfx90a");
  MeasurementTable table = import_file(TextFile(kFindDb).path(), request).table;
  const auto families = families_of(test::compact({&table, 1}));
  const Problem of_3x3 = parse_any_problem("conv_fwd:1x64x28x28:256x3x3:fp32:ngchw:pad=1");
  const auto family = std::ranges::find(families, signature_of(of_3x3), &Family::signature);
  ASSERT_NE(family, families.end());
  std::vector<std::uint8_t> takes;
  applicable_configs(*family, of_3x3, takes);
  for (std::size_t i = 0; i < takes.size(); ++i) {
    const std::string name = config_name(family->signature, family->configs[i]);
    EXPECT_EQ(takes[i] != 0, name.find("1x1") == std::string::npos) << name;
  }
  // A run is stronger than a rule.
  EXPECT_EQ(std::ranges::count(rule_names(families, Layout::nhwgc), "pointwise"), 1);
  ASSERT_EQ(print(table.problems.back()), "conv_fwd:1x8x9x9:8x3x3:fp32:nhwgc:pad=1");
  MeasurementTable::Row run = table.rows.back();
  run.config = 0;
  ASSERT_EQ(axis_value_text(table.configs[0].space->axes[0], table.configs[0]["solver"]), "ConvAsm1x1U");
  table.rows.push_back(run);
  const auto of_both = families_of(test::compact({&table, 1}));
  EXPECT_EQ(std::ranges::count(rule_names(of_both, Layout::nhwgc), "pointwise"), 0);
  EXPECT_EQ(std::ranges::count(rule_names(of_both, Layout::ngchw), "pointwise"), 1);
}

TEST(Import, CountsMalformedLinesOfAFindDatabase) {
  const std::string problem = "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F";
  const auto imported =
      read(kFindDb + "no key\n" + problem + "=ConvAsm1x1U:0.25\n" + problem + "=ConvAsm1x1U:soon,0,x\n" +
               problem + "=ConvOfTomorrow:0.1,0,x;ConvAsm1x1UV2:0,0,x\n" +
               "64-28-28-1x1-256-27-28-32-0x0-1x1-1x1-0-NCHW-FP32-F=ConvAsm1x1U:1,0,x\n" +
               "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-NHWC-NCHW-FP32-F=ConvAsm1x1U:1,0,x\n" +
               "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP64-F=ConvAsm1x1U:1,0,x\n" +
               "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-1-NCHW-FP32-F=ConvAsm1x1U:1,0,x\n" + "64-28-28=x\n",
           ImportFormat::miopen_find_db, Op::conv_fwd);
  EXPECT_EQ(imported.table.rows.size(), 4u);
  std::vector<std::string> reasons;
  for (const Skipped& one : imported.skipped) reasons.push_back(std::to_string(one.line) + " " + one.reason);
  const char* const expected[] = {"7 no '='",
                                  "8 'ConvAsm1x1U:0.25': expected SOLVER",
                                  "9 milliseconds",
                                  "10 unknown solver 'ConvOfTomorrow'",
                                  "10 a valid row without a time above 0",
                                  "11 an output of 1x27x28",
                                  "12 layouts NCHW, NHWC and NCHW differ",
                                  "13 unknown type 'FP64'",
                                  "14 bias '1'",
                                  "15 3 parts"};
  ASSERT_EQ(reasons.size(), std::size(expected));
  for (std::size_t i = 0; i < reasons.size(); ++i)
    EXPECT_TRUE(reasons[i].starts_with(expected[i])) << reasons[i];
}

TEST(Import, ReadsACompressedFindDatabase) {
  using namespace std::string_literals;
  // The first line of kFindDb, as bzip2 writes it.
  const std::string compressed =
      "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x8b\x3f\x9a\x83\x00\x00\x1b\xdf\x80\x00\x10\x00\x07\x7f"
      "\x5a\x2f\xc3\x42\x80\x8e\xa7\xdf\xc0\x20\x00\x75\x0d\x50\x68\x00\xd0\xf5\x00\x32\x34\x0d\x1a\x02"
      "\x48\xa9\xfa\xa6\x86\x9e\xa6\x86\x86\x46\x80\x00\x3d\x25\x94\x94\x18\xb1\xb3\xc9\xdb\x2c\x9c\xc3"
      "\x75\x0a\x92\xf9\x67\x38\x3e\x04\xec\x3a\xef\xce\xb2\xb8\x17\x1a\xb3\x43\x69\xd4\xe0\x09\x2f\x33"
      "\x94\x7b\xae\x3d\x05\xaa\x90\x46\x06\x46\x89\x54\x13\x1f\x66\xd1\xc7\xcd\x30\xec\x0c\x16\x8a\x82"
      "\xd6\x08\x4e\x3c\x92\x50\x8f\xc5\xc4\xcb\x53\x10\x36\x49\xde\x54\x6f\x56\xad\x96\x23\xf8\xbb\x92"
      "\x29\xc2\x84\x84\x59\xfc\xd4\x18"s;
  EXPECT_EQ(read(compressed, ImportFormat::miopen_find_db, Op::conv_fwd).table.rows.size(), 2u);
  expect_error(Errc::corrupt_data, "cannot be decompressed",
               [&] { read(compressed.substr(0, 100), ImportFormat::miopen_find_db, Op::conv_fwd); });
}

TEST(Import, ASmallCompressedFileDoesNotBecomeALargeText) {
  using namespace std::string_literals;
  // 65 MiB of '0', as bzip2 writes them.
  const std::string bomb =
      "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\xe8\xb7\xa6\x0f\x01\x5f\x8e\x08\x00\xc0\x00\x00\x08\x20"
      "\x00\x30\x80\x4d\x46\x42\xa0\x25\xa9\x0a\x80\x97\x31\x41\x59\x26\x53\x59\x85\xc6\xcb\x1c\x00\xaa"
      "\x7d\xa8\x00\xc0\x00\x40\x00\x00\x08\x20\x00\x30\xcc\x09\xaa\x69\xd5\x84\x14\x92\xda\x84\x14\x92"
      "\xf1\x77\x24\x53\x85\x09\x05\x4a\x98\x70\x30"s;
  expect_error(Errc::corrupt_data, "become more than 67108864 when decompressed",
               [&] { read(bomb, ImportFormat::miopen_find_db, Op::conv_fwd); });
}

}  // namespace
}  // namespace kscout
