#include "tune/tune.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include <kscout/backend.h>

#include "core/fail.h"
#include "family/family_file.h"
#include "op/operation.h"
#include "op/problem_sets.h"
#include "tune/op_tune.h"

namespace kscout {

namespace {

bool has_layout(Op op, Layout layout) {
  const auto layouts = operation(op).tuned_layouts;
  return std::ranges::find(layouts, layout) != layouts.end();
}

/// The layouts of an operation, for messages.
std::string layouts_text(Op op) {
  std::vector<std::string_view> words;
  for (const Layout layout : operation(op).tuned_layouts) words.push_back(word(layout));
  return fmt::format("{}: {}", word(op), fmt::join(words, ", "));
}

void check_backend(const TuneRequest& request) {
  if (!request.on_gpu()) {
    if (request.dtype != DType::fp32)
      fail(Errc::invalid_argument, "--dtype {}: the kernels of backend cpu are of fp32; give --backend cuda",
           word(request.dtype));
    return;
  }
  if (request.backend != "cuda")
    fail(Errc::invalid_argument, "--backend {}: kscout tune measures on cpu or cuda", request.backend);
  for (const Op op : request.ops) {
    if (op == Op::gemm || is_direction(op)) continue;
    fail(Errc::invalid_argument,
         "--op {}: on a GPU kscout tune is for gemm and convolutions; use kscout sweep and train for others",
         word(op));
  }
}

void check_request(const TuneRequest& request) {
  const std::vector<Op>& ops = request.ops;
  if (!(request.budget_s >= static_cast<double>(ops.size())))
    fail(Errc::invalid_argument, "--budget {}: seconds, 1 or more for each of {} operation{}",
         request.budget_s, ops.size(), ops.size() == 1 ? "" : "s");
  check_backend(request);
  if (!(request.max_gflop >= 0)) fail(Errc::invalid_argument, "--max-gflop {}: 0 or more", request.max_gflop);
  if (!(request.max_load >= 0))
    fail(Errc::invalid_argument, "--max-load {}: a share of 0 to 1", request.max_load);
  if (!(request.held_out >= 0.05))
    fail(Errc::invalid_argument, "--held-out {}: a share of 0.05 to 0.9", request.held_out);
  if (request.against && request.problems.empty())
    fail(Errc::invalid_argument, "--against {}: compares on the problems of --problems; give them, too",
         word(*request.against));
  for (const Op op : ops) {
    if (request.problems.empty()) break;
    check_against(request.compared_with(op), op, request.backend);
    if (request.own_problems(op).empty())
      fail(Errc::invalid_argument,
           "--problems: none of the {} problems is a {} of {}; name other operations with --op, "
           "or another list",
           request.problems.size(), word(op), word(request.dtype));
  }
  for (const Layout layout : request.layouts) {
    if (std::ranges::any_of(ops, [&](Op op) { return has_layout(op, layout); })) continue;
    std::string known;
    for (const Op op : ops) known += (known.empty() ? "" : "; ") + layouts_text(op);
    fail(Errc::invalid_argument, "--layout {}: no operation to tune has it ({})", word(layout), known);
  }
}

/// The comparison with a library of the CPU comes after all measuring: says early that it may be refused.
void warn_before_comparison(const TuneRequest& request, const TuneProgress& progress) {
  if (!progress.note || request.problems.empty() || !is_blas(request.compared_with(request.ops.front())))
    return;
  const std::string busy = busy_text(load_during(wait_a_second), request.max_load);
  if (busy.empty()) return;
  progress.note(
      fmt::format("warning: {}. The comparison with {}, after the measuring, is refused on a busy "
                  "machine",
                  busy, word(request.compared_with(request.ops.front()))));
}

}  // namespace

std::set<Layout> TuneRequest::layouts_of(Op op) const {
  std::set<Layout> wanted;
  for (const Layout layout : layouts) {
    if (has_layout(op, layout)) wanted.insert(layout);
  }
  if (wanted.empty()) {
    const auto all = operation(op).tuned_layouts;
    wanted.insert(all.begin(), on_gpu() && op == Op::gemm ? all.begin() + 1 : all.end());
  }
  for (const Problem& problem : problems) {
    const Layout layout = signature_of(problem).layout;
    if (problem.op() == op && has_layout(op, layout)) wanted.insert(layout);
  }
  return wanted;
}

std::vector<Problem> TuneRequest::own_problems(Op op) const {
  std::vector<Problem> own;
  for (const Problem& problem : problems) {
    if (problem.op() == op && signature_of(problem).dtype_a == dtype) own.push_back(problem);
  }
  return merge_equal(own);
}

std::string TuneRequest::provider_for(Op op) const {
  if (on_gpu() && is_direction(op)) return "nvidia_conv";
  return std::string(kscout::backend(backend).provider_for(op));
}

TuneResult tune(const TuneRequest& asked, const TuneProgress& progress) {
  check_request(asked);
  TuneRequest request = asked;
  const std::vector<Op>& ops = request.ops;
  const Device device = request.on_gpu() ? backend(request.backend).device() : detect_cpu();
  if (request.rules.empty()) request.rules = kUsualRules;
  if (request.worker.empty()) request.worker = default_worker();
  // Runs the sweeps, and watches the load meanwhile.
  Load load;
  TuneProgress watched = progress;
  watched.sweep = [&](const SweepPlan& plan, const SweepOptions& options) {
    SweepReport report = progress.sweep(plan, options);
    load = joined(load, report.load);
    return report;
  };
  // All operations are checked, and their folders locked, before the first one is measured.
  std::vector<std::unique_ptr<OpTune>> tunes;
  for (const Op op : ops) {
    tunes.push_back(std::make_unique<OpTune>(op, request, watched, device,
                                             request.budget_s / static_cast<double>(ops.size())));
  }
  warn_before_comparison(request, progress);
  double left_s = request.budget_s;
  TuneResult result;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const double share_s = std::max(left_s / static_cast<double>(ops.size() - i), 1.0);
    load = {};
    try {
      TunedOp& tuned = result.tuned.emplace_back(tunes[i]->run(share_s));
      left_s -= tuned.measured_s;
      tuned.load = load;
      if (!request.on_gpu()) tuned.busy = busy_text(load, request.max_load);
      if (progress.done) progress.done(tuned);
    } catch (const Error& error) {
      if (ops.size() == 1) throw;
      if (progress.note) progress.note(fmt::format("{}: {}", word(ops[i]), error.what()));
      if (result.failed.empty()) result.code = error.code();
      result.failed.push_back(ops[i]);
      left_s -= share_s;
    }
    tunes[i].reset();  // unlocks the folder
  }
  return result;
}

}  // namespace kscout
