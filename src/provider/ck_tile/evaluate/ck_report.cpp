
#include "provider/ck_tile/evaluate/ck_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/csv.h"
#include "core/fail.h"
#include "core/numbers.h"
#include "dataset/columns.h"

namespace kscout {

namespace {

constexpr std::size_t kFew = 5;

std::string_view m_class(std::int64_t m) {
  return m < 8 ? "Tiny" : m < 128 ? "Small" : m < 1024 ? "Medium" : "Large";
}
std::string_view flag(bool value) { return value ? "True" : "False"; }
std::string tflops(double value) { return std::isfinite(value) ? fmt::format("{:.4f}", value) : "0"; }

/// A row of either table, reduced to the common columns.
struct Line {
  std::string oracle, pick, oracle_tflops, predicted_tflops, actual_tflops, efficiency;
  std::string_view match;
};

Line line_of(const ProblemResult& result) {
  const Signature signature = signature_of(result.problem);
  Line line;
  line.oracle = config_name(signature, result.oracle);
  line.oracle_tflops = tflops(tflops_of(result.problem, result.oracle_measured));
  if (!result.picks.empty()) {
    const PickedConfig& pick = result.picks.front();
    line.pick = config_name(signature, pick.config);
    line.predicted_tflops = tflops(pick.predicted_tflops);
    line.actual_tflops = pick.unmeasured ? "0" : tflops(tflops_of(result.problem, pick.measured));
  }
  line.efficiency = fmt::format("{:.4f}", 100 * result.efficiency());
  line.match = flag(result.hit[0]);
  return line;
}

double number_of(const std::string& text) {
  const double value = number_in<double>(text).value_or(0);
  return value > 0 ? value : 0;
}

std::size_t needed(const CsvSheet& sheet, std::initializer_list<std::string_view> names,
                   const std::string& source) {
  for (const auto name : names) {
    if (const auto at = sheet.column(name)) return *at;
  }
  fail(Errc::corrupt_data, "{}: there is no column '{}'", source, *names.begin());
}

}  // namespace

std::string ck_problems_csv(std::span<const ProblemResult> results) {
  const bool conv = !results.empty() && is_direction(results.front().problem.op());
  std::string out =
      conv ? "N,G,C,K,Hi,Wi,Y,X,stride_h,pad_h,oracle_kernel,oracle_tflops,ml_kernel,ml_predicted_tflops,"
             "ml_actual_tflops,efficiency,match,n_kernels\n"
           : "m,n,k,oracle_best_tflops,oracle_best_kernel,ml_predicted_tflops,ml_selected_kernel,ml_actual_"
             "tflops,"
             "efficiency_pct,is_oracle_best,num_kernels,m_class\n";
  for (const ProblemResult& result : results) {
    const Line line = line_of(result);
    if (conv) {
      for (const char* const field : {"n", "g", "c", "k", "h", "w", "y", "x", "stride_h", "left_pad_h"})
        out += fmt::format("{},", result.problem[field]);
      out += fmt::format("{},{},{},{},{},{},{},{}\n", line.oracle, line.oracle_tflops, line.pick,
                         line.predicted_tflops, line.actual_tflops, line.efficiency, line.match, result.pool);
    } else {
      const ImplicitGemm p = product_of(result.problem);
      out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", p.m, p.n, p.k, line.oracle_tflops,
                         line.oracle, line.predicted_tflops, line.pick, line.actual_tflops, line.efficiency,
                         line.match, result.pool, m_class(p.m));
    }
  }
  return out;
}

std::vector<CkPick> ck_picks(std::span<const ProblemResult> results) {
  std::vector<CkPick> picks;
  for (const ProblemResult& r : results)
    picks.push_back({r.efficiency(), r.hit[0], r.pick_place >= 1 && r.pick_place <= kFew});
  return picks;
}

