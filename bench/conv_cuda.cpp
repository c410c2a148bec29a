// Compares the model's choice for convolutions on an NVIDIA GPU, and what refinement on the first calls makes
// of it, with cuDNN: its heuristic's first suggestion, and the fastest of eight by timing, as cudnn.benchmark
// finds it. All use at most 256 MiB of workspace, plans that are built before, and cold caches; only kernel
// time counts. Each time is the median of three interleaved runs. Then: time to decide, what the first calls
// cost with refinement (or, without it, time to the first result with plans and compilation), and all
// convolutions of networks, forward and in a training step.
//
//     conv_cuda --problems held_out.txt --model models/conv_fwd_bf16_h200 --model models/conv_bwd_data_bf16_h200
//     conv_cuda --problems pilot.txt --rules FILE.toml            # the best config of a rule set, no model
//
// Without a model for a direction, the best config of the rule set stands for the choice, and the results are
// named `best_...`. With both, a model and --rules, both are measured, and `captured` is the share of the
// best's log speed-up over cuDNN that the choice reaches.
//
// Problems are one-line forms of one element type, in any of the three directions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/selector.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn_library.h"
#include "bench_program.h"
#include "conv_cuda_match.h"
#include "core/fail.h"
#include "measure/timing.h"
#include "op/conv/conv_kind.h"
#include "op/conv/conv_sets.h"
#include "op/problem_sets.h"

namespace kscout::bench {
namespace {

/// Networks of set conv_networks.
constexpr const char* kNetworks[] = {"resnet-50", "mobilenet-v3-large", "convnext-t"};

struct Options {
  std::string problems, csv;
  std::vector<std::string> models, rules;
  std::vector<std::int64_t> batches = {1, 32, 256};
  double budget = 0, network_budget = 600;
  std::size_t refine = 3;
  bool no_networks = false;
};

std::string short_word(Op direction) {
  return std::string(word(direction).substr(std::string_view("conv_").size()));
}

/// Ends after a number of seconds; 0 = never.
class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_ns_(seconds > 0 ? now_ns() + static_cast<std::int64_t>(seconds * 1e9) : 0) {}
  bool over() const { return end_ns_ != 0 && now_ns() > end_ns_; }

 private:
  std::int64_t end_ns_;
};

/// What one direction is measured with.
struct Direction {
  std::optional<Selector> selector;
  std::string rules;  ///< empty: none
  std::optional<ConvMatch> match;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    for (const std::string& model : options.models) {
      models_.push_back(Selector::load(model, cuda_request("cudnn")));
      for (const auto& warning : models_.back().warnings()) fmt::print("warning: {}: {}\n", model, warning);
    }
    csv_ = open_csv(options.csv,
                    "problem,weight,kind,model,config,refused,ours_us,first_us,best_of_8_us,"
                    "best_of_rules_us,refined_config,refined_us,refine_ready_ms,ten_calls,noisy,"
                    "first_result_ms,cudnn_first_result_ms,failure");
  }

