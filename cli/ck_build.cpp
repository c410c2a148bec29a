// `kscout sweep --ck-build`: sweeps with CK Tile's own benchmark executables.
#include "provider/ck_tile/sweep/ck_build.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "dataset/dataset.h"
#include "op/problem_sets.h"
#include "options.h"
#include "progress_line.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct CkBuildVerb {
  CkBuildFlags build;
  std::vector<std::string> problems;
  DType dtype = DType::fp16;
  Layout layout = Layout::rcr;
  std::size_t max_configs = 0;
  CkSweepOptions how;
  std::string out;
  Format format = Format::text;
};

void sweep_build(CkBuildVerb options) {
  constexpr std::size_t kShown = 10;
  if (options.problems.empty() || options.out.empty() || options.build.device.empty())
    fail(Errc::invalid_argument, "--ck-build needs --problems SET or FILE, --out DIR and --device PRESET");
  auto kernels = find_ck_kernels({options.build.folder, options.dtype, options.layout});
  if (options.max_configs > 0 && kernels.size() > options.max_configs) kernels.resize(options.max_configs);
  const auto problems = merge_equal(any_problems_of(options.problems, options.dtype, {options.layout}));
  for (const Problem& problem : problems) {
    if (problem.op() != Op::gemm)
      fail(Errc::invalid_argument,
           "--ck-build: {} is no GEMM, and CK builds such executables for GEMMs only; kscout sweep --compile "
           "generates, compiles and measures kernels of other operations",
           print(problem));
  }
  options.how.out = options.out;
  options.how.verify = options.build.verify;
  options.how.device = device_named(options.build.device);
  options.how.build = options.build.folder;
  if (options.how.jobs)
    fmt::print(stderr, "kscout sweep: ninja builds the missing of {} programs; its output: {}\n",
               kernels.size(), (options.how.out / "build.log").string());
  ProgressLine line("sweep");
  options.how.progress = [&](std::size_t done, std::size_t all) {
    if (line.due())
      line(fmt::format("{} of {} runs", done, all), static_cast<double>(done) / static_cast<double>(all));
  };
  const CkSweepReport report = sweep_ck_build(kernels, problems, options.how);
  const auto file = options.how.out / "measurements.parquet";
  write_dataset(file, report.table);
  Table table({"kernels", "problems", "built", "ran", "kept", "failed", "dataset"});
  const auto count = [](std::size_t value) { return number(static_cast<std::int64_t>(value)); };
  table.add_row({count(kernels.size()), count(problems.size()), count(report.built), count(report.ran),
                 count(report.kept), count(report.failures.size()), text(file.string())});
  table.print(options.format);
  if (report.problems_without_kernel > 0)
    fmt::print(stderr, "kscout sweep: left out: problems without a kernel in the build: {}\n",
               report.problems_without_kernel);
  for (std::size_t i = 0; i < std::min(kShown, report.failures.size()); ++i)
    fmt::print(stderr, "{}\n", report.failures[i]);
  if (report.failures.size() > kShown)
    fmt::print(stderr, "... and {} more in runs.jsonl\n", report.failures.size() - kShown);
}

}  // namespace

void setup_sweep_ck_build(CLI::App& verb) {
  const auto options = std::make_shared<CkBuildVerb>();
  options->build.add_to(verb);
  verb.add_option("--problems", options->problems, "a problem set or a file of problems; repeatable");
  add_word_option(verb, "--dtype", options->dtype, "element type of the build's kernels");
  add_word_option(verb, "--layout", options->layout, "layout of the build's kernels");
  verb.add_option("--out", options->out, "folder of the sweep; a second run continues it");
  verb.add_option("--warmup", options->how.warmup, "untimed calls of each run")
      ->capture_default_str()
      ->check(CLI::Range(0, 100000));
  verb.add_option("--repeat", options->how.repeat, "timed calls of each run")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  verb.add_option("--timeout", options->how.limit_s, "seconds that one run may take")
      ->capture_default_str()
      ->check(above_zero(), "POSITIVE");
  verb.add_option("--max-configs", options->max_configs, "measure only the first N kernels; 0 = all")
      ->capture_default_str();
  verb.add_option("--jobs", options->how.jobs,
                  "build the missing programs with ninja first, this many at once (0: one per core)");
  add_format_option(verb, options->format);
  verb.callback([options] { sweep_build(*options); });
}

}  // namespace kscout::cli
