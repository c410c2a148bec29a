// Compares the native CPU convolution kernels with oneDNN in one run with the same threads. For each problem:
// the best measured config of a rule set, the model's choice where a model is installed or given, and oneDNN.
//
// Like is compared with like, twice. With a filter that is packed once (`prepacked`), our packing and
// oneDNN's conversion of the filter are outside both times: column ratio, and all results without another
// word. End to end, both are inside: column both, and results `_with_reorder`. conv_bwd_weight has no filter
// to pack; its ratio is with oneDNN's kernel alone, which leaves the result in oneDNN's own format.
//
//     conv_cpu [--op conv_fwd] [--filter g=32] [--rules default] [--model FOLDER] [--threads 2] [--csv FILE]
//     conv_cpu --peer-only                                           # oneDNN alone, verified
//     conv_cpu --all conv_fwd:1x64x56x56:64x3x3:fp32:nhwgc:pad=1     # every config of one problem, by time
//
// Problems are the lines of conv_cpu.txt. Images are channels-last. Our time is one run of a launch
// (CpuTimer::timed_call).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>

#include "backend/cpu/cpu_backend.h"
#include "bench_program.h"
#include "core/fail.h"
#include "core/names.h"
#include "cpu_timing.h"
#include "measure/load_watch.h"
#include "onednn_conv.h"
#include "op/problem_sets.h"
#include "peers.h"

namespace kscout::bench {
namespace {

constexpr std::size_t kFinalists = 6;

struct Options {
  std::string op, lines, rules = "default", csv;
  std::vector<std::string> models, problems;
  int threads = 0;
  bool all = false;
};

/// The results of one problem, in microseconds.
struct Row {
  ConvProblem problem;
  double ours = kUnknown, chosen = kUnknown;            ///< with a filter that was packed before
  double setup = 0;                                     ///< packing of the filter by the best config
  double ours_both = kUnknown, chosen_both = kUnknown;  ///< best config and choice, each packing in its call
  double kernel = kUnknown;   ///< oneDNN's kernel, with the filter in its own format
  double convert = kUnknown;  ///< conversion of the filter; 0 when oneDNN uses the plain format
  double both = kUnknown;     ///< oneDNN from plain operands to a plain result
  double others = 0;          ///< CPUs that other processes kept busy meanwhile
  std::string config, implementation;
};

/// Every problem is in one of these slices.
std::string kind_of(const ConvProblem& p) {
  if (p.layout == Layout::ndhwgc) return "3-D";
  if (p.h == 1 && p.y == 1 && p.w > 1) return "1-D";
  if (p.g > 1) return p.c == p.g ? "depthwise" : "grouped";
  if (p.c <= 4) return "stem";
  if (is_pointwise(p)) return "1x1";
  return p.y == 3 && p.x == 3 ? "dense 3x3" : "dense, other filters";
}

/// Slices that overlap each other and the kinds.
std::vector<std::string> traits_of(const ConvProblem& p) {
  std::vector<std::string> traits;
  if (p.stride_d * p.stride_h * p.stride_w > 1) traits.emplace_back("any, strided");
  if (p.dilation_d * p.dilation_h * p.dilation_w > 1) traits.emplace_back("any, dilated");
  traits.emplace_back(p.n == 1 ? "any, batch 1" : "any, batch above 1");
  return traits;
}

std::vector<ConvProblem> problems_of(const Options& options) {
  std::vector<ConvProblem> all;
  if (options.problems.empty()) all = read_problems_of<ConvProblem>(KSCOUT_BENCH "/conv_cpu.txt");
  for (const std::string& text : options.problems) all.push_back(parse_conv_problem(text));
  std::erase_if(all, [&](const ConvProblem& p) {
    return (!options.op.empty() && p.op != parse<Op>(options.op)) ||
           print(p).find(options.lines) == std::string::npos;
  });
  if (all.empty())
    fail(Errc::invalid_argument, "no problem has the text '{}' and the direction of --op", options.lines);
  for (const ConvProblem& p : all) {
    if (p.dtype_in != DType::fp32 || (p.layout != Layout::nhwgc && p.layout != Layout::ndhwgc))
      fail(Errc::invalid_argument, "{}: only fp32 in layout nhwgc or ndhwgc is compared", print(p));
  }
  return all;
}

/// This machine, restricted to the threads of --threads.
Device device_of(const Options& options) {
  Device device = backend("cpu").device();
  if (options.threads == 0) return device;
  if (options.threads > device.cores)
    fail(Errc::invalid_argument, "--threads {}: {} cores are here", options.threads, device.cores);
  device.cores = options.threads;
  device.name = fmt::format("{}-{}c", device.arch, options.threads);
  return device;
}

// ---- The model's choice.

class Models {
 public:
  Models(const Options& options, const Device& device, const std::set<Op>& ops) {
    const SelectorRequest request{.provider = "native", .device = device, .rules = options.rules};
    for (const std::string& model : options.models) selectors_.push_back(Selector::load(model, request));
    if (options.models.empty()) {
      for (const Op op : ops) {
        const auto model = find_model(op, DType::fp32, device, request.devices);
        if (model) selectors_.push_back(Selector::load(*model, request));
      }
    }
    for (const Selector& one : selectors_) {
      fmt::print("model {}\n", one.model_path().string());
      for (const std::string& warning : one.warnings()) fmt::print("warning: {}\n", warning);
    }
  }

