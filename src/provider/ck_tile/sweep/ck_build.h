#pragma once
/// \file
/// Sweeps with CK Tile's own benchmark executables: one program per kernel, one process per measurement.
///
///     const auto kernels =
///         find_ck_kernels({.folder = "ck/build", .dtype = DType::fp16, .layout = Layout::rcr});
///     const CkSweepReport report = sweep_ck_build(kernels, problems, {.out = "sweep"});
///     write_dataset("sweep/measurements.parquet", report.table);
///
/// Appends each program's output to OUT/runs.jsonl at once, one line each; a second run continues from there.
/// This process opens no GPU. With `jobs`, ninja first builds the programs that are missing.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

namespace kscout {

struct CkBuild {
  std::filesystem::path folder;  ///< build folder of CK: contains bin/ and tile_engine/
  DType dtype = DType::fp16;
  Layout layout = Layout::rcr;
};

/// A kernel of the build and the program that measures it.
struct CkKernel {
  std::string name;
  std::filesystem::path program;  ///< need not exist: its rows are then `unsupported`
  NamedConfig named;
  std::string not_built = {};  ///< why build_ck_kernels could not make the program
};

/// Lists the kernels of the build, from
/// tile_engine/ops/gemm/gemm_universal/<dtype>/<layout>/gemm_universal_kernel_list.txt: one name a line; text
/// after a blank, comma or bar is ignored. Without that file, takes every
/// bin/benchmark_gemm_universal_<dtype>_<layout>_*, by name. Throws not_found when there is none,
/// corrupt_data for a name that cannot be read.
std::vector<CkKernel> find_ck_kernels(const CkBuild& build);

/// Builds the missing programs in the build folder with one `ninja -k 0`, `jobs` at once (0: one per core);
/// its target of a kernel is benchmark_<name>. Writes ninja's output to `log`. Returns the number of programs
/// that it built; `not_built` of the others says why. Throws not_found where there is no ninja or no
/// build.ninja.
std::size_t build_ck_kernels(const std::filesystem::path& folder, std::vector<CkKernel>& kernels,
                             unsigned jobs, const std::filesystem::path& log);

struct CkSweepOptions {
  std::filesystem::path out;          ///< output folder; created when absent
  int warmup = 10, repeat = 50;       ///< passed to each program
  bool verify = false;                ///< have each program check its result, too
  double limit_s = 120;               ///< seconds for one program
  std::filesystem::path build = {};   ///< build folder, for `jobs`
  std::optional<unsigned> jobs = {};  ///< build_ck_kernels first, with out/build.log
  Device device = {};                 ///< device that the programs run on, recorded in the table
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

struct CkSweepReport {
  MeasurementTable table;
  std::size_t ran = 0, kept = 0;            ///< measured now; found in runs.jsonl
  std::size_t built = 0;                    ///< programs that `jobs` built
  std::size_t problems_without_kernel = 0;  ///< of their type and layout in the build
  std::vector<std::string> failures;        ///< "kernel on problem: reason", in order
};

/// Measures every kernel on every problem of its types and layout, one problem after another. The end of a
/// program decides the status of the row: a result with time and speed is `ok`; a signal `crashed`; the time
/// limit `timeout`; a failed verification `wrong`; no executable, another exit code, no result or a result
/// for another problem `unsupported`. Rows of a program that was missing are measured again when it exists.
/// Throws corrupt_data when runs.jsonl holds a damaged line before its last, device_failure when it cannot be
/// written, and the errors of build_ck_kernels.
CkSweepReport sweep_ck_build(std::vector<CkKernel> kernels, const std::vector<Problem>& problems,
                             const CkSweepOptions& options);

/// The result for one problem in a benchmark program's output.
struct CkResult {
  Status status = Status::unsupported;
  double time_us = Measurement::unknown;
  std::string reason;  ///< why the status is not ok
};
/// Reads the JSON from the first brace to the last; `latency(ms)` and `tflops(TFlops)` are members of
/// `perf_result`.
CkResult read_ck_output(std::string_view output, ProblemRef problem);

}  // namespace kscout
