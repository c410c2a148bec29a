#pragma once
/// \file
/// Tunes one operation: sweep, training, evaluation, installation.
///
///     OpTune gemm(Op::gemm, request, progress, device, /*share_s=*/60);   // checks, measures nothing
///     const TunedOp done = gemm.run(60);
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "tune/stages.h"
#include "tune/tune.h"
#include "tune/tune_folder.h"

namespace kscout {

/// Seed of the hash that holds problems out. --seed does not change these problems. A smaller --held-out
/// releases some, and new models train on them. Models are compared on problems that neither was trained on.
inline constexpr std::uint64_t kHeldOutSeed = 1751477348;

class OpTune {
 public:
  /// Locks the op's folder, reads what an earlier tune left there, and plans the sweep for about `share_s`
  /// seconds. Throws before anything is measured when options, folders or the installed model do not fit.
  /// `request` and `progress` outlive this object.
  OpTune(Op op, const TuneRequest& request, const TuneProgress& progress, const Device& device,
         double share_s);

  /// Measures the caller's own problems, then others, for `budget_s` seconds or longer until there is enough
  /// for a model; trains, evaluates and installs. Throws invalid_argument when all problems together are too
  /// few (the measurements are kept), and TuneStopped.
  TunedOp run(double budget_s);

 private:
  /// The installed model of this machine, and the data that a replacement needs.
  struct InstalledModel {
    std::filesystem::path model;  ///< empty: none
    std::optional<MeasurementTable> measurements;
  };

  /// The model for any CPU that the training starts from; empty on a GPU, when there is none, or its rule
  /// set, features or targets are others.
  std::filesystem::path find_shared() const;
  InstalledModel find_installed() const;
  std::vector<MeasurementTable> read_tune_folder() const;
  /// Stores the means of the candidate and of shared_ on the held-out problems in the candidate.
  void store_against_shared(const MeasurementTable& held_out) const;
  void check_comparable(const std::set<Layout>& layouts) const;
  std::string foreign(const MeasurementTable& table) const;
  /// Whether the candidates of a problem are those that the kernels' library lists for it.
  bool lists() const;
  /// For reports.
  std::string chosen_among() const;
  /// `max_problems` 0: all.
  SweepPlan plan_for(const std::vector<Problem>& problems, std::size_t max_problems) const;
  /// The problems that this tune may measure besides those of tables_.
  std::vector<TuneStage> stages_left() const;
  /// Measures drawn problems, at most `max_problems` (0: as many as the budget allows); the rows are then in
  /// tables_. Returns their number, at least 1 where one is left and a sweep measures any.
  std::size_t measure_drawn(double budget_s, std::size_t max_problems);
  /// Removes the own problems whose signature no config computes, with a note; throws unsupported when none
  /// is left.
  std::vector<Problem> computable(std::vector<Problem> own) const;
  /// Those of own_ that tables_ lack.
  std::vector<Problem> own_left() const;
  /// Measures the problems of own_plan_; the rows are then in tables_. Returns their number.
  std::size_t measure_own(double budget_s);
  /// Evaluates the candidate on the caller's own problems. They decide what is installed: a model before that
  /// is faster on them stays.
  void evaluate_own_problems(TunedOp& done, const MeasurementTable& measured) const;
  /// Adds what a sweep of the plan measures to tables_, the library's suggestions by name. Throws
  /// TuneStopped.
  void measure(SweepPlan plan, double budget_s);
  TrainingResult train_on(const MeasurementTable& training) const;
  TuneVerdict compare_models(const TableParts& parts) const;
  void add_new_layouts(TuneVerdict& verdict, const Model& installed, const TableParts& parts) const;
  void note(const std::string& text) const;

  Op op_;
  const TuneRequest& options_;
  const TuneProgress& progress_;
  Device device_;
  std::filesystem::path target_;
  TuneFolder folder_;
  std::string provider_;
  double budget_s_;  ///< expected; problems are drawn for it
  std::filesystem::path shared_;
  InstalledModel installed_;
  std::vector<Problem> own_;              ///< the caller's own problems that some config computes
  std::vector<MeasurementTable> tables_;  ///< measured before
  SweepPlan plan_;                        ///< of the newest sweep
  std::optional<SweepPlan> own_plan_;     ///< nothing when no own problem is left to measure
};

}  // namespace kscout
