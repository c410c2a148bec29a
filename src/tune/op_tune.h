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
#include "tune/tune.h"
#include "tune/tune_folder.h"

namespace kscout {

class OpTune {
 public:
  /// Locks the op's folder, reads what an earlier tune left there, and plans the sweep for about `share_s`
  /// seconds. Throws before anything is measured when options, folders or the installed model do not fit.
  /// `request` and `progress` outlive this object.
  OpTune(Op op, const TuneRequest& request, const TuneProgress& progress, const Device& device,
         double share_s);

  /// Measures for `budget_s` seconds, or up to ten times as long until there is enough for a model; trains,
  /// evaluates and installs. Throws invalid_argument when too little was measured (the measurements are
  /// kept), and TuneStopped.
  TunedOp run(double budget_s);

 private:
  /// The installed model of this machine, and the data that a replacement needs.
  struct InstalledModel {
    std::filesystem::path model;  ///< empty: none
    std::optional<MeasurementTable> measurements;
  };

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
  TuneVerdict compare_models(const TableParts& parts) const;
  void add_new_layouts(TuneVerdict& verdict, const Model& installed, const TableParts& parts) const;
  void note(const std::string& text) const;

  Op op_;
  const TuneRequest& options_;
  const TuneProgress& progress_;
  Device device_;
  std::filesystem::path target_;
  TuneFolder folder_;
  double max_gflop_;  ///< of the problems to draw from
  std::filesystem::path shared_;
  InstalledModel installed_;
  std::vector<MeasurementTable> tables_;  ///< measured before
  SweepPlan plan_;
};

}  // namespace kscout
