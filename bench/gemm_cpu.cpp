// Compares the native CPU kernels with OpenBLAS and oneDNN. For each problem: the best measured config of a
// rule set and the better of the two libraries, with the same threads, in one run. `--coverage` leaves the
// libraries out and counts how often each config is the best; rule set `default` is based on these counts.
//
//     gemm_cpu [--quick] [--rules default] [--part i/n] [--coverage] [--csv FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "bench_program.h"
#include "cpu_timing.h"
#include "op/gemm/gemm_sets.h"
#include "op/problem_sets.h"
#include "peers.h"

namespace kscout::bench {
namespace {

struct Options {
  bool quick = false;
  bool coverage = false;
  std::string rules = "default";
  std::string filter;
  std::string csv;
  int part = 1, parts = 1;
  std::vector<std::string> problems;
};

/// Projection shapes (N, K) of small language models, squares, narrow and odd sizes; the largest has 1.7e10
/// FLOP.
std::vector<GemmProblem> bench_problems(bool quick) {
  struct Weights {
    std::int64_t n, k, max_m;
  };
  std::vector<GemmProblem> problems;
  const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    for (const Layout layout : {Layout::rcr, Layout::rrr})
      problems.push_back(make_gemm(m, n, k, DType::fp32, layout));
  };
  for (const auto& [n, k, max_m] :
       {Weights{1024, 1024, 4096}, Weights{2048, 2048, 1024}, Weights{4096, 4096, 256},
        Weights{5632, 2048, 256}, Weights{2048, 5632, 64}}) {
    for (const std::int64_t m : {1, 4, 16, 64, 256, 1024, 4096}) {
      if (m <= max_m && !(quick && (m > 64 || n != k || n > 2048))) add(m, n, k);
    }
  }
  for (const std::int64_t size : {32, 64, 128, 256, 512, 2048}) {
    if (!quick || size <= 512) add(size, size, size);
  }
  add(4096, 8, 1024);
  add(2048, 1, 2048);
  add(128, 128, 4096);
  add(7, 7, 7);
  add(97, 89, 101);
  add(333, 221, 1021);
  add(31, 1537, 777);
  if (!quick) add(1000, 999, 1001);
  return problems;
}

/// Problems on which the family must have good configs: the language-model and random sets of the sweep,
/// small enough for many samples.
std::vector<GemmProblem> coverage_problems(bool quick) {
  const std::vector<Layout> layouts = {Layout::rcr, Layout::rrr};
  std::vector<GemmProblem> problems = bench_problems(true);
  const auto append = [&](const std::string& set, std::size_t count) {
    for (const GemmProblem& p : make_problem_set(
             {.set = set, .layouts = layouts, .max_gflop = 2, .max_bytes = 1e8, .count = count})) {
      problems.push_back(p);
    }
  };
  append("random", quick ? 10 : 35);
  append("llm", quick ? 5 : 20);
  return merge_equal(problems);
}

int thread_count() { return static_cast<int>(backend("cpu").device().cores); }

void add_peers(CpuTimer& timer, const GemmProblem& p) {
  const auto add = [&](const char* name, const auto& gemm) {
    timer.match().add({.name = name, .peer = true, .call = gemm(p, timer.a(), timer.b(), timer.c())});
  };
  add("openblas", openblas_gemm);
  add("onednn", onednn_gemm);
}

int compare_with_peers(const std::vector<GemmProblem>& problems, const Options& options) {
  fmt::print("{}\n{}\n", openblas_about(), onednn_about());
  fmt::print("{:28} {:>10} {:>9} {:>9} {:>7}  config\n", "problem", "native us", "GFLOPS", "peer", "ratio");
  std::vector<double> ratios;
  double least = INFINITY;
  std::string worst;
  for (const GemmProblem& problem : problems) {
    CpuTimer timer(problem);
    timer.add_rule_set(options.rules, options.filter);
    add_peers(timer, problem);
    timer.match().coarse();
    timer.match().interleaved(6);
    const Candidate& ours = *timer.match().best(false);
    const Candidate& peer = *timer.match().best(true);
    const double ratio = peer.time_us / ours.time_us;
    ratios.push_back(ratio);
    if (ratio < least) {
      least = ratio;
      worst = print(problem);
    }
    fmt::print("{:28} {:10.2f} {:9.2f} {:9.2f} {:7.3f}  {} ({})\n", print(problem), ours.time_us,
               gflops(problem, ours.time_us), gflops(problem, peer.time_us), ratio, short_name(ours.name),
               peer.name);
    std::fflush(stdout);
  }
  fmt::print("{} problems, {} threads, worst {}\n", problems.size(), thread_count(), worst);
  fmt::print("RESULT gemm_cpu.geomean_vs_best_peer {:.3f} x\n", geomean(ratios));
  fmt::print("RESULT gemm_cpu.min_vs_best_peer {:.3f} x\n", least);
  return 0;
}

int show_coverage(const std::vector<GemmProblem>& problems, const Options& options) {
  std::ofstream csv;
  if (!options.csv.empty()) csv.open(options.csv);
  std::map<std::string, int> wins;
  for (const GemmProblem& problem : problems) {
    CpuTimer timer(problem);
    timer.add_rule_set(options.rules, options.filter);
    timer.match().coarse();
    timer.match().interleaved(8);
    const Candidate& best = *timer.match().best(false);
    ++wins[short_name(best.name)];
    fmt::print("{:34} {:10.2f} us {:8.2f} GFLOPS  {}\n", print(problem), best.time_us,
               gflops(problem, best.time_us), short_name(best.name));
    std::fflush(stdout);
    for (const Candidate& one : timer.match().candidates()) {
      if (csv)
        csv << print(problem) << ',' << short_name(one.name) << ',' << std::min(one.time_us, one.coarse_us)
            << '\n';
    }
  }
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, count] : wins) order.emplace_back(-count, name);
  std::ranges::sort(order);
  for (const auto& [count, name] : order) fmt::print("{:4}  {}\n", -count, name);
  const auto total = static_cast<double>(problems.size());
  fmt::print("RESULT gemm_cpu.configs_best_somewhere {} configs\n", order.size());
  fmt::print("RESULT gemm_cpu.most_wins_of_one_config {:.1f} %\n", -100.0 * order.front().first / total);
  return 0;
}