std::string ck_summary_csv(std::span<const CkPick> picks) {
  std::vector<double> sorted;
  double mean = 0, best = 0, few = 0;
  const auto count = static_cast<double>(picks.size());
  for (const CkPick& one : picks) {
    sorted.push_back(100 * one.efficiency);
    mean += 100 * one.efficiency / count;
    best += one.best ? 100 / count : 0;
    few += one.among_five ? 100 / count : 0;
  }
  std::ranges::sort(sorted);
  const auto element = [&](std::size_t i) {
    return sorted.empty() ? 0.0 : sorted[std::min(i, sorted.size() - 1)];
  };
  return fmt::format(
      "metric,value\ntotal_problems,{}\nmean_efficiency,{:.2f}\np10_efficiency,{:.2f}\np50_efficiency,{:.2f}"
      "\n"
      "min_efficiency,{:.2f}\nmax_efficiency,{:.2f}\ntop1_accuracy,{:.1f}\ntop5_hit_rate,{:.1f}\n",
      sorted.size(), mean, element(sorted.size() / 10), element(sorted.size() / 2), element(0),
      element(sorted.size() - 1), best, few);
}

CkComparison compare_ck_tables(std::string_view oracle, const std::string& oracle_name,
                               std::string_view predictions, const std::string& predictions_name) {
  struct Kernel {
    std::string name;
    double tflops;
  };
  const CsvSheet measured = read_csv(oracle, oracle_name), chosen = read_csv(predictions, predictions_name);
  const std::size_t problem = needed(measured, {"problem_idx"}, oracle_name);
  const std::size_t kernel = needed(measured, {"kernel", "kernel_name"}, oracle_name);
  const std::size_t speed = needed(measured, {"tflops"}, oracle_name);
  const std::size_t asked = needed(chosen, {"problem_idx"}, predictions_name);
  const std::size_t name = needed(chosen, {"kernel_name", "kernel"}, predictions_name);
  const std::size_t rank = needed(chosen, {"rank"}, predictions_name);

  std::map<std::string, std::string> picks;
  for (const auto& row : chosen.rows) {
    if (row[rank] == "1") picks.emplace(row[asked], row[name]);
  }
  std::vector<std::string> order;
  std::map<std::string, std::vector<Kernel>> kernels;
  for (const auto& row : measured.rows) {
    auto& of_problem = kernels[row[problem]];
    if (of_problem.empty()) order.push_back(row[problem]);
    of_problem.push_back({row[kernel], number_of(row[speed])});
  }
  CkComparison c;
  c.problems_csv = "problem_idx,oracle_kernel,oracle_tflops,ml_kernel,ml_actual_tflops,efficiency,match\n";
  for (const std::string& one : order) {
    const auto& of_problem = kernels[one];
    const auto best = std::ranges::max_element(of_problem, {}, &Kernel::tflops);
    if (!(best->tflops > 0)) {
      ++c.without_oracle;
      continue;
    }
    const auto pick = picks.find(one);
    c.without_pick += pick == picks.end();
    const std::string& picked = pick == picks.end() ? std::string() : pick->second;
    const auto row = std::ranges::find(of_problem, picked, &Kernel::name);
    const double actual = row == of_problem.end() ? 0 : row->tflops;
    const auto faster = std::ranges::count_if(of_problem, [&](const Kernel& k) { return k.tflops > actual; });
    CkPick& result = c.picks.emplace_back();
    result = {actual / best->tflops, actual > 0 && picked == best->name,
              actual > 0 && faster < static_cast<std::ptrdiff_t>(kFew)};
    c.problems_csv += fmt::format("{},{},{},{},{},{:.4f},{}\n", one, best->name, tflops(best->tflops), picked,
                                  tflops(actual), 100 * result.efficiency, flag(result.best));
  }
  if (c.picks.empty()) fail(Errc::corrupt_data, "{}: no kernel has a speed", oracle_name);
  return c;
}

