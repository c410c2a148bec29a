// Compares the model's choice on a GPU with two libraries. cuBLASLt: its heuristic's first suggestion, and
// the fastest of eight suggestions by timing. nvMatmulHeuristics: its first suggestion and the fastest of
// eight, each mapped to the nearest available CUTLASS kernel. All use the same workspace and cold caches;
// only kernel time counts; samples are interleaved in one run.
//
//     gemm_cuda --problems held_out.txt [--model models/gemm_bf16_h200] [--torch FILE] [--csv FILE]
//
// Reads files of problem texts, each a distribution with results of its own; `kscout problems --file` and
// docs/bench/gemm_h200.md say how the held-out ones were written. --torch: PyTorch's times of the same
// problems on this GPU, by bench/torch_times.py. A joint model and the CUTLASS peer need KSCOUT_LIBRARY_PATH
// (docs/cutlass.md); the peer also needs its library (KSCOUT_NVMMH).
#include "gemm_cuda.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "backend/cuda/cuda_backend.h"
#include "bench_program.h"
#include "core/fail.h"
#include "gpu_match.h"
#include "nvmmh.h"
#include "op/gemm/gemm_sets.h"
#include "op/problem_sets.h"
#include "torch_times.h"

namespace kscout::bench {
namespace {

struct Options {
  std::vector<std::string> problems;
  std::string model = "models/gemm_bf16_h200", csv, torch;
  bool no_decode = false;
};

constexpr int kSuggestions = 8;
/// Interleaved runs; the median of their times counts.
constexpr int kRuns = 3;

/// The results of one problem.
struct Row {
  GemmProblem problem;
  std::string distribution;
  std::string config;   ///< ours, by name
  std::string missing;  ///< why there is no comparison, one of the words of kReasons; empty: there is one
  std::string detail;   ///< what the library or the verification says
  Timed ours, first, best;
  Timed nvmmh, nvmmh_best;  ///< NaN where none of its suggestions is available
  bool exact = false;       ///< its first suggestion is available without changes
  Timed torch;
};

constexpr std::array kReasons = {"vendor wrong", "refused by us", "no memory", "no suggestion",
                                 "ours failed"};

/// Why the first suggestion has no time, by the failure of GpuMatch.
const char* reason_of(const std::string& failure) {
  if (failure.starts_with(word(Status::wrong))) return kReasons[0];
  if (failure.find("which rule") != std::string::npos) return kReasons[1];
  if (failure.find("memory") != std::string::npos) return kReasons[2];
  return kReasons[3];
}

/// nvMatmulHeuristics, restricted to the available compiled kernels.
class CutlassPeer {
 public:
  /// Null, after a message, when the library or every kernel for the signature is missing.
  static std::unique_ptr<CutlassPeer> here(const Signature& signature) {
    auto peer = std::make_unique<CutlassPeer>();
    std::string why;
    peer->library_ = MatmulHeuristics::open(cuda_backend().device(), why);
    if (peer->library_) {
      peer->existing_ = kernels_here(signature, why);
      if (peer->existing_.empty()) why = "no CUTLASS kernel is here: " + why;
    }
    if (why.empty()) {
      fmt::print("nvMatmulHeuristics {} among {} CUTLASS configs\n", peer->library_->version(),
                 peer->existing_.size());
      return peer;
    }
    fmt::print("NOT COMPARED WITH nvMatmulHeuristics: {}\n", why);
    return nullptr;
  }

  /// The configs for its suggestions, in their order, each once; `exact`: the first one is available without
  /// changes.
  std::vector<KernelConfig> suggestions(const GemmProblem& problem, bool& exact) {
    std::vector<KernelConfig> applicable;
    for (const KernelConfig& config : existing_) {
      if (cuda_backend().refusal(problem, config).empty()) applicable.push_back(config);
    }
    std::vector<KernelConfig> found;
    for (const SuggestedKernel& kernel : library_->suggest(problem, kSuggestions)) {
      const Matched matched = nearest(kernel, applicable);
      if (found.empty()) exact = matched.exact;
      for (const std::size_t at : matched.configs) {
        if (std::ranges::find(found, applicable[at]) == found.end()) found.push_back(applicable[at]);
      }
    }
    return found;
  }

 private:
  static std::vector<KernelConfig> kernels_here(const Signature& signature, std::string& why) {
    std::vector<KernelConfig> here;
    try {
      const Family family = enumerate({"cutlass", signature, cuda_backend().device(), "full", ""});
      for (std::size_t i = 0; i < family.configs.size(); ++i) {
        const std::string absent = cuda_backend().absence(signature, family.configs[i]);
        if (absent.empty()) here.push_back(family.configs[i]);
        if (!absent.empty() && why.empty()) why = absent;
      }
    } catch (const Error& error) {
      why = error.what();
    }
    if (!here.empty()) why.clear();
    return here;
  }

