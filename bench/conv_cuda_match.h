#pragma once
/// \file
/// Declares the part of bench/conv_cuda.cpp that measures one problem: the model's choice, cuDNN's first
/// suggestions and the fastest of eight, and the time to the first result.
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
  std::string config;          ///< ours, by name
  std::size_t refused = 0;     ///< better ranked choices that the library refused
  Timed ours;                  ///< the model's choice; without a model the best of the rule set
  Timed first, first_b, of_8;  ///< cuDNN's first suggestion in mode a and b, the fastest of mode a's eight
  Timed best;                  ///< of the rule set
  double first_result_ms = Choice::unknown;        ///< ours: choice, plan and run, until the result is there
  double cudnn_first_result_ms = Choice::unknown;  ///< the same by cuDNN's first suggestion
  std::string failure;                             ///< why ours or cuDNN's first suggestion has no time
};

class ConvMatch {
 public:
  /// `rules`: rule set whose fastest config is measured too; empty: none. `selector` may be null: then the
  /// fastest of the rule set stands for our choice. It must outlive the match.
  ConvMatch(const Selector* selector, std::string rules);

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
  std::optional<KernelConfig> best_of_family(const ConvProblem& problem);
  void measure(ConvRow& row);

  const Selector* selector_;
  std::string rules_;
  std::deque<Family> families_;  ///< of the rule set, one for each signature
  GpuMatch match_;
  bool ours_first_ = false;
};

/// The config that stands for the n-th suggestion of cuDNN's own heuristic.
KernelConfig cudnn_suggestion(Op op, int place, bool mode_b = false);

/// Prints the times of a decision for a direction: the selector, cold and cached, beside cuDNN's heuristics.
/// Returns the median times in microseconds: our cold choice (NaN without a selector), and cuDNN's mode a.
struct DecisionTimes {
  double cold_us, heuristic_us;
};
DecisionTimes compare_conv_deciding(Selector* selector, std::span<const ConvProblem> problems);

}  // namespace kscout::bench
