#pragma once
/// \file
/// Sweeps with CK Tile's own benchmark executables: one program per kernel, one process per measurement.
///
///     const auto kernels = find_ck_kernels({.folder = "ck/build", .dtype = DType::fp16, .layout = Layout::rcr});
///     const CkSweepReport report = sweep_ck_build(kernels, problems, {.out = "sweep"});
///     write_dataset("sweep/measurements.parquet", report.table);
///
/// What a program printed is kept at once, one line in OUT/runs.jsonl; a second run goes on from there. No
/// GPU is opened here.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

namespace kscout {

struct CkBuild {
  std::filesystem::path folder;  ///< of CK's build: has bin/ and tile_engine/
  DType dtype = DType::fp16;
  Layout layout = Layout::rcr;
};

/// A kernel of the build and the program that measures it.
struct CkKernel {
  std::string name;
  std::filesystem::path program;  ///< need not exist: then its rows say so
  NamedConfig named;
};

/// The kernels that the build lists
/// (tile_engine/ops/gemm/gemm_universal/<dtype>/<layout>/gemm_universal_kernel_list.txt, one name a line;
/// what follows a blank, comma or bar is not read); without that file, every
/// bin/benchmark_gemm_universal_<dtype>_<layout>_*, by name. Throws not_found when there is none,
/// corrupt_data for a name that cannot be read.
std::vector<CkKernel> find_ck_kernels(const CkBuild& build);

struct CkSweepOptions {
  std::filesystem::path out;     ///< folder; made when absent
  int warmup = 10, repeat = 50;  ///< what each program is told
  bool verify = false;           ///< have each program check its result, too
  double limit_s = 120;          ///< of one program
  Device device = {};            ///< on which it runs: for the table
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

struct CkSweepReport {
  MeasurementTable table;
  std::size_t ran = 0, kept = 0;      ///< measured now; found in runs.jsonl
  std::vector<std::string> failures;  ///< "kernel on problem: reason", in order
};

/// Measures every kernel on every problem of its types and layout, problems one after another. How a program
/// ended decides the row: a result with time and speed is `ok`; a signal `crashed`; the limit `timeout`; a
/// failed verification `wrong`; no executable, another exit code, no result or one for another problem
/// `unsupported`. Throws corrupt_data when runs.jsonl holds a damaged line before its last, device_failure
/// when it cannot be written.
CkSweepReport sweep_ck_build(const std::vector<CkKernel>& kernels, const std::vector<GemmProblem>& problems,
                             const CkSweepOptions& options);

/// What the output of one of these programs says about a problem.
struct CkResult {
  Status status = Status::unsupported;
  double time_us = Measurement::unknown;
  std::string reason;  ///< why it is not ok
};
/// Reads the JSON from the first brace to the last; `latency(ms)` and `tflops(TFlops)` stand under
/// `perf_result`.
CkResult read_ck_output(std::string_view output, const GemmProblem& problem);

}  // namespace kscout
