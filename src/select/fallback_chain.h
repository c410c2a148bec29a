#pragma once
/// \file
/// Tries the sources of a choice in their order, for one model and one environment. A selector publishes one
/// chain to its threads and replaces it as a whole.
///
///     const FallbackChain chain({request, families_by_rules(request)}, std::move(model), stored_decisions(request), log);
///     Choice best[3];
///     std::size_t count = 0;
///     if (chain.rank(problem, By::best, best, count, scratch) == SelectStatus::ok) ...
///
/// Order of sources: forced configs (KSCOUT_FORCE), stored timings of the problem, the model's ranking, the
/// analytic cost, the family's default config. Each source is used when those before it cannot answer.
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kscout/selector.h>

#include "core/fork_mutex.h"
#include "core/log.h"
#include "select/analytic.h"
#include "select/class_table.h"
#include "select/decision_db.h"
#include "select/model.h"
#include "select/switches.h"

namespace kscout {

/// A model and where it came from.
struct LoadedModel {
  Model model;
  std::filesystem::path path;
  std::string warning;  ///< when it was not trained on the selector's device
};

/// The inputs of a chain besides the model.
struct FallbackInputs {
  SelectorRequest request;  ///< provider and rules are empty when `families` comes from a kernel library
  FamilySource families;
  std::string without_model = {};  ///< a warning when there is no model
};

class FallbackChain {
 public:
  /// Reads the environment. Throws the errors of Switches::from_environment.
  FallbackChain(const FallbackInputs& base, std::optional<LoadedModel> model,
                std::span<const StoredDecision> decisions, std::shared_ptr<Log> log);

  /// Fills `best`, best first; ties keep family order. Writes `count` when it returns ok. Allocates only when
  /// a signature is new or `scratch` is smaller than needed.
  SelectStatus rank(ProblemRef problem, By by, std::span<Choice> best, std::size_t& count,
                    SelectScratch& scratch) const noexcept;

  /// The configs of the weight's class, fastest first; a forced one that is among them before all others.
  /// Empty when there is none: `why` then has the reason. Throws the errors of read_classes.
  std::vector<Choice> class_members(ProblemRef problem, std::string& why) const;

  /// See Selector::verdict.
  Verdict verdict(ProblemRef problem, const KernelConfig& config, const Device& device,
                  SelectScratch& scratch) const;

  /// Throws the error for a status that is not ok.
  [[noreturn]] void explain(SelectStatus status, ProblemRef problem, By by) const;

  const std::optional<LoadedModel>& model() const noexcept { return model_; }
  const std::string& without_model() const noexcept { return without_model_; }
  const ThreadLimit& limit() const noexcept { return limit_; }
  const Switches& switches() const noexcept { return switches_; }
  const DecisionTable& decisions() const noexcept { return decisions_; }
  Log* log() const noexcept { return log_.get(); }
  /// How many of the model's configs cannot run here, and why the first of them cannot; empty when all can.
  const std::string& left_out() const noexcept { return left_out_; }
  /// Why set-up is not charged although SelectorRequest::calls asks for it; empty when it is.
  const std::string& not_charged() const noexcept { return not_charged_; }

 private:
  /// A family that contains one forced config.
  struct Forced {
    Family family;
    std::optional<CompiledFamily> compiled;
  };

  /// The ranking of one source, best first; in memory of the scratch.
  struct Vote {
    const CompiledFamily* family = nullptr;
    std::span<const KernelConfig> listed = {};  ///< follow the family's configs
    std::span<Ranked> ranked;
    double confidence = Choice::unknown;  ///< confidence in the first config
    float suggestion_us = std::numeric_limits<float>::quiet_NaN();
    ChoiceSource source = ChoiceSource::fallback;
  };

  /// Excludes configs that cannot run here.
  void leave_out_absent(const FallbackInputs& base);
  void compile_forced(const FallbackInputs& base, const NamedConfig& named);
  const CompiledFamily* forced(ProblemRef problem, SelectScratch& scratch) const;
  /// Fills `best` with the candidates that precede every ranking (forced, stored); returns their number.
  std::size_t fill_candidates(ProblemRef problem, std::span<Choice> best, SelectScratch& scratch) const;
  SelectStatus try_rank(ProblemRef problem, By by, std::span<Choice> best, std::size_t& count,
                        SelectScratch& scratch) const;
  std::optional<Vote> rank_by_model(ProblemRef problem, By by, std::size_t count,
                                    SelectScratch& scratch) const;
  /// The configs that the kernels' library names for a problem, each with its place in the list. Left out
  /// are those that are known to compute wrong results, and those that KSCOUT_DISABLE names.
  std::span<const KernelConfig> listed(ProblemRef problem, SelectScratch& scratch) const;
  /// Puts a config before all others.
  static void put_first(Vote& vote, std::uint32_t config);
  std::optional<Vote> rank_by_cost(ProblemRef problem, std::size_t count, SelectScratch& scratch) const;
  /// The family that answers for a signature; null when there is none.
  const CompiledFamily* family_of(const Signature& signature) const;
  const ClassTable& classes() const;
  void log_choice(ProblemRef problem, const Choice& choice) const noexcept;

  std::optional<LoadedModel> model_;
  std::filesystem::path class_file_;
  ClassOrigin class_origin_;
  mutable ForkMutex reading_classes_{ForkLevel::selector};
  mutable std::unique_ptr<const ClassTable> classes_;  ///< null before the first choice that needs it
  std::string provider_;                               ///< of the configs; empty: any
  std::string without_model_;
  std::string rules_;  ///< of problems that the model does not cover
  Switches switches_;
  ThreadLimit limit_;
  DecisionTable decisions_;
  Analytic analytic_;
  std::vector<std::vector<std::uint8_t>> allowed_;  ///< by family of the model
  std::string left_out_, not_charged_;
  std::int64_t calls_;  ///< SelectorRequest::calls
  decltype(SelectorRequest::suggestions) suggestions_;
  std::vector<std::unique_ptr<const Forced>> forced_;
  std::shared_ptr<Log> log_;
};

/// The model's target for an order; nothing for By::best, which is the model's default target.
std::optional<Target> target_of(By by) noexcept;

}  // namespace kscout
