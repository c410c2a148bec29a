// Tests the import of foreign texts that are cut at any place, or begin with a byte-order mark.
#include <cmath>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/provider.h>

#include "core/files.h"
#include "import/import.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

struct Sample {
  ImportFormat from;
  Op op;
  std::string text;
};

std::string log_block(const char* sizes, const char* ms) {
  return fmt::format(
      "{{\n \"name\": "
      "\"gemm_universal_fp8_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x128_1x4x1_"
      "16x16x128\",\n"
      " \"problem\": {{{}, \"split_k\": 1, \"dtype_a\": \"fp8\", \"layout_a\": \"RowMajor\", "
      "\"layout_b\": \"ColumnMajor\", \"layout_c\": \"RowMajor\"}},\n"
      " \"perf_result\": {{\"latency(ms)\": {}, \"tflops(TFlops)\": 1.5, \"bandwidth(GB/s)\": 2}}\n}}\n",
      sizes, ms);
}

const Sample kSamples[] = {
    {ImportFormat::ck_csv, Op::conv_fwd,
     "kernel,problem_idx,N,C,K,G,Hi,Wi,Y,X,stride_h,stride_w,pad_h,pad_w,tflops,latency_ms\n"
     "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,1,128,256,1,32,32,2,2,2,2,0,0,8.4,0.0085\n"
     "grouped_conv_forward_bf16_2d_32x64x64_compv4,0,1,128,256,1,32,32,2,2,2,2,0,0,9.8,0.0073\r\n"
     "grouped_conv_forward_bf16_2d_32x64x64_compv4,0,1,128,256,1,64,64,2,2,2,2,0,0,9.8,0.0273\n"},
    {ImportFormat::ck_csv, Op::conv_fwd,
     "N,C,K,Hi,Wi,Y,X,latency_ms,kernel\n"
     "1,128,256,32,32,2,2,0.25,grouped_conv_forward_bf16_2d_16x64x64_compv3_intrawave\n"
     "1,128,256,32,32,2,2,0.5,grouped_conv_forward_bf16_2d_16x64x64_compv4\n"},
    {ImportFormat::ck_profiler, Op::conv_fwd,
     "conv_fwd:1x64x8x8:64x1x1:bf16:nhwgc:g=16\n"
     "Perf:      0.004 ms, 12 TFlops, 3 GB/s, grouped_conv_forward_bf16_2d_16x64x64_compv3_intrawave\n"
     "Perf:      0.005 ms, grouped_conv_fwd_bf16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_2x2x1_16x16x32, "
     "SplitK 16\n"
     "conv_fwd:1x64x8x8:64x3x3:bf16:nhwgc:pad=1\n"
     "Perf:      0.006 ms, grouped_conv_forward_bf16_2d_32x64x64_compv3\n"},
    {ImportFormat::miopen_find_db, Op::conv_fwd,
     "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F="
     "ConvAsm1x1U:0.25,0,miopenConvolutionFwdAlgoDirect;GemmFwd1x1_0_1:0.5,1024,"
     "miopenConvolutionFwdAlgoGEMM\n"
     "16-8-14-14-3x3x3-32-4-7-7-2-1x1x1-2x2x2-1x1x1-0-NCDHW-FP16-F_g4="
     "ConvDirectNaiveConvFwd:0.125,0,miopenConvolutionFwdAlgoDirect\r\n"},
    {ImportFormat::ck_log, Op::gemm,
     "Shape 0: M=64 N=128 K=256 dtype=fp8 layout=rcr\nFound 1 kernels\n" +
         log_block(R"("m": 64, "n": 128, "k": 256)", "0.02") +
         "Shape 1: M=64 N=128 K=4096 dtype=fp8 layout=rcr\nFound 1 kernels\n" +
         log_block(R"("m": 64, "n": 128)", "0.25")},
};

/// Problem, kernel, status and time.
using Row = std::tuple<std::string, std::string, int, double, double>;

struct Read {
  std::set<Row> rows;
  std::size_t skipped = 0;
};

Read read(const Sample& sample, std::string_view text) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "text", text);
  ImportRequest request{.from = sample.from, .op = sample.op, .dtype = DType::bf16};
  request.device = device_preset("gfx950");
  Read done;
  try {
    const Imported imported = import_file(folder / "text", request);
    const MeasurementTable& table = imported.table;
    done.skipped = imported.skipped_count;
    for (const auto& row : table.rows) {
      const Problem& problem = table.problems[row.problem];
      const Measurement& measured = row.measured;
      done.rows.emplace(print(problem), config_name(signature_of(problem), table.configs[row.config]),
                        static_cast<int>(measured.status), measured.time_us,
                        std::isnan(measured.workspace_bytes) ? -1 : measured.workspace_bytes);
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_data) << error.what();
  }
  return done;
}

TEST(ImportCut, NoRowAppearsThatTheWholeFileLacks) {
  for (const Sample& sample : kSamples) {
    const Read whole = read(sample, sample.text);
    EXPECT_EQ(whole.skipped, 0u);
    EXPECT_GE(whole.rows.size(), 2u) << sample.text;
    for (std::size_t length = 0; length < sample.text.size(); ++length) {
      const std::string_view text = std::string_view(sample.text).substr(0, length);
      const Read cut = read(sample, text);
      for (const Row& row : cut.rows)
        EXPECT_TRUE(whole.rows.contains(row)) << "cut to " << length << ": " << std::get<0>(row) << " "
                                              << std::get<1>(row) << " " << std::get<3>(row);
      // A file of which nothing can be read is an error, which has no count. In a log of blocks, a brace ends
      // a measurement, and other lines hold none.
      const bool counted =
          cut.rows.empty() || text.ends_with('\n') || cut.skipped == 1 || sample.from == ImportFormat::ck_log;
      EXPECT_TRUE(counted) << "cut to " << length << ", uncounted: " << text.substr(text.rfind('\n') + 1);
    }
  }
}

TEST(ImportCut, AByteOrderMarkIsNoText) {
  for (const Sample& sample : kSamples)
    EXPECT_EQ(read(sample, "\xEF\xBB\xBF" + sample.text).rows, read(sample, sample.text).rows) << sample.text;
}

TEST(ImportCut, ALastLineWithoutItsEndSaysSo) {
  const test::TemporaryFolder folder;
  const Sample& sample = kSamples[1];
  write_file_atomically(folder / "text", sample.text.substr(0, sample.text.size() - 1));
  ImportRequest request{.from = sample.from, .op = sample.op, .dtype = DType::bf16};
  request.device = device_preset("gfx950");
  const Imported imported = import_file(folder / "text", request);
  ASSERT_EQ(imported.skipped_count, 1u);
  EXPECT_EQ(imported.skipped[0].line, 3u);
  EXPECT_EQ(imported.skipped[0].reason, "the last line has no line end, so it may be cut short");
}

}  // namespace
}  // namespace kscout