  std::unique_ptr<MatmulHeuristics> library_;
  std::vector<KernelConfig> existing_;
};

class Match {
 public:
  /// `peer` may be null: then there is no CUTLASS peer.
  Match(const Selector& selector, CutlassPeer* peer) : selector_(selector), rival_(peer) {}

  /// Row::missing says when our choice or the first suggestion cannot compute the problem, or computes it
  /// wrongly.
  Row play(const GemmProblem& problem) {
    const Choice choice = selector_.select(problem);
    Row row;
    row.problem = problem;
    row.config = Selector::name(problem, choice);
    try {
      match_.open(problem);
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      row.missing = "no memory", row.detail = error.what();
      return row;
    }
    // The fastest of the eight is determined by timing before the comparison, as an application would do it.
    std::vector<KernelConfig> eight;
    for (int place = 1; place <= kSuggestions; ++place) eight.push_back(library_suggestion(place));
    std::vector<KernelConfig> players = {choice.config, eight[0], eight[fastest_of(match_.time(eight))]};
    if (rival_) {
      const auto theirs = rival_->suggestions(problem, row.exact);
      if (!theirs.empty()) {
        const std::size_t fastest = theirs.size() > 1 ? fastest_of(match_.time(theirs)) : 0;
        players.insert(players.end(), {theirs.front(), theirs[fastest]});
      }
    }
    const std::vector<Timed> match = match_.time(players, kRuns);
    const auto& failures = match_.last_failures();
    row.ours = match[0];
    row.first = match[1];
    row.best = match[2];
    if (std::isnan(row.ours.us)) {
      row.missing = "ours failed", row.detail = failures[0];
    } else if (std::isnan(row.first.us)) {
      row.missing = reason_of(failures[1]), row.detail = failures[1];
    }
    if (match.size() > 3) {
      row.nvmmh = match[3];
      row.nvmmh_best = match[4];
    }
    return row;
  }

 private:
  const Selector& selector_;
  CutlassPeer* rival_;
  GpuMatch match_;
};

/// Our speed divided by a peer's.
Summary against(Timed Row::*peer, const std::vector<const Row*>& rows) {
  std::vector<std::pair<Timed, Timed>> pairs;
  for (const Row* row : rows) pairs.emplace_back(row->ours, row->*peer);
  return compare(pairs);
}

std::string kind_of(const GemmProblem& p) {
  if (p.k % 8 != 0 || p.n % 8 != 0) return "rows not 16-byte aligned";
  if (p.m <= 16) return "m 1 to 16";
  if (p.m <= 256) return "m 17 to 256";
  return "m above 256";
}

using Groups = std::map<std::string, std::vector<const Row*>>;

void print_line(const std::string& kind, const std::vector<const Row*>& rows) {
  const Summary first = against(&Row::first, rows), best = against(&Row::best, rows);
  fmt::print("{:22} {:>5} | {:>8.3f} {:>7.3f} {:>7.3f} {:>5} {:>6} | {:>8.3f} {:>7.3f} {:>5} {:>6}\n", kind,
             rows.size(), first.geomean, first.p10, first.least, first.wins, first.losses, best.geomean,
             best.p10, best.wins, best.losses);
}

void print_line_nvmmh(const std::string& kind, const std::vector<const Row*>& rows) {
  const Summary first = against(&Row::nvmmh, rows), best = against(&Row::nvmmh_best, rows);
  const auto exact = std::ranges::count_if(rows, [](const Row* row) { return row->exact; });
  fmt::print("{:22} {:>5} {:>5} | {:>8.3f} {:>7.3f} {:>7.3f} {:>5} {:>6} | {:>8.3f} {:>7.3f} {:>5} {:>6}\n",
             kind, first.problems, exact, first.geomean, first.p10, first.least, first.wins, first.losses,
             best.geomean, best.p10, best.wins, best.losses);
}

void print_nvmmh(const Groups& kinds, const std::vector<const Row*>& all) {
  fmt::print("\n{:22} {:>5} {:>5} | {:>8} {:>7} {:>7} {:>5} {:>6} | {:>8} {:>7} {:>5} {:>6}\n",
             "ours over nvMatmulH.'s", "", "exact", "first", "P10", "min", "wins", "losses", "best of 8",
             "P10", "wins", "losses");
  for (const auto& [kind, of] : kinds) print_line_nvmmh(kind, of);
  print_line_nvmmh("all", all);
  fmt::print("RESULT gemm_cuda.geomean_vs_nvmmh_top1 {:.4f} x\n", against(&Row::nvmmh, all).geomean);
  fmt::print("RESULT gemm_cuda.geomean_vs_nvmmh_top8 {:.4f} x\n", against(&Row::nvmmh_best, all).geomean);
}

/// `of`: "" or the name of a distribution and a point.
void print_results(const std::string& of, const std::vector<const Row*>& rows) {
  const Summary first = against(&Row::first, rows);
  fmt::print("RESULT gemm_cuda.{}geomean_vs_cublaslt {:.4f} x\n", of, first.geomean);
  fmt::print("RESULT gemm_cuda.{}p10_vs_cublaslt {:.4f} x\n", of, first.p10);
  fmt::print("RESULT gemm_cuda.{}min_vs_cublaslt {:.4f} x\n", of, first.least);
  const Summary torch = against(&Row::torch, rows);
  if (torch.problems == 0) return;
  fmt::print("RESULT gemm_cuda.{}geomean_vs_torch {:.4f} x\n", of, torch.geomean);
  fmt::print("RESULT gemm_cuda.{}p10_vs_torch {:.4f} x\n", of, torch.p10);
}

/// The ten largest gains over PyTorch, and the ten largest losses.
void print_extremes(std::vector<const Row*> rows) {
  std::erase_if(rows, [](const Row* row) { return std::isnan(row->torch.us); });
  if (rows.empty()) return;
  std::ranges::sort(rows, {}, [](const Row* row) { return row->ours.us / row->torch.us; });
  constexpr std::size_t kShown = 10;
  fmt::print("\n{:44} {:>10} {:>10} {:>10} {:>8}\n", "largest gains and losses over PyTorch", "ours us",
             "first us", "PyTorch us", "speed");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i >= kShown && i + kShown < rows.size()) continue;
    const Row& row = *rows[i];
    fmt::print("{:44} {:>10.2f} {:>10.2f} {:>10.2f} {:>8.3f}\n", print(row.problem), row.ours.us,
               row.first.us, row.torch.us, row.torch.us / row.ours.us);
  }
}

