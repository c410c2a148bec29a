// Compares one grouped GEMM with one GEMM per group and with a padded batch, on the CPU, in one run with the
// same threads.
//
// `grouped`: one call of a dispatcher, with its own choice. `launches`: one call of a dispatcher per group
// with rows, each with the choice for its own sizes. `padded`: one call for a batched GEMM in which every
// group has the rows of the largest one; the copies into and out of the padded operands are left out of its
// time. Choices are made before the timing. Results of all three are compared.
//
//     grouped [--count 40] [--max-gflop 4] [--best] [--threads 2] [--csv FILE] [PROBLEMS...]
//     grouped --list > problems.txt                                  # for kscout sweep
//
// Problems are a sample of set `moe` in fp32, or those of the command line. `--best` also times the configs
// of a rule set, which shows how good the choice is. Models of models/ answer, unless KSCOUT_MODEL_PATH is
// set.
//
//     RESULT grouped.geomean_vs_launches   time of one GEMM per group over ours: above 1 we win
//     RESULT grouped.geomean_vs_padded     the same for the padded batch
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/dispatcher.h>
#include <kscout/grouped_gemm.h>

#include "backend/cpu/cpu_backend.h"
#include "bench_program.h"
#include "core/fail.h"
#include "cpu_timing.h"
#include "measure/load_watch.h"
#include "moe_layers.h"

namespace kscout::bench {
namespace {

constexpr std::size_t kFinalists = 6;

struct Options {
  std::size_t count = 40;
  double max_gflop = 4, max_bytes = 1e9;
  bool best = false, list = false;
  std::string rules = "default", csv;
  int threads = 0;
  std::vector<std::string> problems;
};

/// The results of one problem, in microseconds.
struct Row {
  GroupedGemmProblem problem;
  double grouped = kUnknown, launches = kUnknown;
  double padded = kUnknown;  ///< NaN: the padded operands exceed the limit of bytes
  double best = kUnknown;    ///< of the rule set
  double others = 0;         ///< CPUs that other processes kept busy meanwhile
  std::string config, best_config;
};

double operand_bytes(const GroupedGemmProblem& p) {
  const auto elements = static_cast<double>(p.m_sum) * static_cast<double>(p.n + p.k) +
                        static_cast<double>(p.groups) * static_cast<double>(p.n * p.k);
  return sizeof(float) * elements;
}

std::vector<GroupedGemmProblem> sample_of_set(const Options& options) {
  return sample_of_moe(DType::fp32, options.count, [&](const GroupedGemmProblem& p) {
    return flop_count(p) <= 1e9 * options.max_gflop && operand_bytes(p) <= options.max_bytes;
  });
}

std::vector<GroupedGemmProblem> problems_of(const Options& options) {
  if (options.problems.empty()) return sample_of_set(options);
  std::vector<GroupedGemmProblem> all;
  for (const std::string& text : options.problems) {
    const Problem problem = parse_any_problem(text);
    check(problem);
    if (problem.op() != Op::grouped_gemm || problem.as<GroupedGemmProblem>().m_sum == 0)
      fail(Errc::invalid_argument, "{}: write a grouped GEMM with rows", text);
    all.push_back(problem.as<GroupedGemmProblem>());
  }
  return all;
}

/// One GEMM per group with rows, on the operands of the grouped GEMM.
class LaunchPerGroup {
 public:
  LaunchPerGroup(const GroupedGemmProblem& p, const float* a, const float* b, float* c) {
    for (const std::int64_t rows : p.m.sizes()) {
      if (rows > 0)
        calls_.push_back({make_gemm(rows, p.n, p.k, DType::fp32, p.layout), {.a = a, .b = b, .c = c}});
      a += rows * p.k;
      b += p.n * p.k;
      c += rows * p.n;
    }
  }
  void run(Dispatcher& dispatcher) const {
    for (const Call& call : calls_) dispatcher.run(call.problem, call.buffers);
  }

