// Measures speed and memory of reading a streaming log.
//
//   import [MEGABYTES]        1024 without an argument
//
// Writes a log of that size in the form of CK Tile's streaming benchmarks (4,608 kernels a shape), reads it,
// removes it.
#include "import/import.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>

#include <kscout/error.h>

#include "support/temporary_folder.h"

namespace {

using namespace kscout;

constexpr int kKernels = 4608;

std::string kernel_name(int i) {
  constexpr int kTiles[] = {32, 64, 128, 256};
  constexpr const char* kFlags[] = {"False", "True"};
  return fmt::format("gemm_universal_fp8_rcr_compv3_cshuffle_{}wave_{}_{}_{}_{}_{}x{}x{}_{}x{}x1_16x16x{}",
                     i & 1 ? "intra" : "inter", kFlags[i >> 1 & 1], kFlags[i >> 2 & 1], kFlags[i >> 3 & 1],
                     kFlags[i >> 4 & 1], kTiles[i >> 5 & 3], kTiles[i >> 7 & 3], kTiles[i >> 9 & 3],
                     1 << (i >> 11 & 1), 1, 64 << (i >> 12 & 1));
}

void write_log(const std::filesystem::path& file, std::size_t bytes) {
  std::ofstream out(file, std::ios::binary);
  std::size_t written = 0;
  for (int shape = 0; written < bytes; ++shape) {
    const int m = 16 * (shape + 1);
    std::string text = fmt::format("Shape {}: M={} N=4096 K=4096 dtype=fp8 layout=rcr\nFound {} kernels\n",
                                   shape, m, kKernels);
    for (int i = 0; i < kKernels; ++i) {
      text += fmt::format(
          "{{\n \"name\": \"{}\",\n \"problem\": {{\n  \"split_k\": 1,\n  \"m\": {},\n  \"n\": 4096,\n  "
          "\"k\": 4096,\n  "
          "\"stride_a\": 4096,\n  \"stride_b\": 4096,\n  \"stride_c\": 4096,\n  \"dtype_a\": \"fp8\",\n  "
          "\"dtype_b\": \"fp8\",\n"
          "  \"dtype_acc\": \"fp32\",\n  \"dtype_c\": \"fp16\",\n  \"layout_a\": \"RowMajor\",\n  "
          "\"layout_b\": \"ColumnMajor\",\n"
          "  \"layout_c\": \"RowMajor\",\n  \"structured_sparsity\": false\n }},\n \"perf_result\": {{\n  "
          "\"latency(ms)\": {:.6f},\n"
          "  \"tflops(TFlops)\": {:.3f},\n  \"bandwidth(GB/s)\": {:.3f}\n }}\n}}\n",
          kernel_name(i), m, 0.01 + 0.0001 * i, 100.0 + i, 200.0 + i);
    }
    out << text;
    written += text.size();
  }
}

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t megabytes = argc > 1 ? std::stoul(argv[1]) : 1024;
  try {
    const test::TemporaryFolder folder;
    const auto file = folder / "benchmark.log";
    write_log(file, megabytes << 20);
    const double before = peak_mb();
    ImportRequest request{.from = ImportFormat::ck_log, .op = Op::gemm, .dtype = DType::fp8};
    request.device = device_preset("gfx950");
    const auto begin = std::chrono::steady_clock::now();
    const Imported imported = import_file(file, request);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double size = static_cast<double>(std::filesystem::file_size(file)) / 1e6;
    fmt::print("{:.0f} MB, {} rows, {} skipped, {:.2f} s; peak {:.0f} MB, {:.0f} MB before reading\n", size,
               imported.table.rows.size(), imported.skipped_count, seconds, peak_mb(), before);
    fmt::print("RESULT import.mb_per_second {:.1f} MB/s\n", size / seconds);
    fmt::print("RESULT import.peak_mb {:.0f} MB\n", peak_mb());
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