  /// Measures one direction's problems until the budget ends.
  void compare(Op op, const std::vector<ConvProblem>& problems) {
    Direction& with = direction(problems);
    const Deadline deadline(options_.budget);
    Selector* const selector = with.selector ? &*with.selector : nullptr;
    const DecisionTimes decisions = compare_conv_deciding(selector, problems);
    if (selector) cold_us_.push_back(decisions.cold_us);
    heuristic_us_.push_back(decisions.heuristic_us);
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (deadline.over()) {
        fmt::print("{}: the budget of {} s is over after {} of {} problems\n", word(op), options_.budget, i,
                   problems.size());
        break;
      }
      ConvRow row = with.match->play(problems[i], true);
      write(row, selector != nullptr);
      print_row(row);
      rows_[op].push_back(std::move(row));
    }
    print_direction(op);
  }

  /// All convolutions of the networks, each times its calls.
  void compare_networks(DType dtype, Layout layout) {
    fmt::print("\n{:20} {:>6} {:14} {:>6} {:>11} {:>11} {:>11} {:>7} {:>7}\n", "network", "batch", "pass",
               "convs", "ours us", "first us", "best of 8", "ratio", "of 8");
    const Deadline deadline(options_.network_budget);
    for (const std::int64_t batch : options_.batches) {
      for (const char* const network : kNetworks) {
        if (!compare_network(network, batch, dtype, layout, deadline)) {
          fmt::print("the budget of {} s for networks is over before {}, batch {}\n", options_.network_budget,
                     network, batch);
          return;
        }
      }
    }
  }

  void print_results() const {
    std::vector<const ConvRow*> grouped;
    std::vector<double> first_ms, cudnn_first_ms, refine_ready_ms, ten_calls;
    bool models = true, any = false;
    for (const auto& [op, rows] : rows_) {
      models = models && has_model(op);
      for (const ConvRow& row : rows) {
        any = true;
        if (!std::isnan(row.first_result_ms)) first_ms.push_back(row.first_result_ms);
        if (!std::isnan(row.cudnn_first_result_ms)) cudnn_first_ms.push_back(row.cudnn_first_result_ms);
        if (!std::isnan(row.refine_ready_ms)) refine_ready_ms.push_back(row.refine_ready_ms);
        if (!std::isnan(row.ten_calls)) ten_calls.push_back(row.ten_calls);
        const ConvKind kind = conv_kind(row.problem);
        if (row.failure.empty() && (kind == ConvKind::grouped || kind == ConvKind::depthwise))
          grouped.push_back(&row);
      }
    }
    if (!any) return;
    if (!grouped.empty())
      fmt::print("RESULT conv_cuda.grouped_and_depthwise.{}geomean_vs_cudnn {:.4f} x\n",
                 models ? "" : "best_", against(&ConvRow::first, grouped).geomean);
    const auto median = [](std::vector<double> values) {
      std::ranges::sort(values);
      return values[values.size() / 2];
    };
    const auto print_median = [&](const char* name, const std::vector<double>& values, const char* unit) {
      if (!values.empty()) fmt::print("RESULT conv_cuda.{} {:.2f} {}\n", name, median(values), unit);
    };
    print_median("cold_us", cold_us_, "us");
    print_median("cudnn_heuristic_us", heuristic_us_, "us");
    print_median("first_result_ms", first_ms, "ms");
    print_median("cudnn_first_result_ms", cudnn_first_ms, "ms");
    print_median("refine_ready_ms", refine_ready_ms, "ms");
    print_median("ten_calls_over_first_suggestion", ten_calls, "x");
    if (ten_calls.empty()) return;
    std::ranges::sort(ten_calls);
    fmt::print("RESULT conv_cuda.ten_calls_p90 {:.2f} x\nRESULT conv_cuda.ten_calls_most {:.2f} x\n",
               ten_calls[ten_calls.size() * 9 / 10], ten_calls.back());
  }

  /// Whether any problem was timed.
  bool any_timed() const {
    return std::ranges::any_of(rows_, [](const auto& of) {
      return std::ranges::any_of(of.second, [](const ConvRow& row) { return row.failure.empty(); });
    });
  }

 private:
  bool has_model(Op op) const { return directions_.at(op).selector.has_value(); }

  /// Finds the model of the problems' direction, once.
  Direction& direction(std::span<const ConvProblem> problems) {
    const Op op = problems.front().op;
    const auto [at, added] = directions_.try_emplace(op);
    Direction& made = at->second;
    if (!added) return made;
    for (const Selector& one : models_) {
      if (!made.selector && std::ranges::any_of(problems, [&](const ConvProblem& problem) {
            Choice choice;
            return one.try_select(problem, choice) == SelectStatus::ok &&
                   choice.decided_by == ChoiceSource::model;
          }))
        made.selector = one;
    }
    made.rules = rules_of(problems.front());
    if (made.rules.empty() && !made.selector) made.rules = "default";
    fmt::print("\n{}: {}{}\n", word(op),
               made.selector ? "model " + made.selector->model_path().string() : "no model",
               made.rules.empty() ? "" : ", the best of rule set " + made.rules);
    made.match.emplace(made.selector ? &*made.selector : nullptr, made.rules, options_.refine);
    return made;
  }

  /// The first rule set of --rules that has configs for a problem's direction: a file is of one direction.
  std::string rules_of(const ConvProblem& problem) const {
    for (const std::string& rules : options_.rules) {
      try {
        (void)cuda_backend().family(signature_of(problem), rules);
        return rules;
      } catch (const Error& error) {
        fmt::print("not for {}: {}\n", word(problem.op), error.what());
      }
    }
    return {};
  }

  void write(const ConvRow& row, bool model) {
    if (!csv_.is_open()) return;
    std::string failure = row.failure;
    std::ranges::replace(failure, ',', ';');
    std::ranges::replace(failure, '\n', ' ');
    csv_ << fmt::format(
                "{},{:g},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{},{:.4f},{:.3f},{:.3f},{},{:.3f},{:.3f},{}"
                "\n",
                print(row.problem), row.problem.weight, word(conv_kind(row.problem)), model, row.config,
                row.refused, row.ours.us, row.first.us, row.of_8.us, row.best.us, row.refined_config,
                row.refined.us, row.refine_ready_ms, row.ten_calls, row.ours.noisy || row.first.noisy,
                row.first_result_ms, row.cudnn_first_result_ms, failure)
         << std::flush;
  }

  static void print_row(const ConvRow& row) {
    if (!row.failure.empty()) {
      fmt::print("left out: {}: {}\n", print(row.problem), row.failure);
    } else {
      fmt::print("{:78} {:9.2f} {:9.2f} {:9.2f} us  {:6.3f} {:6.3f}  {}\n", print(row.problem), row.ours.us,
                 row.first.us, row.of_8.us, row.first.us / row.ours.us, row.of_8.us / row.ours.us,
                 row.config);
    }
    std::fflush(stdout);
  }

  /// Our speed divided by a peer's.
  static Summary against(Timed ConvRow::*peer, const std::vector<const ConvRow*>& rows,
                         Timed ConvRow::*ours = &ConvRow::ours) {
    std::vector<std::pair<Timed, Timed>> pairs;
    for (const ConvRow* row : rows) pairs.emplace_back(row->*ours, row->*peer);
    return bench::compare(pairs);
  }

  static void print_line(const std::string& kind, const std::vector<const ConvRow*>& rows,
                         Timed ConvRow::*ours = &ConvRow::ours) {
    const Summary first = against(&ConvRow::first, rows, ours), of_8 = against(&ConvRow::of_8, rows, ours);
    if (first.problems == 0) return;
    fmt::print(
        "{:12} {:>8} | {:>8.3f} {:>7.3f} {:>7.3f} {:>5} {:>6} | {:>9.3f} {:>7.3f} {:>5} {:>6} {:>9.3f}\n",
        kind, first.problems, first.geomean, first.p10, first.least, first.wins, first.losses, of_8.geomean,
        of_8.p10, of_8.wins, of_8.losses, calls_over(&ConvRow::of_8, rows, ours));
  }

  /// Sum of a peer's times over ours, each times the problem's calls.
  static double calls_over(Timed ConvRow::*peer, const std::vector<const ConvRow*>& rows,
                           Timed ConvRow::*ours) {
    double theirs_us = 0, ours_us = 0;
    for (const ConvRow* row : rows) {
      if (!((row->*ours).us > 0 && (row->*peer).us > 0)) continue;
      theirs_us += row->problem.weight * (row->*peer).us;
      ours_us += row->problem.weight * (row->*ours).us;
    }
    return theirs_us / ours_us;
  }

  void print_direction(Op op) const {
    std::map<std::string, std::vector<const ConvRow*>> kinds;
    std::vector<const ConvRow*> all;
    std::size_t refused = 0, failed = 0;
    const auto found = rows_.find(op);
    if (found == rows_.end()) return;
    for (const ConvRow& row : found->second) {
      failed += !row.failure.empty();
      refused += row.refused > 0;
      if (!row.failure.empty()) continue;
      kinds[std::string(word(conv_kind(row.problem)))].push_back(&row);
      all.push_back(&row);
    }
    if (all.empty()) return;
    fmt::print("\n{:12} {:>8} | {:>8} {:>7} {:>7} {:>5} {:>6} | {:>9} {:>7} {:>5} {:>6} {:>9}\n",
               short_word(op), "problems", "mode a", "P10", "min", "wins", "losses", "best of 8", "P10",
               "wins", "losses", "all calls");
    for (const auto& [kind, of] : kinds) print_line(kind, of);
    print_line("all", all);
    fmt::print("refined on the first calls\n");
    for (const auto& [kind, of] : kinds) print_line(kind, of, &ConvRow::refined);
    print_line("all", all, &ConvRow::refined);
    if (refused + failed > 0)
      fmt::print("{} problems left out; the library refused the model's first choice for {}\n", failed,
                 refused);
    const std::string what = has_model(op) ? "" : "best_";
    const auto print_slice = [&](const std::string& slice, const std::vector<const ConvRow*>& rows) {
      const Summary first = against(&ConvRow::first, rows);
      fmt::print("RESULT conv_cuda.{}.{}geomean_vs_cudnn {:.4f} x\n", slice, what, first.geomean);
      fmt::print("RESULT conv_cuda.{}.{}p10_vs_cudnn {:.4f} x\n", slice, what, first.p10);
      fmt::print("RESULT conv_cuda.{}.{}min_vs_cudnn {:.4f} x\n", slice, what, first.least);
      fmt::print("RESULT conv_cuda.{}.{}geomean_vs_best_of_8 {:.4f} x\n", slice, what,
                 against(&ConvRow::of_8, rows).geomean);
      const Summary refined = against(&ConvRow::first, rows, &ConvRow::refined),
                    refined_of_8 = against(&ConvRow::of_8, rows, &ConvRow::refined);
      if (refined.problems > 0) {
        fmt::print("RESULT conv_cuda.{}.refined_geomean_vs_cudnn {:.4f} x\n", slice, refined.geomean);
        fmt::print("RESULT conv_cuda.{}.refined_geomean_vs_best_of_8 {:.4f} x\n", slice,
                   refined_of_8.geomean);
      }
      if (has_model(op) && !directions_.at(op).rules.empty()) {
        const double headroom = against(&ConvRow::first, rows, &ConvRow::best).geomean;
        fmt::print("RESULT conv_cuda.{}.best_geomean_vs_cudnn {:.4f} x\n", slice, headroom);
        fmt::print("RESULT conv_cuda.{}.captured {:.3f} 1\n", slice,
                   std::log(first.geomean) / std::log(headroom));
      }
    };
    print_slice(short_word(op), all);
    for (const auto& [kind, of] : kinds) print_slice(short_word(op) + "." + kind, of);
    std::fflush(stdout);
  }

  /// Sums of a network's convolutions, in microseconds.
  struct Pass {
    double ours = 0, first = 0, of_8 = 0;
    std::size_t convs = 0;
    std::string failure;
  };

  static void print_pass(const std::string& network, std::int64_t batch, const char* name, const Pass& pass) {
    if (!pass.failure.empty()) {
      fmt::print("{:20} {:>6} {:14} left out: {}\n", network, batch, name, pass.failure);
      return;
    }
    fmt::print("{:20} {:>6} {:14} {:>6} {:>11.1f} {:>11.1f} {:>11.1f} {:>7.3f} {:>7.3f}\n", network, batch,
               name, pass.convs, pass.ours, pass.first, pass.of_8, pass.first / pass.ours,
               pass.of_8 / pass.ours);
    fmt::print("RESULT conv_cuda.{}.batch_{}.{}_vs_cudnn {:.4f} x\n", network, batch, name,
               pass.first / pass.ours);
    std::fflush(stdout);
  }

  /// False when the deadline came first.
  bool compare_network(const std::string& network, std::int64_t batch, DType dtype, Layout layout,
                       const Deadline& deadline) {
    Pass pass;
    for (const Op op : kDirections) {
      for (ConvProblem problem :
           make_conv_set({.set = "conv_networks", .dtype = dtype, .models = {network}})) {
        // The set has each layer for several batches.
        if (problem.n != 1) continue;
        problem = in_direction(problem, op);
        problem.prepacked = false;
        problem.n = batch;
        if (spatial_rank(layout) == spatial_rank(problem.layout)) problem.layout = layout;
        // Nothing asks for the gradient of a network's input.
        if (op == Op::conv_bwd_data && conv_kind(problem) == ConvKind::stem) continue;
        if (deadline.over()) return false;
        Direction& with = direction({&problem, 1});
        const ConvRow row = with.match->play(problem, false);
        if (!row.failure.empty()) pass.failure = print(problem) + ": " + row.failure;
        pass.ours += problem.weight * row.ours.us;
        pass.first += problem.weight * row.first.us;
        pass.of_8 += problem.weight * row.of_8.us;
        ++pass.convs;
      }
      if (op == Op::conv_fwd) print_pass(network, batch, "forward", pass);
    }
    print_pass(network, batch, "training_step", pass);
    return true;
  }

  const Options& options_;
  std::vector<Selector> models_;
  std::map<Op, Direction> directions_;
  std::map<Op, std::vector<ConvRow>> rows_;
  std::vector<double> cold_us_, heuristic_us_;  ///< a median for each direction
  std::ofstream csv_;
};