 private:
  struct Call {
    GemmProblem problem;
    GemmBuffers buffers;
  };
  std::vector<Call> calls_;
};

/// A batched GEMM in which each group has the rows of the largest one; further rows of A are 0.
class PaddedBatch {
 public:
  PaddedBatch(const GroupedGemmProblem& p, const float* a, const float* b)
      : grouped_(p),
        problem_(make_gemm(p.m_max, p.n, p.k, DType::fp32, p.layout)),
        a_(sizeof(float) * static_cast<std::size_t>(p.groups * p.m_max * p.k)),
        c_(sizeof(float) * static_cast<std::size_t>(p.groups * p.m_max * p.n)) {
    problem_.batch = p.groups;
    buffers_ = {.a = a_.floats(), .b = b, .c = c_.floats()};
    float* to = a_.floats();
    for (const std::int64_t rows : p.m.sizes()) {
      std::copy_n(a, rows * p.k, to);
      std::fill_n(to + rows * p.k, (p.m_max - rows) * p.k, 0.0F);
      a += rows * p.k;
      to += p.m_max * p.k;
    }
  }
  static double bytes(const GroupedGemmProblem& p) {
    return sizeof(float) * static_cast<double>(p.groups * p.m_max) * static_cast<double>(p.n + p.k);
  }

  void run(Dispatcher& dispatcher) const { dispatcher.run(problem_, buffers_); }
  /// The rows of the groups, without those that were added.
  std::vector<float> result() const {
    std::vector<float> c;
    const float* from = c_.floats();
    for (const std::int64_t rows : grouped_.m.sizes()) {
      c.insert(c.end(), from, from + rows * grouped_.n);
      from += grouped_.m_max * grouped_.n;
    }
    return c;
  }