void print_left_out(const std::vector<Row>& rows) {
  for (const char* reason : kReasons) {
    const auto count = std::ranges::count(rows, reason, &Row::missing);
    if (count > 0) fmt::print("left out: {} {}\n", count, reason);
  }
}

void print_tables(const std::vector<Row>& rows) {
  Groups kinds, distributions;
  std::vector<const Row*> all;
  for (const Row& row : rows) {
    if (!row.missing.empty()) continue;
    kinds[kind_of(row.problem)].push_back(&row);
    distributions[row.distribution].push_back(&row);
    all.push_back(&row);
  }
  fmt::print("\n{:22} {:>5} | {:>8} {:>7} {:>7} {:>5} {:>6} | {:>8} {:>7} {:>5} {:>6}\n",
             "ours over cuBLASLt's", "", "first", "P10", "min", "wins", "losses", "best of 8", "P10", "wins",
             "losses");
  for (const auto& [kind, of] : kinds) print_line(kind, of);
  if (distributions.size() > 1) {
    for (const auto& [name, of] : distributions) print_line(name, of);
  }
  print_line("all", all);
  print_left_out(rows);
  print_extremes(all);
  print_results("", all);
  fmt::print("RESULT gemm_cuda.geomean_vs_cublaslt_best_of_8 {:.4f} x\n", against(&Row::best, all).geomean);
  if (distributions.size() > 1) {
    for (const auto& [name, of] : distributions) print_results(name + '.', of);
  }
  if (against(&Row::nvmmh, all).problems > 0) print_nvmmh(kinds, all);
}

void write_csv(const std::string& file, const std::vector<Row>& rows) {
  std::ofstream out = open_csv(file,
                               "problem,weight,config,ours_us,first_us,best_of_8_us,noisy,nvmmh_us,"
                               "nvmmh_best_of_8_us,nvmmh_exact,torch_us,distribution,missing");
  for (const Row& row : rows) {
    out << fmt::format("{},{:g},{},{:.4f},{:.4f},{:.4f},{},{:.4f},{:.4f},{},{:.4f},{},{}\n",
                       print(row.problem), row.problem.weight, row.config, row.ours.us, row.first.us,
                       row.best.us, row.ours.noisy || row.first.noisy, row.nvmmh.us, row.nvmmh_best.us,
                       row.exact, row.torch.us, row.distribution, row.missing);
  }
}

