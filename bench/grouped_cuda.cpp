// Compares, on an NVIDIA GPU, a grouped GEMM of the dispatcher with three other ways to compute it:
//
// * `launches`: one GEMM per group with rows, each with its own choice, one after the other;
// * `padded`: one call for a batched GEMM in which every group has the rows of the largest one, by cuBLASLt's
//   first suggestion; copies into and out of the padded operands are left out of its time;
// * `torch._grouped_mm` of stock PyTorch, whose times bench/torch_times.py writes (--torch).
//
//     grouped_cuda [--count 120] [--dtype bf16] [--max-bytes 8e9] [--torch FILE] [--csv FILE] [--best]
//     grouped_cuda --list > problems.txt                        # for bench/torch_times.py and kscout sweep
//
// Problems are a sample of set `moe`. `--best` also times every config of the family, which shows how good
// the choice is. Cold caches, samples interleaved, the GPU's events; results are verified (gpu_table.h).
//
//     RESULT grouped_cuda.geomean_vs_launches   time of one GEMM per group over ours: above 1 we win
//     RESULT grouped_cuda.geomean_vs_padded     the same for the padded batch
//     RESULT grouped_cuda.geomean_vs_torch      the same for torch._grouped_mm
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/family.h>
#include <kscout/grouped_gemm.h>

#include "backend/cuda/cuda_backend.h"
#include "bench_program.h"
#include "dispatch/solver.h"
#include "gpu_match.h"
#include "gpu_table.h"
#include "moe_layers.h"
#include "torch_times.h"

namespace kscout::bench {
namespace {

struct Options {
  DType dtype = DType::bf16;
  std::size_t count = 120;
  double max_bytes = 8e9;
  bool best = false, list = false;
  std::string torch, csv;
};

struct Row {
  GroupedGemmProblem problem;
  std::string config, best_config;
  std::string all;  ///< with --best: every config's time
  double ours = kUnknown, launches = kUnknown, padded = kUnknown, torch = kUnknown, best = kUnknown;
};

std::vector<GroupedGemmProblem> sample_of_set(const Options& options) {
  return sample_of_moe(options.dtype, options.count, [&](const GroupedGemmProblem& p) {
    const double b = static_cast<double>(p.groups) * static_cast<double>(p.n * p.k);
    return bytes_per_element(p.dtype_b) * b <= options.max_bytes;
  });
}

/// One GEMM per group with rows, on the operands of the grouped GEMM.
class LaunchPerGroup final : public Launch {
 public:
  LaunchPerGroup(const GroupedGemmProblem& p, Solver& solver) {
    const auto bytes = [&p](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * element_bytes(p.dtype_a);
    };
    std::size_t a = 0, b = 0, c = 0;
    for (const std::int64_t rows : p.m.sizes()) {
      if (rows > 0) {
        const GemmProblem one = make_gemm(rows, p.n, p.k, p.dtype_a, p.layout);
        Solution solution = solver.solve(one);
        groups_.push_back({solver.make_ready(one, solution), a, b, c});
      }
      a += bytes(rows * p.k), b += bytes(p.n * p.k), c += bytes(rows * p.n);
    }
  }
  std::size_t workspace_bytes() const noexcept override {
    std::size_t most = 0;
    for (const Group& group : groups_) most = std::max(most, group.launch->workspace_bytes());
    return most;
  }
  void run(const Buffers& buffers, void* workspace, Stream stream) override {
    for (const Group& group : groups_) {
      GemmBuffers own = GemmBuffers::of(buffers);
      own.a = static_cast<const std::byte*>(own.a) + group.a;
      own.b = static_cast<const std::byte*>(own.b) + group.b;
      own.c = static_cast<std::byte*>(own.c) + group.c;
      group.launch->run(own, workspace, stream);
    }
  }

