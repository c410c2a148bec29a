// Compares, on an NVIDIA GPU, GEMMs whose rows are no multiples of 16 bytes: cuBLASLt's first suggestion, the
// dispatcher's solution (a kernel that takes the rows, or copies with aligned rows), and the same product
// with its odd sizes rounded up to multiples of 64, as a model's author would do.
//
//     gemm_odd [--model models/gemm_bf16_h200] [--dtype bf16] [--count 240] [--torch FILE] [--csv FILE]
//
// --torch: PyTorch's times of the same problems on this GPU, by bench/torch_times.py.
// Cold caches, samples interleaved in one run, kernel time by the GPU's clock; copies count. Every result is
// verified against float64, with guard zones around the operands and the workspace.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "backend/cuda/cuda_backend.h"
#include "bench_program.h"
#include "core/fail.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "gpu_match.h"
#include "gpu_table.h"
#include "op/gemm/gemm_sets.h"
#include "torch_times.h"

namespace kscout::bench {
namespace {

struct Options {
  DType dtype = DType::bf16;
  std::size_t count = 240;
  std::string model = "models/gemm_bf16_h200", csv, torch;
};

/// The problem with the sizes that are no multiples of 8 rounded up to multiples of 64.
GemmProblem padded_by_hand(GemmProblem problem) {
  for (std::int64_t* const size : {&problem.m, &problem.n, &problem.k}) {
    if (*size % 8 != 0) *size = round_up(*size, 64);
  }
  return problem;
}

struct Row {
  GemmProblem problem;
  std::string config, form;
  double first = kUnknown, ours = kUnknown, direct = kUnknown, padded = kUnknown, torch = kUnknown,
         copies = 0, predicted = kUnknown, predicted_copies = 0;
};

class Match {
 public:
  explicit Match(const std::string& model)
      : with_copies_(selector(model), registry(), {}),
        without_(selector(model), registry(), {.copies_bytes = 0}) {}

  Row play(const GemmProblem& problem) {
    Row row;
    row.problem = problem;
    std::vector<Player> players;
    const auto add = [&](std::string name, std::unique_ptr<Launch> launch) {
      if (launch) players.push_back({fmt::format("{} by {}", print(problem), name), std::move(launch)});
      return players.size();
    };
    const auto time_of = [&](std::size_t place) { return place == 0 ? kUnknown : players[place - 1].us; };
    std::size_t first = 0;
    if (auto launch = prepared(problem, library_suggestion(1)))
      first = add("suggestion 1", std::move(launch));
    Solution ours = with_copies_.solve(problem), direct = without_.solve(problem);
    auto ours_launch = with_copies_.make_ready(problem, ours);
    const bool padded = dynamic_cast<PaddedLaunch*>(ours_launch.get()) != nullptr;
    const std::size_t ours_at = add("the dispatcher", std::move(ours_launch));
    std::size_t direct_at = ours_at;
    if (padded) direct_at = add("the dispatcher, no copies", without_.make_ready(problem, direct));
    row.copies = GpuTable(problem).time(players, padded ? std::optional(ours_at - 1) : std::nullopt);
    row.first = time_of(first), row.ours = time_of(ours_at), row.direct = time_of(direct_at);
    row.config = Selector::name(ours.form.problem, ours.choice);
    row.form = padded ? print(ours.form.problem) : "";
    row.predicted = ours.choice.time_us + ours.copies_us, row.predicted_copies = ours.copies_us;
    row.padded = best_padded(padded_by_hand(problem));
    return row;
  }

 private:
  static Selector selector(const std::string& model) {
    return Selector::load(model, cuda_request("cublaslt"));
  }

  static Registry registry() {
    Registry registry;
    registry.add(cuda_backend());
    return registry;
  }

  /// The faster of the first suggestion and the dispatcher's config for the padded problem.
  double best_padded(const GemmProblem& problem) {
    std::vector<Player> players;
    if (auto launch = prepared(problem, library_suggestion(1)))
      players.push_back({print(problem) + " by suggestion 1", std::move(launch)});
    Solution solution = without_.solve(problem);
    players.push_back({print(problem) + " by the dispatcher", without_.make_ready(problem, solution)});
    GpuTable(problem).time(players);
    double best = kUnknown;
    for (const Player& one : players) best = std::fmin(best, one.us);
    return best;
  }

