// Measures the price of equal bits: policy batch-invariant against free choice, and against the best fixed
// algorithm that a user could name by hand. 12 weights x 10 M from 1 to 4,096.
//
//     batch_invariant --backend cuda [--model models/gemm_bf16_h200] [--classes FILE] [--csv FILE]
//
// For each weight: measures its classes (docs/batch_invariant.md) and stores them in FILE, computes all 10 M
// and many other M by a dispatcher with the policy and compares the bits of the rows, then times three
// configs side by side at each M: the model's choice, the policy's choice, and the config that is fastest
// over all M among those that give equal bits at all of them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/dispatcher.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "bench_program.h"
#include "measure/measured_backend.h"
#include "measure/problem_bench.h"
#include "search/measure_classes.h"
#include "support/temporary_folder.h"

namespace kscout::bench {
namespace {

struct Options {
  std::string backend = "cuda", model, classes, csv;
  std::size_t skip = 0, weights = 0;
};

/// Interleaved runs; the median of their times counts.
constexpr int kRuns = 3;
/// M of the comparison, at which configs are also timed when classes are measured.
constexpr std::int64_t kRows[] = {1, 4, 16, 40, 100, 256, 600, 1024, 2500, 4096};
/// More M at which bits are compared.
constexpr std::int64_t kMoreRows[] = {333, 511, 777, 1025, 1500, 2047, 2049, 3333, 4095};

/// n and k.
using Weight = std::pair<std::int64_t, std::int64_t>;
/// Layers of Llama 3 8B, Qwen 2.5 7B, GPT-2 and Llama 3 70B.
constexpr Weight kGpuWeights[] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336},
                                  {4608, 3584}, {3584, 3584}, {37888, 3584}, {3584, 18944},
                                  {2304, 768},  {3072, 768},  {768, 3072},   {8192, 8192}};
/// Layers of small networks.
constexpr Weight kCpuWeights[] = {{64, 64},   {128, 128}, {256, 64}, {64, 256},  {256, 256}, {384, 128},
                                  {128, 384}, {96, 500},  {500, 96}, {512, 256}, {256, 512}, {320, 320}};

struct Row {
  GemmProblem problem;
  std::string free_config, config, fixed_config;
  double free_us = kUnknown, us = kUnknown, fixed_us = kUnknown;
};

GemmProblem problem_of(const Weight& weight, std::int64_t m, DType dtype) {
  return make_gemm(m, weight.first, weight.second, dtype);
}

class Comparison {
 public:
  explicit Comparison(const Options& options)
      : options_(options),
        backend_(backend(options.backend)),
        gpu_(backend_.device().kind == DeviceKind::gpu),
        dtype_(gpu_ ? DType::bf16 : DType::fp32),
        file_(options.classes.empty() ? folder_.path() / "classes.json"
                                      : std::filesystem::path(options.classes)),
        free_(selector({})),
        invariant_(selector({.batch_invariant = true})),
        dispatcher_(registry_of(backend_), {.limits = {.batch_invariant = true}, .classes = file_}),
        bench_({.cache = gpu_ ? CacheState::cold : CacheState::warm,
                .slack_us = gpu_ ? 0.0 : 5000.0,
                .contenders = 8,
                .rounds = 16,
                .rounds_budget_us = 4e5},
               1, instruments_of(backend_)) {
    for (const std::string& warning : free_.warnings()) fmt::print("warning: {}\n", warning);
    fmt::print("{}, {}, model {}\n", backend_.device().name, library_release(backend_),
               free_.model_path().string());
  }

  int run() {
    std::vector<Weight> weights(std::begin(kGpuWeights), std::end(kGpuWeights));
    if (!gpu_) weights.assign(std::begin(kCpuWeights), std::end(kCpuWeights));
    weights.erase(weights.begin(),
                  weights.begin() + static_cast<std::ptrdiff_t>(std::min(options_.skip, weights.size())));
    if (options_.weights > 0) weights.resize(std::min(weights.size(), options_.weights));
    for (const Weight& weight : weights) compare(weight);
    print_results();
    return equal_ == compared_ ? 0 : 1;
  }

 private:
  static Registry registry_of(Backend& backend) {
    Registry registry;
    registry.add(backend);
    return registry;
  }

  Selector selector(const Limits& limits) const {
    const SelectorRequest request{
        .provider = std::string(backend_.provider_for(Op::gemm)),
        .device = backend_.device(),
        .backend = std::string(backend_.name()),
        .absence = [&of = backend_](const Signature& signature,
                                    const KernelConfig& config) { return of.absence(signature, config); },
        .suggestions = suggestions_of(backend_),
        .limits = limits,
        .breaks = [](ProblemRef, const KernelConfig&, const Limits&) { return std::string(); },
        .classes = file_,
        .library = library_release(backend_)};
    if (options_.model.empty()) return Selector::find(Op::gemm, dtype_, request);
    return Selector::load(options_.model, request);
  }