 private:
  struct Group {
    std::unique_ptr<Launch> launch;
    std::size_t a, b, c;  ///< bytes from the operands' begins
  };
  std::vector<Group> groups_;
};

/// Microseconds of a batched GEMM in which each group has the rows of the largest one; NaN where its operands
/// do not fit.
double padded_us(const GroupedGemmProblem& p) {
  GemmProblem batch = make_gemm(p.m_max, p.n, p.k, p.dtype_a, p.layout);
  batch.batch = p.groups;
  try {
    auto launch = prepared(batch, library_suggestion(1));
    if (!launch) return kUnknown;
    std::vector<Player> players;
    players.push_back({print(batch), std::move(launch)});
    GpuTable(batch).time(players);
    return players.front().us;
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
    return kUnknown;
  }
}

Row measure(const GroupedGemmProblem& p, const Options& options, Solver& solver) {
  Row row;
  row.problem = p;
  Solution solution = solver.solve(p);
  std::vector<Player> players;
  const auto add = [&](std::string_view name, std::unique_ptr<Launch> launch) {
    players.push_back({fmt::format("{} by {}", print(p), name), std::move(launch)});
  };
  add("the dispatcher", solver.make_ready(p, solution));
  add("one GEMM per group", std::make_unique<LaunchPerGroup>(p, solver));
  row.config = Selector::name(p, solution.choice);
  Family family;
  if (options.best) {
    family = cuda_backend().family(signature_of(p), "default");
    for (std::size_t i = 0; i < family.configs.size(); ++i)
      add(family.name(i), cuda_backend().prepare(p, family.configs[i]));
  }
  GpuTable(p).time(players);
  row.ours = players[0].us, row.launches = players[1].us;
  for (std::size_t i = 2; i < players.size(); ++i) {
    row.all += fmt::format("{}{}={:.2f}", i > 2 ? ";" : "", family.name(i - 2), players[i].us);
    if (!(players[i].us >= row.best)) row.best = players[i].us, row.best_config = family.name(i - 2);
  }
  // The choice is one of them: a slower sample of its best one is noise.
  if (options.best) row.best = std::fmin(row.best, row.ours);
  row.padded = padded_us(p);
  return row;
}

/// A peer's time over ours.
std::vector<double> ratios(const std::vector<Row>& rows, double Row::*peer) {
  std::vector<double> all;
  for (const Row& row : rows) all.push_back(row.*peer / row.ours);
  return all;
}

int run(const Options& options) {
  const auto problems = sample_of_set(options);
  if (options.list) {
    for (const GroupedGemmProblem& problem : problems) fmt::print("{}\n", print(problem));
    return 0;
  }
  if (const std::string why = cuda_missing(); !why.empty()) {
    fmt::print("grouped_cuda: not measured: {}\n", why);
    return 3;
  }
  const TorchTimes torch = read_torch_times(options.torch);
  Registry registry;
  registry.add(cuda_backend());
  Solver solver(registry, {});
  fmt::print("{}; {} problems in {}\n{:46} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7}  choice\n",
             cuda_backend().device().model, problems.size(), word(options.dtype), "problem", "ours us",
             "TFLOPS", "launches", "padded", "PyTorch", "best");
  std::ofstream csv =
      open_csv(options.csv, "problem,ours_us,launches_us,padded_us,torch_us,best_us,config,best_config,all");
  std::vector<Row> rows;
  for (const GroupedGemmProblem& p : problems) {
    Row row = measure(p, options, solver);
    if (std::isnan(row.ours)) fail(Errc::device_failure, "{}: a wrong result", print(p));
    row.torch = torch.of(p);
    fmt::print("{:46} {:>9.1f} {:>8.1f} {:>8.2f} {:>8.2f} {:>8.2f} {:>7.3f}  {}\n",
               fmt::format("{}/{} groups, {} rows, {}x{}", p.m_filled, p.groups, p.m_sum, p.n, p.k), row.ours,
               flop_count(p) / row.ours / 1e6, row.launches / row.ours, row.padded / row.ours,
               row.torch / row.ours, row.best / row.ours, row.config.substr(row.config.find("__") + 2));
    if (csv.is_open())
      csv << fmt::format("{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{}\n", print(p), row.ours, row.launches,
                         row.padded, row.torch, row.best, row.config, row.best_config, row.all);
    rows.push_back(std::move(row));
  }
  print_ratios("grouped_cuda", "vs_launches", ratios(rows, &Row::launches));
  print_ratios("grouped_cuda", "vs_padded", ratios(rows, &Row::padded));
  print_ratios("grouped_cuda", "vs_torch", ratios(rows, &Row::torch));
  if (options.best) print_chosen("grouped_cuda", ratios(rows, &Row::best));
  return 0;
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  setenv("KSCOUT_MODEL_PATH", KSCOUT_MODELS, /*overwrite=*/0);
  bench::Options options;
  CLI::App app("one grouped GEMM against one GEMM per group, a padded batch and PyTorch, on a GPU");
  app.add_option_function<std::string>(
      "--dtype", [&](const std::string& text) { options.dtype = parse<DType>(text); }, "element type");
  app.add_option("--count", options.count, "problems of set moe")->check(CLI::PositiveNumber);
  app.add_option("--max-bytes", options.max_bytes, "leave out problems with more bytes of weights");
  app.add_flag("--best", options.best, "also time every config of the family");
  app.add_flag("--list", options.list, "print the problems and stop");
  app.add_option("--torch", options.torch, "file of PyTorch's times (bench/torch_times.py)");
  app.add_option("--csv", options.csv, "write every time");
  return bench::run_bench("grouped_cuda", app, argc, argv, [&] { return bench::run(options); });
}
