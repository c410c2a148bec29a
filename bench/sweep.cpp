// Measures the speed of a sweep, and the share of its time outside measuring.
//
//   bench_sweep [--rules NAME] [--problems N] [--max-gflop X] [--cache warm|cold]
//
// Workload: N problems of set `random` (log-uniform sizes, seed 1) of up to X GFLOP, all configs of the rule
// set, default protocol: verified once, pruned early, contenders measured again. One worker with all CPUs, a
// new folder each time.
#include "sweep/sweep.h"

#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include <kscout/error.h>

#include "op/gemm/gemm_sets.h"
#include "support/temporary_folder.h"

namespace {

using namespace kscout;

struct Arguments {
  std::string rules = "default";
  std::size_t problems = 60;
  double max_gflop = 0.1;
  CacheState cache = CacheState::warm;
};

Arguments parse_arguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--rules") out.rules = value;
    if (flag == "--problems") out.problems = std::stoul(value);
    if (flag == "--max-gflop") out.max_gflop = std::stod(value);
    if (flag == "--cache") out.cache = parse<CacheState>(value);
  }
  return out;
}

void print_table(const SweepPlan& plan, const SweepReport& report) {
  const double seconds = report.progress.elapsed_s;
  const auto share = [&](std::int64_t ns) { return 100 * static_cast<double>(ns) / 1e9 / seconds; };
  fmt::print("{} problems, {} configs, {} pairs on {}\n\n", plan.problems.size(), plan.configs.size(),
             plan.pairs(), plan.device.name);
  fmt::print("{:<22} {:>10}\n", "measurements", report.progress.rows);
  for (std::size_t s = 0; s < report.by_status.size(); ++s) {
    if (report.by_status[s])
      fmt::print("  {:<20} {:>10}\n", EnumWords<Status>::words[s], report.by_status[s]);
  }
  fmt::print("  {:<20} {:>10}\n", "second pass", report.contender_rows);
  fmt::print("{:<22} {:>10.2f} s\n", "time", seconds);
  fmt::print("  {:<20} {:>10.1f} %\n", "kernels", share(report.spent.kernels));
  fmt::print("  {:<20} {:>10.1f} %\n", "cache flushes", share(report.spent.flushes));
  fmt::print("  {:<20} {:>10.1f} %\n", "verification", share(report.spent.verify));
  fmt::print("  {:<20} {:>10.1f} %\n", "operands (overhead)", share(report.spent.operands));
  const TimeSpent& spent = report.spent;
  const auto known = spent.kernels + spent.flushes + spent.verify + spent.operands;
  fmt::print("  {:<20} {:>10.1f} %\n\n", "the rest (overhead)", 100 - share(known));
  fmt::print("RESULT sweep.per_second {:.1f} 1/s\n", report.rows_per_s);
  fmt::print("RESULT sweep.overhead {:.4f} 1\n", report.overhead);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    Protocol protocol;
    protocol.cache = arguments.cache;
    PlanRequest request;
    request.rules = arguments.rules;
    request.max_problems = arguments.problems;
    const auto set = make_problem_set({.set = "random", .max_gflop = arguments.max_gflop, .count = 400});
    const std::vector<Problem> problems(set.begin(), set.end());
    const SweepPlan plan = make_plan(problems, request, detect_cpu(), protocol);

    const test::TemporaryFolder folder;
    const SweepReport report = run_sweep(plan, {.folder = folder.path(), .worker = default_worker()});
    print_table(plan, report);
    return report.ended == "done" ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_sweep: {}\n", error.what());
    return 4;
  }
}