/// One pass of each model over a number of tokens: the sum over its products, each times its calls.
void compare_decoding(Match& match, DType dtype) {
  fmt::print("\n{:16} {:>6} {:>9} {:>12} {:>12} {:>12} {:>7} {:>7}\n", "model", "tokens", "products",
             "ours us", "first us", "best of 8", "ratio", "of 8");
  for (const char* model : {"llama-3-8b", "qwen2.5-7b"}) {
    const auto products = make_problem_set({.set = "llm", .dtype = dtype, .models = {model}});
    for (const std::int64_t tokens : {1, 8, 64, 512}) {
      double ours = 0, first = 0, best = 0;
      std::size_t count = 0;
      for (const GemmProblem& problem : products) {
        if (problem.m != tokens) continue;
        const Row row = match.play(problem);
        if (!row.missing.empty()) fail(Errc::device_failure, "{}: not timed: {}", print(problem), row.detail);
        ours += problem.weight * row.ours.us;
        first += problem.weight * row.first.us;
        best += problem.weight * row.best.us;
        ++count;
      }
      fmt::print("{:16} {:>6} {:>9} {:>12.1f} {:>12.1f} {:>12.1f} {:>7.3f} {:>7.3f}\n", model, tokens, count,
                 ours, first, best, first / ours, best / ours);
    }
  }
}

/// The problems, and for each the distribution that it is of: the name of its file.
struct Problems {
  std::vector<GemmProblem> all;
  std::vector<std::string> distributions;
};

Problems read_problems(const Options& options) {
  Problems problems;
  for (const std::string& file : options.problems) {
    const std::vector<GemmProblem> read = read_problems_of<GemmProblem>(file);
    if (read.empty()) fail(Errc::invalid_argument, "{} has no problems", file);
    problems.all.insert(problems.all.end(), read.begin(), read.end());
    problems.distributions.resize(problems.all.size(), std::filesystem::path(file).stem().string());
  }
  const Signature first = signature_of(problems.all.front());
  for (const GemmProblem& problem : problems.all) {
    if (!(signature_of(problem) == first))
      fail(Errc::invalid_argument, "{} and {}: types or layouts differ; give each a run of its own",
           print(problems.all.front()), print(problem));
  }
  return problems;
}

int run(const Options& options) {
  if (const std::string why = cuda_missing(); !why.empty()) {
    fmt::print("gemm_cuda: not measured: {}\n", why);
    return 3;
  }
  const auto [problems, distributions] = read_problems(options);
  const TorchTimes torch = read_torch_times(options.torch);
  Selector selector = Selector::load(options.model, cuda_request("cublaslt"));
  fmt::print("{}; {} on {} problems of {}\n", cuda_backend().device().model, options.model, problems.size(),
             fmt::join(options.problems, ", "));
  for (const auto& warning : selector.warnings()) fmt::print("warning: {}\n", warning);
  compare_deciding(selector, problems);  // comes first, because the heuristic caches results
  const auto peer = CutlassPeer::here(signature_of(problems.front()));
  Match match(selector, peer.get());
  std::vector<Row> rows;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    Row row = match.play(problems[i]);
    row.distribution = distributions[i];
    row.torch = {torch.of(problems[i]), false};
    if (!row.missing.empty()) {
      const std::string ran =
          std::isnan(row.ours.us) ? "" : fmt::format("; ours runs in {:.2f} us", row.ours.us);
      fmt::print("left out: {}: {}: {}{}\n", print(problems[i]), row.missing, row.detail, ran);
    }
    rows.push_back(std::move(row));
  }
  if (std::ranges::none_of(rows, &std::string::empty, &Row::missing))
    fail(Errc::device_failure, "none of {} problems could be timed", problems.size());
  if (!options.csv.empty()) write_csv(options.csv, rows);
  if (!options.no_decode) compare_decoding(match, problems.front().dtype_a);
  print_tables(rows);
  return 0;
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  bench::Options options;
  CLI::App app("a model's choices against cuBLASLt's and nvMatmulHeuristics'");
  app.add_option("--problems", options.problems, "files of one-line forms, all of one signature")->required();
  app.add_option("--model", options.model, "model folder")->capture_default_str();
  app.add_option("--torch", options.torch, "file of PyTorch's times (bench/torch_times.py)");
  app.add_option("--csv", options.csv, "write every problem's times");
  app.add_flag("--no-decode", options.no_decode, "leave out the passes of language models");
  return bench::run_bench("gemm_cuda", app, argc, argv, [&] { return bench::run(options); });
}
