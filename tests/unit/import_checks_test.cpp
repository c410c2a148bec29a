// Tests what an import refuses or counts as failed: times, results and files that cannot be right.
#include <string>

#include <gtest/gtest.h>

#include "core/files.h"
#include "import/import.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

using test::expect_error;

Imported imported_from(const std::string& text, ImportFormat from, Op op) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "text", text);
  ImportRequest request{.from = from, .op = op, .dtype = DType::bf16};
  request.device = device_preset("gfx950");
  return import_file(folder / "text", request);
}

const std::string kConvolutions =
    "kernel,problem_idx,N,C,K,G,Hi,Wi,Y,X,stride_h,stride_w,pad_h,pad_w,latency_ms,tflops,non_zero\n";

const std::string kGemmKernel =
    "gemm_universal_fp8_rcr_mem_cshuffle_intrawave_False_False_False_False_128x128x128_1x4x1_16x16x128";

/// Column non_zero counts the elements of the result that differ from 0.
TEST(Import, RowsWhoseResultIsAllZerosAreFailedRows) {
  const std::string kernel = "grouped_conv_forward_bf16_2d_16x64x64_compv3",
                    other = "grouped_conv_forward_bf16_2d_32x64x64_compv4",
                    sizes = ",0,1,64,64,1,8,8,1,1,1,1,0,0,";
  for (const std::string zeros : {"0", "0.0", "False"}) {
    SCOPED_TRACE(zeros);
    const auto imported = imported_from(kConvolutions + kernel + sizes + "0.001,1," + zeros + "\n" + other +
                                            sizes + "0.01,1,4096\n" + other + sizes + "0.02,1,\n",
                                        ImportFormat::ck_csv, Op::conv_fwd);
    ASSERT_EQ(imported.table.rows.size(), 2u);
    EXPECT_EQ(imported.table.rows[0].measured.status, Status::unsupported);
    EXPECT_EQ(imported.table.rows[1].measured.status, Status::ok);
  }
}

/// The peak of gfx950 in bf16 is 2,517 TFLOPS; the first row means 33,910.
TEST(Import, SkipsTimesThatMeanMoreThanTheDevicesPeak) {
  const std::string kernel = "grouped_conv_forward_bf16_2d_16x64x64_compv3,0,";
  const std::string sizes = "64,256,256,1,56,56,3,3,1,1,1,1,";
  for (const std::string time : {"0.00698,33910", "1e-303,1", "1e-10,1", "5e-324,1"}) {
    const auto imported =
        imported_from(kConvolutions + kernel + sizes + time + ",1\n" + kernel + sizes + "0.2,1183,1\n",
                      ImportFormat::ck_csv, Op::conv_fwd);
    ASSERT_EQ(imported.table.rows.size(), 1u) << time;
    EXPECT_DOUBLE_EQ(imported.table.rows[0].measured.time_us, 200);
    ASSERT_EQ(imported.skipped_count, 1u);
    EXPECT_EQ(imported.skipped[0].line, 2u);
    EXPECT_NE(imported.skipped[0].reason.find(time.starts_with("0.") ? "reaches at most 2768 with bf16"
                                                                     : "no kernel takes less than"),
              std::string::npos)
        << imported.skipped[0].reason;
  }
}

TEST(Import, BenchmarksOfTheJsonNameWhatTheyLack) {
  const struct {
    std::string_view change, to, says;
  } kCases[] = {
      {"\"k\": 64, ", "", "a benchmark without 'k', a whole number"},
      {"\"k\": 64", "\"k\": \"64\"", "a benchmark whose 'k' is \"64\", not a whole number"},
      {"\"avg_time_ms\": 0.01, ", "", "a benchmark without 'avg_time_ms', a number"},
      {"\"is_valid\": true", "\"is_valid\": 1", "a benchmark whose 'is_valid' is 1, not true or false"},
      {"\"kernel_name\"", "\"kernel\"", "a benchmark without 'kernel_name', a text"},
  };
  const std::string bench = "{\"kernel_name\": \"" + kGemmKernel +
                            "\", \"m\": 64, \"n\": 64, \"k\": 64, \"avg_time_ms\": 0.01, \"is_valid\": true}";
  for (const auto& one : kCases) {
    std::string bad = bench;
    const std::size_t at = bad.find(one.change);
    ASSERT_NE(at, std::string::npos) << one.change;
    bad.replace(at, one.change.size(), one.to);
    const auto imported = imported_from(
        "{\"metadata\": {\"dtype\": \"fp8\"}, \"results\": [{\"benchmarks\": [" + bench + ", " + bad + "]}]}",
        ImportFormat::ck_json, Op::gemm);
    EXPECT_EQ(imported.table.rows.size(), 1u);
    ASSERT_EQ(imported.skipped_count, 1u) << one.says;
    EXPECT_EQ(imported.skipped[0].reason, one.says);
  }
  std::string zeros = bench;
  zeros.insert(1, "\"non_zero\": 0, ");
  const auto imported =
      imported_from("{\"metadata\": {\"dtype\": \"fp8\"}, \"results\": [{\"benchmarks\": [" + zeros + "]}]}",
                    ImportFormat::ck_json, Op::gemm);
  EXPECT_EQ(imported.table.rows.at(0).measured.status, Status::unsupported);
}

TEST(Import, TheNameOfAFindDatabaseSaysWhichGpuWasMeasured) {
  const test::TemporaryFolder folder;
  const auto named = [&](const std::string& name, const std::string& device) {
    const auto file = folder / name;
    write_file_atomically(file,
                          "64-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F="
                          "ConvAsm1x1U:0.25,0,miopenConvolutionFwdAlgoDirect\n");
    ImportRequest request{.from = ImportFormat::miopen_find_db, .op = Op::conv_fwd};
    request.device = device_preset(device);
    return import_file(file, request).table.rows.size();
  };
  EXPECT_EQ(named("gfx90a68.HIP.fdb.txt", "gfx90a"), 1u);
  EXPECT_EQ(named("mine.ufdb.txt", "gfx90a"), 1u);
  for (const std::string name : {"gfx1030_36.HIP.fdb.txt", "gfx90878.HIP.fdb.txt", "gfx942130.HIP.fdb.txt"}) {
    expect_error(Errc::invalid_argument, "the name says that a GPU 'gfx", [&] { named(name, "gfx90a"); });
  }
}

}  // namespace
}  // namespace kscout