  /// Nothing when no model covers the problem.
  std::optional<Choice> choose(const ConvProblem& problem) const {
    for (const Selector& one : selectors_) {
      Choice choice;
      if (one.try_select(problem, choice) == SelectStatus::ok &&
          (choice.decided_by == ChoiceSource::model || choice.decided_by == ChoiceSource::any_cpu))
        return choice;
    }
    return std::nullopt;
  }

 private:
  std::vector<Selector> selectors_;
};

// ---- Compares results: a mismatch means that the two sides compute different things.

/// Largest difference relative to what rounding can cause, with operands in [-1, 1]: a sum of k products has
/// norms |a| |b| of about k / 3, and op/gemm/gemm_reference.h allows 8 round-offs of them to each side.
double mismatch(const ConvProblem& problem, const float* found, const std::vector<float>& expected) {
  const auto products = static_cast<double>(implicit_gemm(problem).k);
  const auto tolerance = static_cast<float>(16 * 0x1p-24 * (products / 3 + 1));
  float largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float difference = std::fabs(found[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  }
  return largest / tolerance;
}

// ---- Measures one problem.

class Match {
 public:
  Match(const Options& options, const Device& device, const Models& models, std::ofstream& csv)
      : options_(options), device_(device), models_(models), csv_(csv) {}

  Row play(const ConvProblem& given) {
    ConvProblem problem = given;
    problem.prepacked = problem.op != Op::conv_bwd_weight;
    const LoadWatch watch;
    CpuTimer timer(problem);
    const auto [in, wei, out] = by_tensor(problem.op, timer.a(), timer.b(), timer.c());
    OneDnnConv peer(problem, {.in = in, .wei = wei, .out = out});
    peer.both();
    const std::vector<float> expected(timer.c(), timer.c() + timer.c_elements());
    const std::vector<OurConfig> configs = add_configs(timer, problem, expected);
    SideBySide& match = timer.match();
    const Candidate& kernel = match.add({.name = "kernel", .peer = true, .call = [&] { peer.compute(); }});
    match.coarse();
    match.interleaved(kFinalists);
    Row row{
        .problem = problem, .kernel = kernel.time_us, .config = {}, .implementation = peer.implementation()};
    if (const Candidate* const best = match.best(false)) {
      row.ours = best->time_us;
      row.config = short_name(best->name);
    }
    for (const OurConfig& one : configs) {
      if (one.timed->extra) row.chosen = one.timed->time_us;
      if (short_name(one.timed->name) == row.config) row.setup = one.setup_us;
      if (csv_.is_open())
        csv_ << fmt::format("{},{},{:.3f},{:.3f},{:.3f},{:.3f}\n", print(problem),
                            short_name(one.timed->name), one.timed->coarse_us, one.timed->time_us,
                            one.setup_us, row.kernel);
    }
    play_end_to_end(problem, peer, configs, expected, row);
    row.others = watch.seen().others;
    if (options_.all) list_configs(match, row);
    return row;
  }

  int wrong() const { return wrong_; }

 private:
  /// A config of ours and the time of packing its filter once.
  struct OurConfig {
    KernelConfig config;
    const Candidate* timed;
    double setup_us;
  };

  /// From plain operands to a plain result: the configs whose run and packing take the least, and oneDNN with
  /// its conversion.
  void play_end_to_end(ConvProblem problem, OneDnnConv& converting, std::vector<OurConfig> configs,
                       const std::vector<float>& expected, Row& row) {
    problem.prepacked = false;
    CpuTimer timer(problem);
    std::erase_if(configs, [](const OurConfig& one) { return one.timed->extra; });
    std::ranges::stable_sort(configs, {}, [](const OurConfig& one) {
      return (std::isfinite(one.timed->time_us) ? one.timed->time_us : one.timed->coarse_us) + one.setup_us;
    });
    configs.resize(std::min(configs.size(), kFinalists));
    for (const OurConfig& one : configs)
      add_verified(timer, problem, expected, one.config, one.timed->name, false);
    if (const auto choice = models_.choose(problem))
      add_verified(timer, problem, expected, choice->config, Selector::name(problem, *choice), true);
    SideBySide& match = timer.match();
    const Candidate& both = match.add({.name = "both", .peer = true, .call = [&] { converting.both(); }});
    const Candidate& convert =
        match.add({.name = "convert", .peer = true, .call = [&] { converting.convert(); }});
    match.coarse();
    match.interleaved(kFinalists);
    row.both = both.time_us;
    row.convert = converting.converts() ? convert.time_us : 0;
    if (const Candidate* const best = match.best(false)) row.ours_both = best->time_us;
    for (const Candidate& one : match.candidates()) {
      if (one.extra) row.chosen_both = one.time_us;
    }
  }

  /// The rule set's family for a problem; null when the provider has no kernels for its direction.
  const Family* family_for(const ConvProblem& problem) {
    const Signature signature = signature_of(problem);
    const auto known = std::ranges::find(families_, signature, &Family::signature);
    if (known != families_.end()) return known->configs.size() == 0 ? nullptr : &*known;
    Family family;
    family.signature = signature;
    try {
      family = enumerate({.provider = "native",
                          .signature = signature,
                          .device = device_,
                          .rules = options_.rules,
                          .filter = {}});
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      fmt::print("{}: oneDNN alone: {}\n", word(problem.op), error.what());
    }
    families_.push_back(std::move(family));
    return families_.back().configs.size() == 0 ? nullptr : &families_.back();
  }

  std::vector<OurConfig> add_configs(CpuTimer& timer, const ConvProblem& problem,
                                     const std::vector<float>& expected) {
    std::vector<OurConfig> added;
    const auto add = [&](const KernelConfig& config, const std::string& name, bool extra) {
      const Candidate* const one = add_verified(timer, problem, expected, config, name, extra);
      if (one) added.push_back({config, one, timer.last_setup_us()});
    };
    const Family* const family = family_for(problem);
    if (!family) return added;
    const int wrong_before = wrong_;
    std::vector<std::uint8_t> applicable(family->configs.size());
    applicable_configs(*family, problem, applicable);
    for (std::size_t i = 0; i < family->configs.size(); ++i) {
      if (applicable[i]) add(family->configs[i], family->name(i), false);
    }
    if (std::ranges::find(applicable, 1) == applicable.end()) {
      ++wrong_;
      fmt::print("NO CONFIG {}: none of {} applies\n", print(problem), family->configs.size());
    }
    if (const auto choice = models_.choose(problem))
      add(choice->config, Selector::name(problem, *choice), true);
    if (wrong_ > wrong_before)
      fmt::print("WRONG {}: {} of {} configs\n", print(problem), wrong_ - wrong_before, applicable.size());
    return added;
  }

  /// Null for a config that is refused or wrong.
  const Candidate* add_verified(CpuTimer& timer, const ConvProblem& problem,
                                const std::vector<float>& expected, const KernelConfig& config,
                                const std::string& name, bool extra) {
    const Candidate* const added = timer.add(config, name, extra);
    if (!added) return nullptr;
    timer.run_on_poisoned(*added);
    const double error = mismatch(problem, timer.c(), expected);
    if (error <= 1) return added;
    if (reported_.insert(short_name(name)).second) {  // once per config, not for every problem
      fmt::print("WRONG {}: {} differs from oneDNN, {:.3g} of the tolerance\n", print(problem),
                 short_name(name), error);
    }
    ++wrong_;
    timer.match().drop_last();
    return nullptr;
  }

  static void list_configs(const SideBySide& match, const Row& row) {
    std::vector<const Candidate*> order;
    for (const Candidate& one : match.candidates()) {
      if (!one.peer) order.push_back(&one);
    }
    // Finalists first: only their times were taken beside oneDNN's.
    std::ranges::stable_sort(order, {}, [](const Candidate* one) {
      const bool in_rounds = std::isfinite(one->time_us);
      return std::pair(!in_rounds, in_rounds ? one->time_us : one->coarse_us);
    });
    fmt::print("\n{}\n{:>10} {:>8} {:>7} {:6}  config\n", print(row.problem), "us", "GFLOPS", "ratio", "");
    for (const Candidate* one : order) {
      const bool in_rounds = std::isfinite(one->time_us);
      const double us = in_rounds ? one->time_us : one->coarse_us;
      fmt::print("{:10.2f} {:8.2f} {:7.3f} {:6}  {}{}\n", us, gflops(row.problem, us), row.kernel / us,
                 in_rounds ? "rounds" : "coarse", short_name(one->name), one->extra ? " (chosen)" : "");
    }
  }

  const Options& options_;
  const Device& device_;
  const Models& models_;
  std::ofstream& csv_;
  std::deque<Family> families_;
  std::set<std::string> reported_;
  int wrong_ = 0;
};

// ---- Prints.

void print_header() {
  fmt::print(
      "{:58} {:>9} {:>7} {:>8} {:>9} {:>9} {:>7} {:>8} {:>9} {:>6} {:>6} {:>6}  config (oneDNN's kernel)\n",
      "problem", "native us", "GFLOPS", "packing", "both us", "onednn us", "GFLOPS", "reorder", "both us",
      "ratio", "both", "chosen");
}

void print_row(const Row& row) {
  std::string text = print(row.problem);
  for (const std::string_view part : {":fp32", ":prepacked=1"}) {
    if (const auto at = text.find(part); at != std::string::npos) text.erase(at, part.size());
  }
  fmt::print(
      "{:58} {:9.2f} {:7.2f} {:8.2f} {:9.2f} {:9.2f} {:7.2f} {:8.2f} {:9.2f} {:>6} {:>6} {:>6}  {} ({}){}\n",
      text, row.ours, gflops(row.problem, row.ours), row.setup, row.ours_both, row.kernel,
      gflops(row.problem, row.kernel), row.convert, row.both, ratio_text(row.kernel / row.ours),
      ratio_text(row.both / row.ours_both), ratio_text(row.kernel / row.chosen), row.config,
      row.implementation, load_text(row.others));
  std::fflush(stdout);
}

/// Peer times divided by ours.
struct Ratios {
  std::vector<double> values;
  void add(double ratio) {
    if (!std::isnan(ratio)) values.push_back(ratio);
  }
  double geomean() const { return bench::geomean(values); }
  double least() const { return values.empty() ? kUnknown : *std::ranges::min_element(values); }
};

/// The comparisons of a slice: packed before, end to end, and the model's choice for each.
struct Slice {
  Ratios best, both, chosen, chosen_both;
  void add(const Row& row) {
    best.add(row.kernel / row.ours);
    both.add(row.both / row.ours_both);
    chosen.add(row.kernel / row.chosen);
    chosen_both.add(row.both / row.chosen_both);
  }
};

void print_slice(std::string_view direction, const std::string& name, const Slice& slice) {
  fmt::print("{:16} {:22} {:>8} {:>8} {:>7} {:>10} {:>8} {:>7}\n", direction, name, slice.best.values.size(),
             ratio_text(slice.best.geomean()), ratio_text(slice.best.least()),
             ratio_text(slice.both.geomean()), ratio_text(slice.chosen.geomean()),
             ratio_text(slice.chosen.least()));
}

void print_result(const std::string& name, double value) {
  if (!std::isnan(value)) fmt::print("RESULT conv_cpu.{} {:.3f} x\n", name, value);
}

void print_tables(const std::vector<Row>& rows) {
  fmt::print("\n{:16} {:22} {:>8} {:>8} {:>7} {:>10} {:>8} {:>7}\n", "direction", "slice", "problems",
             "geomean", "worst", "end to end", "chosen", "worst");
  Slice all;
  std::map<Op, Slice> directions;
  std::map<Op, std::map<std::string, Slice>> slices;
  for (const Row& row : rows) {
    if (std::isnan(row.ours)) continue;
    all.add(row);
    directions[row.problem.op].add(row);
    auto& of_direction = slices[row.problem.op];
    of_direction[kind_of(row.problem)].add(row);
    for (const std::string& trait : traits_of(row.problem)) of_direction[trait].add(row);
  }
  for (const auto& [op, of_direction] : slices) {
    for (const auto& [name, slice] : of_direction) print_slice(word(op), name, slice);
    print_slice(word(op), "all", directions[op]);
  }
  const auto worst = std::ranges::min_element(rows, {}, [](const Row& row) {
    const double ratio = row.kernel / row.ours;
    return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
  });
  fmt::print("worst {}\n", print(worst->problem));
  for (const auto& [op, slice] : directions) {
    const std::string direction(word(op).substr(std::string_view("conv_").size()));
    print_result(direction + "_geomean_vs_onednn", slice.best.geomean());
    print_result(direction + "_geomean_vs_onednn_with_reorder", slice.both.geomean());
    // The same problems are in both, so this is the mean of the best config's time over the choice's, packing
    // included.
    print_result(direction + "_chosen_vs_best", slice.chosen_both.geomean() / slice.both.geomean());
  }
  print_result("min_vs_onednn", all.best.least());
  print_result("chosen_vs_onednn", all.chosen.geomean());
  print_result("chosen_min_vs_onednn", all.chosen.least());
  print_result("chosen_vs_onednn_with_reorder", all.chosen_both.geomean());
}

/// How often each config is the best: a family whose configs all win somewhere is worth choosing from.
void print_wins(const std::vector<Row>& rows) {
  for (const Op op : kDirections) {
    std::map<std::string, int> wins;
    int problems = 0, most = 0;
    for (const Row& row : rows) {
      if (row.problem.op != op || row.config.empty()) continue;
      most = std::max(most, ++wins[row.config]);
      ++problems;
    }
    if (problems != 0)
      fmt::print("{}: {} configs are the best of {} problems, one of them {} times\n", word(op), wins.size(),
                 problems, most);
  }
}

int run(const Options& options) {
  const std::vector<ConvProblem> problems = problems_of(options);
  const Device device = device_of(options);
  omp_set_num_threads(static_cast<int>(device.cores));
  fmt::print("{}, {} threads, rule set {}, {} problems\n{}\n", device.model, device.cores, options.rules,
             problems.size(), onednn_about());
  std::set<Op> ops;
  for (const ConvProblem& problem : problems) ops.insert(problem.op);
  const Models models(options, device, ops);
  std::ofstream csv = open_csv(options.csv, "problem,config,coarse_us,time_us,setup_us,onednn_us");
  Match match(options, device, models, csv);
  std::vector<Row> rows;
  if (!options.all) print_header();
  for (const ConvProblem& problem : problems) {
    rows.push_back(match.play(problem));
    if (options.all) print_header();
    print_row(rows.back());
  }
  const bool any = std::ranges::any_of(rows, [](const Row& row) { return !std::isnan(row.ours); });
  if (any) {
    print_tables(rows);
    print_wins(rows);
  }
  const auto loaded = std::ranges::count_if(rows, [](const Row& row) { return row.others > kLoaded; });
  if (loaded != 0) fmt::print("{} problems were timed beside other programs: unreliable\n", loaded);
  if (match.wrong() != 0) fmt::print("{} results are wrong or missing\n", match.wrong());
  if (match.wrong() != 0) return 1;
  return any ? 0 : 3;
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  bench::Options options;
  CLI::App app("native CPU convolution kernels against oneDNN");
  app.add_option("--op", options.op, "only this direction: conv_fwd|conv_bwd_data|conv_bwd_weight");
  app.add_option("--filter", options.lines, "only problems whose one-line form contains this text");
  app.add_option("--rules", options.rules, "rule set");
  app.add_option(
      "--model", options.models,
      "model whose choice is timed too; repeat it for several directions; default: installed ones");
  app.add_option("--threads", options.threads, "threads of both sides; default: all cores")
      ->check(CLI::Range(1, 1024));
  app.add_option("--csv", options.csv, "write the times of every config");
  app.add_flag("--all", options.all, "list every config of each problem, sorted by time");
  app.add_option("problems", options.problems, "one-line forms, instead of the built-in list");
  try {
    return bench::run_bench("conv_cpu", app, argc, argv, [&] { return bench::run(options); });
  } catch (const dnnl::error& error) {
    std::fprintf(stderr, "conv_cpu: oneDNN: %s\n", error.what());
    return 4;
  }
}