namespace {

/// Square images and filters.
struct Shape {
  std::int64_t n, c, k, image, filter, stride, pad;
};
constexpr Shape kDataShapes[] = {{32, 1, 1, 5, 3, 1, 0},
                                 {64, 1, 1, 5, 3, 1, 0},
                                 {128, 256, 128, 32, 3, 1, 1},
                                 {2, 128, 256, 32, 3, 1, 1},
                                 {2, 256, 256, 14, 1, 1, 0}};
constexpr Shape kWeightShapes[] = {{1, 64, 64, 7, 1, 1, 0},       {2, 64, 128, 14, 1, 1, 0},
                                   {8, 128, 128, 28, 3, 1, 1},    {16, 128, 256, 14, 3, 1, 1},
                                   {32, 256, 512, 28, 3, 1, 1},   {64, 512, 1024, 14, 3, 2, 1},
                                   {128, 1024, 2048, 28, 5, 1, 2}};
Problem problem_of(const Shape& s, Op op, DType dtype) {
  return parse_any_problem(fmt::format("{}:{}x{}x{}x{}:{}x{}x{}:{}:nhwgc:stride={}:pad={}", word(op), s.n,
                                       s.c, s.image, s.image, s.k, s.filter, s.filter, word(dtype), s.stride,
                                       s.pad));
}

/// Six tiles with compv3 and mem: those of rule set `first` that stage 64 of K.
ConfigTable kernels(const Model& model) {
  return enumerate({.provider = std::string(model.provider()),
                    .signature = model.data().families.front().signature,
                    .device = model.device(),
                    .rules = "first",
                    .filter = "c.tile_k == 64"})
      .configs;
}

}  // namespace

BackwardCheck check_backward(const Model& model) {
  const Family& family = model.data().families.front();
  const Op op = family.configs.space().op;
  if (model.provider() != "ck_tile" || (op != Op::conv_bwd_data && op != Op::conv_bwd_weight)) {
    fail(Errc::invalid_argument,
         "the backward check needs a model of ck_tile's conv_bwd_data or conv_bwd_weight; this one is of {} "
         "{}",
         model.provider(), word(op));
  }
  const DType dtype = family.signature.dtype_a;
  const ConfigTable configs = kernels(model);
  if (configs.size() < BackwardCheck::shown) {
    fail(Errc::unsupported, "rule set 'first' has {} kernels of {} with tile_k 64 on {}; the check needs {}",
         configs.size(), word(family.signature.dtype_a), model.device().name, BackwardCheck::shown);
  }
  const std::span<const Shape> shapes =
      op == Op::conv_bwd_data ? std::span<const Shape>(kDataShapes) : kWeightShapes;
  BackwardCheck check;
  for (const Shape& shape : shapes) {
    const Problem problem = problem_of(shape, op, dtype);
    const auto tflops = model.predicted_tflops(problem, model.score_configs(problem, configs));
    std::vector<std::size_t> order(tflops.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return tflops[i]; });
    BackwardCheck::Line& line = check.lines.emplace_back();
    line.problem = problem;
    for (std::size_t i = 0; i < BackwardCheck::shown; ++i) {
      line.best.push_back(configs[order[i]]);
      line.tflops.push_back(tflops[order[i]]);
    }
    line.gap = line.tflops.front() > 0 ? 1 - line.tflops.back() / line.tflops.front() : 0;
    const Axis& pipeline = configs.space().axes[configs.space().axis_index("pipeline")];
    ++check.pipelines[axis_value_text(pipeline, line.best.front()["pipeline"])];
  }
  const auto count = static_cast<double>(check.lines.size());
  check.least = check.most = check.lines.front().tflops.front();
  for (const auto& line : check.lines) {
    check.mean += line.tflops.front() / count;
    check.mean_gap += line.gap / count;
    check.least = std::min(check.least, line.tflops.front());
    check.most = std::max(check.most, line.tflops.front());
  }
  return check;
}

}  // namespace kscout