  Solver with_copies_, without_;
};

double at_share(std::vector<double> values, double share) {
  if (values.empty()) return kUnknown;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

std::int64_t largest_odd(const GemmProblem& p) {
  std::int64_t largest = 0;
  for (const std::int64_t size : {p.m, p.n, p.k}) {
    if (size % 8 != 0) largest = std::max(largest, size);
  }
  return largest;
}

/// PyTorch's time over ours, of the rows that belong and that PyTorch computed.
template <class Belongs>
std::vector<double> over_torch(const std::vector<Row>& rows, const Belongs& belongs) {
  std::vector<double> ratios;
  for (const Row& row : rows) {
    if (belongs(row) && !std::isnan(row.torch)) ratios.push_back(row.torch / row.ours);
  }
  return ratios;
}

/// One line of the table over the rows that `belongs` accepts.
template <class Belongs>
void print_line(const char* what, const std::vector<Row>& rows, const Belongs& belongs) {
  std::vector<double> over_first, over_direct, over_padded;
  double taken = 0, all = 0;
  std::size_t copied = 0;
  for (const Row& row : rows) {
    if (!belongs(row)) continue;
    copied += row.form.empty() ? 0 : 1;
    over_first.push_back(row.first / row.ours);
    over_direct.push_back(row.direct / row.ours);
    over_padded.push_back(row.ours / row.padded);
    taken += std::log(row.first / row.ours), all += std::log(row.first / row.padded);
  }
  const std::vector<double> torch = over_torch(rows, belongs);
  fmt::print(
      "{:26} {:>5} {:>6} | {:>8.3f} {:>7.3f} {:>7.3f} | {:>8.3f} {:>7.3f} | {:>8.3f} | {:>8.3f} {:>7.3f} | "
      "{:>6.1f} %\n",
      what, over_first.size(), copied, geomean(over_first), at_share(over_first, 0.05),
      at_share(over_first, 0), geomean(torch), at_share(torch, 0.05), geomean(over_direct),
      geomean(over_padded), at_share(over_padded, 0.9), 100 * taken / all);
}

void print_table(const std::vector<Row>& rows) {
  fmt::print("\n{:26} {:>5} {:>6} | {:>8} {:>7} {:>7} | {:>8} {:>7} | {:>8} | {:>8} {:>7} | {:>8}\n",
             "speed over", "", "copied", "cuBLASLt", "P5", "worst", "PyTorch", "P5", "direct", "time/pad",
             "P90", "headroom");
  const auto is_layout = [](Layout layout) {
    return [layout](const Row& row) { return row.problem.layout == layout; };
  };
  const auto is_large = [](const Row& row) { return largest_odd(row.problem) >= 20000; };
  const auto any = [](const Row&) { return true; };
  print_line("all", rows, any);
  print_line("odd size of 20,000 or more", rows, is_large);
  print_line("smaller odd sizes", rows, [&](const Row& row) { return !is_large(row); });
  print_line("forward (rcr)", rows, is_layout(Layout::rcr));
  print_line("input gradient (rrr)", rows, is_layout(Layout::rrr));
  print_line("weight gradient (crr)", rows, is_layout(Layout::crr));
  std::vector<double> over_first, large, over_padded;
  for (const Row& row : rows) {
    over_first.push_back(row.first / row.ours);
    if (is_large(row)) large.push_back(row.first / row.ours);
    over_padded.push_back(row.ours / row.padded);
  }
  fmt::print("RESULT gemm_odd.geomean_vs_cublaslt {:.4f} x\n", geomean(over_first));
  fmt::print("RESULT gemm_odd.geomean_vs_cublaslt_large {:.4f} x\n", geomean(large));
  fmt::print("RESULT gemm_odd.p5_vs_cublaslt {:.4f} x\n", at_share(over_first, 0.05));
  fmt::print("RESULT gemm_odd.over_padded_geomean {:.4f} x\n", geomean(over_padded));
  fmt::print("RESULT gemm_odd.over_padded_p90 {:.4f} x\n", at_share(over_padded, 0.9));
  const std::vector<double> torch = over_torch(rows, any);
  if (torch.empty()) return;
  fmt::print("RESULT gemm_odd.geomean_vs_torch {:.4f} x\n", geomean(torch));
  fmt::print("RESULT gemm_odd.geomean_vs_torch_large {:.4f} x\n", geomean(over_torch(rows, is_large)));
  fmt::print("RESULT gemm_odd.p5_vs_torch {:.4f} x\n", at_share(torch, 0.05));
}

void write_csv(const std::string& file, const std::vector<Row>& rows) {
  std::ofstream out(file);
  out << "problem,form,config,first_us,ours_us,direct_us,padded_us,copies_us,predicted_us,predicted_copies_"
         "us,torch_us\n";
  for (const Row& row : rows) {
    out << fmt::format("{},{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.2f},{:.2f},{:.2f},{:.2f}\n",
                       print(row.problem), row.form, row.config, row.first, row.ours, row.direct, row.padded,
                       row.copies, row.predicted, row.predicted_copies, row.torch);
  }
}

int run(const Options& options) {
  if (const std::string why = cuda_missing(); !why.empty()) {
    fmt::print("gemm_odd: not measured: {}\n", why);
    return 3;
  }
  const auto problems =
      make_problem_set({.set = "odd_sizes", .dtype = options.dtype, .count = options.count, .seed = 1});
  fmt::print("{}; {} problems in {}\n", cuda_backend().device().model, problems.size(), word(options.dtype));
  const TorchTimes torch = read_torch_times(options.torch);
  Match match(options.model);
  std::vector<Row> rows;
  for (const GemmProblem& problem : problems) {
    Row row = match.play(problem);
    if (std::isnan(row.first) || std::isnan(row.ours) || std::isnan(row.padded)) {
      fmt::print("left out: {}: not computed by cuBLASLt ({:.1f} us), here ({:.1f}) or padded ({:.1f})\n",
                 print(problem), row.first, row.ours, row.padded);
      continue;
    }
    row.torch = torch.of(problem);
    rows.push_back(std::move(row));
    if (!options.csv.empty()) write_csv(options.csv, rows);
  }
  if (rows.empty()) fail(Errc::device_failure, "none of {} problems could be timed", problems.size());
  print_table(rows);
  return 0;
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  bench::Options options;
  CLI::App app("GEMMs with odd sizes: the dispatcher against cuBLASLt and against padding by hand");
  app.add_option_function<std::string>(
      "--dtype", [&](const std::string& text) { options.dtype = parse<DType>(text); }, "element type");
  app.add_option("--model", options.model, "model folder")->capture_default_str();
  app.add_option("--count", options.count, "number of problems to draw; 0 = all")->capture_default_str();
  app.add_option("--torch", options.torch, "file of PyTorch's times (bench/torch_times.py)");
  app.add_option("--csv", options.csv, "write every problem's times");
  return bench::run_bench("gemm_odd", app, argc, argv, [&] { return bench::run(options); });
}