/// The problems of each direction in an order that is random, so that any number of them represents all.
std::map<Op, std::vector<ConvProblem>> problems_of(const Options& options) {
  std::map<Op, std::vector<ConvProblem>> found;
  for (const ConvProblem& problem : read_problems_of<ConvProblem>(options.problems))
    found[problem.op].push_back(problem);
  if (found.empty()) fail(Errc::invalid_argument, "{} has no problems", options.problems);
  const DType dtype = found.begin()->second.front().dtype_in;
  for (auto& [op, problems] : found) {
    for (const ConvProblem& problem : problems) {
      if (problem.dtype_in != dtype)
        fail(Errc::invalid_argument, "{}: {} has problems of {} too; compare one type at a time",
             print(problem), options.problems, word(dtype));
    }
    std::mt19937_64 random(1);
    std::ranges::shuffle(problems, random);
  }
  return found;
}

int run(const Options& options) {
  std::string why = cuda_missing();
  if (why.empty()) why = cudnn::missing();
  if (!why.empty()) {
    fmt::print("conv_cuda: not measured: {}\n", why);
    return 3;
  }
  const auto problems = problems_of(options);
  fmt::print("{}, cuDNN {}, problems of {}\n", cuda_backend().device().model, cudnn::version(),
             options.problems);
  Bench bench(options);
  for (const auto& [op, of] : problems) bench.compare(op, of);
  const ConvProblem& any = problems.begin()->second.front();
  bench.print_results();
  if (!options.no_networks) bench.compare_networks(any.dtype_in, any.layout);
  if (!bench.any_timed()) fail(Errc::device_failure, "no problem of {} could be timed", options.problems);
  return 0;
}

}  // namespace
}  // namespace kscout::bench

int main(int argc, char** argv) {
  using namespace kscout;
  bench::Options options;
  CLI::App app("a model's choices for convolutions against cuDNN's");
  app.add_option("--problems", options.problems, "file of one-line forms, one element type")->required();
  app.add_option("--model", options.models, "model folder; repeat it for several directions");
  app.add_option("--rules", options.rules,
                 "rule set, or FILE.toml[:SET], whose best config is measured too; repeat it for several "
                 "directions; default without a model: default");
  app.add_option("--budget", options.budget, "seconds for each direction's problems; 0: no limit")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--csv", options.csv, "write every problem's times");
  app.add_option("--batch", options.batches, "images of a network's pass; repeat it for several")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--network-budget", options.network_budget, "seconds for all networks; 0: no limit")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--refine", options.refine,
         "configs that refinement tries on a problem's first calls; 0: no refinement, and the time to "
         "the first result is measured")
      ->capture_default_str();
  app.add_flag("--no-networks", options.no_networks, "leave out the networks");
  return bench::run_bench("conv_cuda", app, argc, argv, [&] { return bench::run(options); });
}
