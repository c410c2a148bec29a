#pragma once
/// \file
/// Tunes one operation for `kscout tune`: sweep, training, evaluation, installation.
///
///     OpTune gemm(Op::gemm, options, device, /*share_s=*/60);   // checks everything, measures nothing
///     const TunedOp done = gemm.run(60);
///     print_tuned(done, options);
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "evaluate/evaluate_model.h"
#include "options.h"
#include "sweep/sweep.h"
#include "train/train.h"
#include "tune_folder.h"

namespace kscout::cli {

struct TuneOptions {
  double budget_s = 120, held_out = 0.3, max_gflop = 0;
  std::string rules = "default", out, schema;  ///< schema: empty for the op's default
  std::vector<std::string> op_names = {"gemm"}, layouts = {};
  std::vector<std::string> targets = {};  ///< empty: rank after a shared model, else relative and tflops
  std::uint32_t folds = 4;
  std::size_t max_problems = 0;  ///< of each operation; 0: what the budget allows
  std::uint64_t seed = 1;
  bool replace = false, restart = false;
  Format format = Format::text;

  /// The operations in the order of the command, each once; `all` stands for every one.
  std::vector<Op> ops() const;
  /// The layouts to measure of an operation: those of --layout that it has, else its defaults.
  std::set<Layout> layouts_of(Op op) const;
};

/// The installed model of this machine, and the data that a replacement needs.
struct InstalledModel {
  std::filesystem::path model;  ///< empty: none
  std::optional<MeasurementTable> measurements;
};

/// The evaluation of both models on the problems that neither was trained on.
struct Verdict {
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
  SweepReport report = {};
  std::size_t new_problems = 0;
  MeasurementTable measured = {};
  TableParts parts = {};
  Verdict verdict = {};
};

class OpTune {
 public:
  /// Locks the op's folder, reads what an earlier tune left there, and plans the sweep for about `share_s`
  /// seconds. Throws before anything is measured when options, folders or the installed model do not fit.
  OpTune(Op op, const TuneOptions& options, const Device& device, double share_s);

  /// Measures for `budget_s` seconds, or up to ten times as long until there is enough for a model; trains,
  /// evaluates and installs. Ends the program after a signal. Throws invalid_argument when too little was
  /// measured; the measurements are kept.
  TunedOp run(double budget_s);

 private:
  /// The model for any CPU that the training starts from; empty when there is none, or its rule set, features
  /// or targets are others.
  std::filesystem::path find_shared() const;
  InstalledModel find_installed() const;
  std::vector<MeasurementTable> read_tune_folder() const;
  /// Stores the means of the candidate and of shared_ on the held-out problems in the candidate.
  void store_against_shared(const MeasurementTable& held_out) const;
  void check_comparable(const std::set<Layout>& layouts) const;
  std::string foreign(const MeasurementTable& table) const;
  SweepReport sweep_for(double budget_s, const std::filesystem::path& folder) const;
  TrainingResult train_on(const MeasurementTable& training) const;
  Verdict compare_models(const TableParts& parts) const;
  void add_new_layouts(Verdict& verdict, const Model& installed, const TableParts& parts) const;

  Op op_;
  const TuneOptions& options_;
  Device device_;
  std::filesystem::path target_;
  TuneFolder folder_;
  double max_gflop_;  ///< of the problems to draw from
  std::filesystem::path shared_;
  InstalledModel installed_;
  std::vector<MeasurementTable> tables_;  ///< measured before
  SweepPlan plan_;
};

/// Prints a dozen lines for people; the last is the command that prints the rest.
void print_tuned(const TunedOp& done, const TuneOptions& options);
/// The evaluation, and whether the model was installed, as JSON.
std::string tuned_json(const TunedOp& done);

}  // namespace kscout::cli
