#pragma once
/// \file
/// Makes models for this machine's CPU or GPU: sweeps a family, trains, evaluates and installs, one operation
/// after the other.
///
///     const TuneResult result = tune({.ops = {Op::gemm}, .budget_s = 60});
///     result.tuned.front().verdict.why_not;   // empty: the model was installed
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evaluate/evaluate_model.h"
#include "measure/load_watch.h"
#include "sweep/sweep.h"
#include "train/train.h"
#include "tune/by_class.h"
#include "tune/own_problems.h"

namespace kscout {

inline constexpr const char* kUsualRules = "default";

/// Names of options in messages are those of `kscout tune`.
struct TuneRequest {
  std::vector<Op> ops = {Op::gemm};  ///< in this order, each once
  std::string backend = "cpu";       ///< or "cuda", which tunes GEMMs and convolutions
  DType dtype = DType::fp32;         ///< of A; on a CPU fp32
  double budget_s = 120;             ///< of all operations together
  double held_out = 0.3;             ///< share of the sizes held out for the evaluation
  double max_gflop = 0;              ///< of a problem; 0: what the budget allows
  /// Rule set to choose from; empty: kUsualRules, whose configs on a GPU are what the library lists for each
  /// problem, and more numbers of split-K slices (family/listed.h).
  std::string rules = {};
  std::string out = {};              ///< model folder, of several operations the folder of their models
  std::string schema = {};           ///< empty: the operation's default
  std::vector<Layout> layouts = {};  ///< to measure; empty: the operation's defaults
  /// Empty: rank on a GPU and after a shared model, else relative and tflops.
  std::vector<Target> targets = {};
  std::uint32_t folds = 4;
  std::size_t max_problems = 0;  ///< of each operation; 0: what the budget allows
  std::uint64_t seed = 1;
  bool replace = false;               ///< installs the new model even if it is worse
  bool restart = false;               ///< removes what was measured since a model was last installed
  std::filesystem::path worker = {};  ///< empty: default_worker()
  /// The caller's own problems, of any operations: measured first; the model is evaluated on them, weighted
  /// by calls.
  std::vector<Problem> problems = {};
  /// Share of the CPUs that other processes may keep busy: beyond it, times and the comparison with a library
  /// of the CPU are not trusted. 1: any.
  double max_load = kMaxBusyShare;
  std::optional<Against> against = {};  ///< nothing: the default config; on a GPU the library's first choice

  /// The layouts to measure of an operation: those of `layouts` that it has, else its defaults; of GEMMs on a
  /// GPU the first of them. In addition those of `problems`.
  std::set<Layout> layouts_of(Op op) const;
  /// Those of `problems` that are of an operation, each once, with the calls of equal ones added up.
  std::vector<Problem> own_problems(Op op) const;
  Against compared_with(Op op) const {
    return against.value_or(on_gpu() ? library_of(op) : Against::default_config);
  }
  bool on_gpu() const { return backend != "cpu"; }
  /// The provider whose kernels are measured: of convolutions on a GPU KernelScout's beside the library's.
  std::string provider_for(Op op) const;
};

/// The evaluation of both models on the problems that neither was trained on.
struct TuneVerdict {
  ModelEvaluation candidate;
  /// Nothing without an installed model, or when it cannot be evaluated.
  std::optional<ModelEvaluation> before;
  std::string why_not;                     ///< why the candidate is not installed; empty when it is installed
  std::set<Layout> compared_layouts = {};  ///< of the problems of both evaluations
  std::set<Layout> new_layouts = {};       ///< measured layouts that the installed model does not know
  /// The candidate on the held-out problems of the new layouts; nothing when there are none.
  std::optional<ModelEvaluation> on_new_layouts = {};
};

/// The results of one operation.
struct TunedOp {
  Op op;
  /// Folder to install to; folder of the model used so far; where the candidate is when it is not installed.
  std::filesystem::path target, before, candidate;
  std::string device = {};
  std::string chosen_among = {};  ///< "rule set 'default'", or "the library's list"
  double measured_s = 0;          ///< by this tune
  std::size_t new_problems = 0;   ///< measured by this tune
  Load load = {};                 ///< of the CPUs while this tune measured
  std::string busy = {};  ///< why the CPUs were too busy then; empty: they were not, or a GPU measured
  /// Of all measurements, those of earlier tunes included.
  std::size_t training_problems = 0, held_out_problems = 0, configs = 0, rows = 0;
  double smallest_gflop = std::numeric_limits<double>::infinity(), largest_gflop = 0;  ///< trained on
  /// Which trees answer for which sizes; nothing for a model that does not start from that for any CPU.
  std::optional<TreesByClass> by_class = {};
  TuneVerdict verdict = {};
  std::optional<OwnResult> own = {};  ///< of TuneRequest::problems; nothing without them
};

struct TuneResult {
  std::vector<TunedOp> tuned;
  /// The operations that failed while others went on.
  std::vector<Op> failed;
  Errc code = {};  ///< of the first failure
};

/// What a caller hears while a tune runs; every function may be empty.
struct TuneProgress {
  std::function<void(const std::string&)> note = {};      ///< a line for people
  std::function<void(const std::string&)> training = {};  ///< after every tree
  std::function<void(const TunedOp&)> done = {};          ///< an operation, before the next one begins
  /// Runs a sweep and shows its progress.
  std::function<SweepReport(const SweepPlan&, const SweepOptions&)> sweep = run_sweep;
  /// Set by a signal handler: ends the tune.
  const std::atomic<bool>* stop = nullptr;
};

/// Thrown when TuneProgress::stop was set. What was measured is kept in the folder.
struct TuneStopped {
  std::filesystem::path kept;
};

/// Tunes all operations for this machine's CPU or GPU. Checks all of them, and locks their folders, before it
/// measures the first one. An operation measures for its share of the budget, or longer until there is enough
/// for a model. Throws invalid_argument for wrong values and when all problems together are too few for one
/// (the measurements are kept), device_failure for folders in use; with several operations, errors
/// of one after the checks are in the result. Throws TuneStopped.
TuneResult tune(const TuneRequest& request, const TuneProgress& progress = {});

}  // namespace kscout
