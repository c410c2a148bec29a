#pragma once
/// \file
/// Checks whether a model still chooses well on this machine, with times that its folder records.
///
///     const ModelCheck check = check_model("models/gemm_bf16_h200", backend("cuda"), plan_and_run);
///     check.holds(0.98);    // whether 98 % of the recorded efficiency is left
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <kscout/backend.h>

#include "select/reference_times.h"
#include "sweep/journal.h"
#include "sweep/plan.h"

namespace kscout {

/// The result of one problem.
struct CheckedProblem {
  ReferenceProblem recorded;
  KernelConfig choice;          ///< of the model, here
  bool choice_changed = false;  ///< the recorded choice cannot run here, so another config is chosen
  double time_us = 0;           ///< of the choice, here; 0: it failed
  double best_us = 0;  ///< of the fastest config here, or recorded where the fastest one cannot run here
  std::string failure = {};  ///< why the choice has no time

  /// Speed of the choice divided by that of the fastest config; 0 when the choice failed.
  double efficiency() const noexcept;
};

struct ModelCheck {
  std::vector<CheckedProblem> problems;
  std::string absence;     ///< why a recorded config cannot run here; empty: all can
  std::size_t absent = 0;  ///< number of recorded configs that cannot run here, of `configs`
  std::size_t configs = 0;
  double mean = 0, recorded_mean = 0;  ///< efficiency
  double time_ratio = 0;               ///< geometric mean of time here / recorded, of configs that ran

  /// No choice failed, at least half of the recorded choices can run here, and `keep` of the recorded mean
  /// efficiency is left.
  bool holds(double keep) const noexcept;
};

/// Runs a plan and returns its measurements.
using MeasurePlan = std::function<MeasurementTable(const SweepPlan&)>;

/// Times, on each recorded problem, the model's choice here and the recorded configs, interleaved. `measure`
/// runs the sweep. Throws the errors of Selector::load and read_reference_times.
ModelCheck check_model(const std::filesystem::path& model, Backend& backend, const MeasurePlan& measure);

}  // namespace kscout