  void compare(const Weight& weight) {
    const auto began = std::chrono::steady_clock::now();
    const GemmProblem one = problem_of(weight, 1, dtype_);
    const std::vector<std::int64_t> rows(std::begin(kRows), std::end(kRows));
    const auto candidates = class_candidates(free_, backend_, one, rows, {});
    const ClassMeasurement measured = measure_classes(backend_, one, candidates, {.m = rows});
    store_classes(file_, std::span(&measured.stored, 1));
    invariant_.refresh();
    dispatcher_ = Dispatcher(registry_of(backend_), {.limits = {.batch_invariant = true}, .classes = file_});
    fmt::print("{}x{}: {} configs, {} classes, {} members\n", weight.first, weight.second,
               measured.configs.size(), measured.stored.classes, measured.stored.members.size());
    RowRuns runs(backend_, one, kRows[std::size(kRows) - 1]);
    compare_bits(one, runs);
    const std::optional<KernelConfig> fixed = best_fixed(measured, rows, runs);
    fmt::print("measured in {:.1f} s\n",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    std::fflush(stdout);
    if (!fixed) fmt::print("NO FIXED CONFIG gives equal bits at all M\n");
    for (const std::int64_t m : kRows) time(problem_of(weight, m, dtype_), fixed);
    std::fflush(stdout);
  }

  /// Every M up to 300, those of the comparison, and some more between them.
  static std::vector<std::int64_t> all_rows() {
    constexpr std::int64_t kEvery = 300;
    std::vector<std::int64_t> rows(kEvery);
    std::iota(rows.begin(), rows.end(), 1);
    for (const std::int64_t m : kRows) {
      if (m > kEvery) rows.push_back(m);
    }
    rows.insert(rows.end(), std::begin(kMoreRows), std::end(kMoreRows));
    return rows;
  }

  /// Rows by the dispatcher at each M against those of the largest M.
  void compare_bits(const GemmProblem& weight, RowRuns& runs) {
    const auto rows = [&](std::int64_t m) {
      return runs.run(
          m, [&](const Problem& problem, const GemmBuffers& buffers) { dispatcher_.run(problem, buffers); });
    };
    const RowBits expected = rows(kRows[std::size(kRows) - 1]);
    for (const std::int64_t m : all_rows()) {
      ++compared_;
      if (rows(m).agrees(expected)) {
        ++equal_;
      } else {
        fmt::print("NOT EQUAL: {}x{} at M = {}\n", weight.n, weight.k, m);
      }
    }
  }

  /// Of the configs that stay in one class at all M, the one with the least geometric mean of times.
  static std::optional<KernelConfig> best_fixed(const ClassMeasurement& measured,
                                                std::span<const std::int64_t> timed, RowRuns& runs) {
    std::vector<std::pair<double, const ClassedConfig*>> all;
    for (const ClassedConfig& one : measured.configs) {
      double logs = 0;
      const std::int32_t first = one.classes.front();
      bool fixed = first != kNoClass;
      for (std::size_t at = 0; at < measured.m.size(); ++at) {
        fixed = fixed && one.classes[at] == first;
        if (std::ranges::binary_search(timed, measured.m[at])) logs += std::log(one.time_us[at]);
      }
      if (fixed && logs == logs) all.emplace_back(logs, &one);
    }
    std::ranges::sort(all);
    for (const auto& [logs, one] : all) {
      const RowBits expected = runs.run(one->config, kRows[std::size(kRows) - 1]);
      const auto is_equal = [&](std::int64_t m) { return runs.run(one->config, m).agrees(expected); };
      if (std::ranges::all_of(all_rows(), is_equal)) return one->config;
    }
    return std::nullopt;
  }

  void time(const GemmProblem& problem, const std::optional<KernelConfig>& fixed) {
    Row& row = rows_.emplace_back();
    row.problem = problem;
    const Choice free = free_.select(problem), invariant = invariant_.select(problem);
    row.free_config = Selector::name(problem, free);
    row.config = Selector::name(problem, invariant);
    std::vector<KernelConfig> players = {free.config, invariant.config};
    if (fixed) {
      row.fixed_config = config_name(signature_of(problem), *fixed);
      players.push_back(*fixed);
    }
    const std::vector<double> us = time_each(problem, players);
    row.free_us = us[0];
    row.us = us[1];
    if (fixed) row.fixed_us = us[2];
    fmt::print("{:36} free {:>10.2f} us, invariant {:>10.2f} us ({:.3f}), fixed {:>10.2f} us ({:.3f})\n",
               print(problem), row.free_us, row.us, row.free_us / row.us, row.fixed_us,
               row.fixed_us / row.us);
  }

  /// The median of some interleaved runs for each config; equal configs are timed once.
  std::vector<double> time_each(const GemmProblem& problem, const std::vector<KernelConfig>& players) {
    std::vector<std::string> names;
    for (const KernelConfig& config : players) names.push_back(config_name(signature_of(problem), config));
    std::vector<std::string> distinct = names;
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    std::vector<Candidate> candidates;
    for (const std::string& name : distinct) {
      const auto at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
      candidates.push_back({&backend_, players[at]});
    }
    bench_.open(problem);
    std::vector<std::vector<double>> medians(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Outcome first = bench_.coarse(candidates[i], std::numeric_limits<double>::infinity());
      if (first.measured.status != Status::ok)
        fmt::print("FAILED: {} on {}: {}: {}\n", distinct[i], print(problem), word(first.measured.status),
                   first.reason);
    }
    for (int run = 0; run < kRuns; ++run) {
      bench_.contenders(candidates, [&](std::size_t i, const Outcome& outcome) {
        const Status status = outcome.measured.status;
        if (status == Status::ok || status == Status::pruned_early)
          medians[i].push_back(outcome.measured.time_us);
      });
    }
    std::vector<double> us;
    for (const std::string& name : names) {
      auto& of = medians[static_cast<std::size_t>(std::ranges::find(distinct, name) - distinct.begin())];
      std::ranges::sort(of);
      us.push_back(of.empty() ? kUnknown : of[of.size() / 2]);
    }
    return us;
  }

  /// Geometric mean of a peer's time over the policy's, of the rows with both.
  double ratio(double Row::*peer, std::int64_t of_m = 0) const {
    std::vector<double> ratios;
    for (const Row& row : rows_) {
      const double ratio = row.*peer / row.us;
      if (ratio > 0 && (of_m == 0 || row.problem.m == of_m)) ratios.push_back(ratio);
    }
    return geomean(ratios);
  }

  void print_results() const {
    std::ofstream csv = open_csv(
        options_.csv, "problem,free_us,invariant_us,fixed_us,free_config,invariant_config,fixed_config");
    for (const Row& row : rows_) {
      if (!csv.is_open()) break;
      csv << fmt::format("{},{:.4f},{:.4f},{:.4f},{},{},{}\n", print(row.problem), row.free_us, row.us,
                         row.fixed_us, row.free_config, row.config, row.fixed_config);
    }
    fmt::print("\n{:>6} {:>20} {:>22}\n", "M", "free over invariant", "fixed over invariant");
    for (const std::int64_t m : kRows)
      fmt::print("{:>6} {:>20.3f} {:>22.3f}\n", m, ratio(&Row::free_us, m), ratio(&Row::fixed_us, m));
    const std::string on = gpu_ ? "cuda" : "cpu";
    fmt::print("RESULT batch_invariant.{}.equal_bits {} of {}\n", on, equal_, compared_);
    fmt::print("RESULT batch_invariant.{}.geomean_vs_free {:.4f} x\n", on, ratio(&Row::free_us));
    fmt::print("RESULT batch_invariant.{}.geomean_vs_fixed {:.4f} x\n", on, ratio(&Row::fixed_us));
  }

  const Options& options_;
  test::TemporaryFolder folder_;
  Backend& backend_;
  const bool gpu_;
  const DType dtype_;
  const std::filesystem::path file_;
  Selector free_, invariant_;
  Dispatcher dispatcher_;
  ProblemBench bench_;
  std::vector<Row> rows_;
  std::size_t compared_ = 0, equal_ = 0;
};

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  bench::Options options;
  CLI::App app("policy batch-invariant against free choice and the best fixed config");
  app.add_option("--backend", options.backend, "cuda (bf16) or cpu (fp32, small weights)")
      ->capture_default_str();
  app.add_option("--model", options.model, "model folder (default: the first on the search path)");
  app.add_option("--classes", options.classes, "file that keeps the classes (default: a temporary one)");
  app.add_option("--skip", options.skip, "leave out the first N weights");
  app.add_option("--weights", options.weights, "of the others, only the first N");
  app.add_option("--csv", options.csv, "write every problem's times");
  return bench::run_bench("batch_invariant", app, argc, argv,
                          [&] { return bench::Comparison(options).run(); });
}
