#pragma once
/// \file
/// Declares the part of bench/conv_cuda.cpp that measures one problem: the model's choice, what refinement
/// makes of it, cuDNN's first suggestion and the fastest of eight, and the time to the first result.
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>
#include <kscout/family.h>
#include <kscout/selector.h>

#include "gpu_match.h"

namespace kscout::bench {

/// The results of one problem. Times are NaN where there is none.
struct ConvRow {
  ConvProblem problem;
  std::string config;                        ///< ours, by name
  std::size_t refused = 0;                   ///< better ranked choices that the library refused
  Timed ours;                                ///< the model's choice; without a model the best of the rule set
  Timed first, of_8;                         ///< cuDNN's first suggestion, the fastest of its eight
  Timed best;                                ///< of the rule set
  Timed refined;                             ///< what the first calls' refinement leaves
  std::string refined_config;                ///< by name
  double refine_ready_ms = Choice::unknown;  ///< choice and the plans of all that take part
  double ten_calls = Choice::unknown;  ///< GPU time of the first ten calls over ten of the first suggestion
  double first_result_ms = Choice::unknown;        ///< ours: choice, plan and run, until the result is there
  double cudnn_first_result_ms = Choice::unknown;  ///< the same by cuDNN's first suggestion
  std::string failure;                             ///< why ours or cuDNN's first suggestion has no time
};

class ConvMatch {
 public:
  /// `rules`: rule set whose fastest config is measured too; empty: none. `selector` may be null: then the
  /// fastest of the rule set stands for our choice. It must outlive the match. `refine`: configs that
  /// refinement tries besides the first suggestion; below 2: no refinement.
  ConvMatch(const Selector* selector, std::string rules, std::size_t refine);

  /// Measures a problem; `first_results` includes the times to the first result. Never throws for a failure
  /// of a config or of the device: ConvRow::failure has the reason.
  ConvRow play(const ConvProblem& problem, bool first_results);

 private:
  /// A config that the library takes, ready to run.
  struct Ready {
    KernelConfig config;
    std::string name;
    std::size_t refused = 0;
    std::unique_ptr<Launch> launch;
  };
  /// The model's best choice that the library takes; else cuDNN's first suggestion, as in the dispatcher.
  Ready choose(const ConvProblem& problem) const;
  const Family& family_for(const ConvProblem& problem);
  void measure_first_results(ConvRow& row);
  /// The config that refinement leaves after a problem's first calls.
  KernelConfig refine(ConvRow& row) const;
  std::optional<KernelConfig> best_of_family(const ConvProblem& problem);
  void measure(ConvRow& row, std::optional<KernelConfig> refined);

  const Selector* selector_;
  std::string rules_;
  std::size_t refine_;
  std::deque<Family> families_;  ///< of the rule set, one for each signature
  GpuMatch match_;
  bool ours_first_ = false;
};

/// The config that stands for the n-th suggestion of cuDNN's own heuristic.
KernelConfig cudnn_suggestion(Op op, int place);

/// Prints the times of a decision for a direction: the selector, cold and cached, beside cuDNN's heuristics.
/// Returns the median times in microseconds: our cold choice (NaN without a selector), and cuDNN's mode a.
struct DecisionTimes {
  double cold_us, heuristic_us;
};
DecisionTimes compare_conv_deciding(Selector* selector, std::span<const ConvProblem> problems);

}  // namespace kscout::bench