 private:
  GroupedGemmProblem grouped_;
  GemmProblem problem_;
  Pages a_, c_;
  GemmBuffers buffers_;
};

/// Throws when results differ by more than rounding: elements have a size of sqrt(k) / 3.
void compare(const GroupedGemmProblem& p, const std::vector<float>& ours, const std::vector<float>& others,
             const char* name) {
  const double bound = 1e-5 * std::sqrt(static_cast<double>(p.k));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (std::fabs(ours[i] - others[i]) <= bound) continue;
    const auto row = static_cast<std::int64_t>(i) / p.n, column = static_cast<std::int64_t>(i) % p.n;
    fail(Errc::device_failure, "{}: row {}, column {} is {}, and {} by '{}'", print(p), row, column, ours[i],
         others[i], name);
  }
}

double time_of(const SideBySide& match, std::string_view name) {
  for (const Candidate& one : match.candidates()) {
    if (one.name == name) return one.time_us;
  }
  return kUnknown;
}

Row measure(const GroupedGemmProblem& p, const Options& options, Dispatcher& dispatcher) {
  Row row;
  row.problem = p;
  const LoadWatch watch;
  const Problem problem = p;
  CpuTimer timer(problem);
  const GemmBuffers buffers{.a = timer.a(), .b = timer.b(), .c = timer.c()};
  const auto result = [&timer] { return std::vector<float>(timer.c(), timer.c() + timer.c_elements()); };

  row.config = Selector::name(problem, dispatcher.run(problem, buffers).choice);
  const std::vector<float> ours = result();
  timer.match().add({.name = "grouped", .extra = true, .call = [&] { dispatcher.run(problem, buffers); }});

  const LaunchPerGroup launches(p, timer.a(), timer.b(), timer.c());
  std::fill_n(timer.c(), timer.c_elements(), std::numeric_limits<float>::quiet_NaN());
  launches.run(dispatcher);
  compare(p, ours, result(), "launches");
  timer.match().add({.name = "launches", .peer = true, .call = [&] { launches.run(dispatcher); }});

  std::unique_ptr<PaddedBatch> padded;
  if (PaddedBatch::bytes(p) <= options.max_bytes) {
    padded = std::make_unique<PaddedBatch>(p, timer.a(), timer.b());
    padded->run(dispatcher);
    compare(p, ours, padded->result(), "padded");
    timer.match().add({.name = "padded", .peer = true, .call = [&] { padded->run(dispatcher); }});
  }
  if (options.best) timer.add_rule_set(options.rules);
  timer.match().coarse();
  timer.match().interleaved(kFinalists);
  row.grouped = time_of(timer.match(), "grouped");
  row.launches = time_of(timer.match(), "launches");
  if (padded) row.padded = time_of(timer.match(), "padded");
  // The choice is among the configs of the rule set, so that a slower round of the best one is noise.
  if (const Candidate* const best = timer.match().best(false)) {
    row.best = std::min(best->time_us, row.grouped);
    row.best_config = best->name;
  }
  row.others = watch.seen().others;
  return row;
}

std::string label(const GroupedGemmProblem& p) {
  return fmt::format("{}/{} groups, {} rows, at most {}, {}x{}", p.m_filled, p.groups, p.m_sum, p.m_max, p.n,
                     p.k);
}

void print_row(const Row& row) {
  fmt::print("{:52} {:11.1f} {:8.1f} {:>8} {:>8} {:>7}  {}{}\n", label(row.problem), row.grouped,
             gflops(row.problem, row.grouped), ratio_text(row.launches / row.grouped),
             ratio_text(row.padded / row.grouped), ratio_text(row.best / row.grouped), short_name(row.config),
             load_text(row.others));
  std::fflush(stdout);
}

int run(const Options& options) {
  const auto problems = problems_of(options);
  if (options.list) {
    for (const GroupedGemmProblem& problem : problems) fmt::print("{}\n", print(problem));
    return 0;
  }
  Dispatcher dispatcher(Registry::here(), {.threads = options.threads});
  fmt::print("{}, {} threads\n", backend("cpu").device().model,
             options.threads ? static_cast<double>(options.threads) : backend("cpu").device().cores);
  fmt::print("{:52} {:>11} {:>8} {:>8} {:>8} {:>7}  choice\n", "problem", "grouped us", "GFLOPS", "launches",
             "padded", "best");
  std::ofstream csv =
      open_csv(options.csv, "problem,grouped_us,launches_us,padded_us,best_us,config,best_config");
  std::vector<double> launches, padded, best;
  for (const GroupedGemmProblem& problem : problems) {
    const Row row = measure(problem, options, dispatcher);
    print_row(row);
    launches.push_back(row.launches / row.grouped);
    padded.push_back(row.padded / row.grouped);
    best.push_back(row.best / row.grouped);
    if (csv.is_open())
      csv << fmt::format("{},{},{},{},{},{},{}\n", print(problem), row.grouped, row.launches, row.padded,
                         row.best, row.config, row.best_config);
  }
  fmt::print("{} problems; the padded operands of {} exceed --max-bytes\n", problems.size(),
             std::ranges::count_if(padded, [](double ratio) { return std::isnan(ratio); }));
  print_ratios("grouped", "vs_launches", launches);
  print_ratios("grouped", "vs_padded", padded);
  if (options.best) print_chosen("grouped", best);
  return 0;
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  setenv("KSCOUT_MODEL_PATH", KSCOUT_MODELS, /*overwrite=*/0);
  bench::Options options;
  CLI::App app("one grouped GEMM against one GEMM per group and a padded batch, on the CPU");
  app.add_option("--count", options.count, "problems of set moe")->check(CLI::PositiveNumber);
  app.add_option("--max-gflop", options.max_gflop, "leave out larger problems of the set");
  app.add_option("--max-bytes", options.max_bytes, "leave out problems with larger operands");
  app.add_flag("--best", options.best, "also time the configs of a rule set");
  app.add_flag("--list", options.list, "print the problems and stop");
  app.add_option("--rules", options.rules, "rule set of --best");
  app.add_option("--threads", options.threads, "maximum number of threads")->check(CLI::NonNegativeNumber);
  app.add_option("--csv", options.csv, "write every time");
  app.add_option("problems", options.problems, "instead of the set's");
  return bench::run_bench("grouped", app, argc, argv, [&] { return bench::run(options); });
}