int run(const Options& options) {
  std::vector<GemmProblem> all =
      options.coverage ? coverage_problems(options.quick) : bench_problems(options.quick);
  if (!options.problems.empty()) {
    all.clear();
    for (const std::string& text : options.problems) all.push_back(parse_problem(text));
  }
  std::vector<GemmProblem> mine;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) % options.parts == options.part - 1) mine.push_back(all[i]);
  }
  fmt::print("{}, rule set {}\n", backend("cpu").device().model, options.rules);
  return options.coverage ? show_coverage(mine, options) : compare_with_peers(mine, options);
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  bench::Options options;
  std::string part = "1/1";
  CLI::App app("native CPU GEMM kernels against OpenBLAS and oneDNN");
  app.add_flag("--quick", options.quick, "small problems only");
  app.add_flag("--coverage", options.coverage, "no libraries: which configs are best how often");
  app.add_option("--rules", options.rules, "rule set");
  app.add_option("--filter", options.filter, "formula over c., d., s. that configs must meet");
  app.add_option("--csv", options.csv, "with --coverage: write every time");
  app.add_option("--part", part, "i/n: every n-th problem only");
  app.add_option("problems", options.problems, "instead of the built-in list");
  return bench::run_bench("gemm_cpu", app, argc, argv, [&] {
    if (std::sscanf(part.c_str(), "%d/%d", &options.part, &options.parts) == 2 && options.part >= 1 &&
        options.part <= options.parts)
      return bench::run(options);
    std::fprintf(stderr, "--part '%s': write i/n with 1 <= i <= n\n", part.c_str());
    return 2;
  });
}
