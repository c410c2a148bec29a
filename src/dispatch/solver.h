#pragma once
/// \file
/// Chooses the backend, config and form that compute a problem. Uses neither buffers nor locks.
///
///     Solver solver(Registry::here(), {});
///     Solution solution = solver.solve(problem);
///     auto launch = solver.make_ready(problem, solution);   // skips a kernel that refuses only now
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <kscout/dispatcher.h>

#include "core/thread_limit.h"
#include "dispatch/timed_choice.h"
#include "family/rules.h"

namespace kscout {

/// A problem and the memory of its operands.
struct PlacedProblem {
  Problem problem;
  MemorySpace space;
  bool operator==(const PlacedProblem&) const = default;
};
struct PlacedProblemHash {
  std::size_t operator()(const PlacedProblem& of) const noexcept {
    const auto place = static_cast<std::size_t>(of.space.ordinal) * EnumWords<MemoryKind>::words.size() +
                       static_cast<std::size_t>(of.space.kind);
    return std::hash<Problem>()(of.problem) + 0x9E3779B97F4A7C15u * place;
  }
};

/// Whether each run gets B, or B is packed once for many runs (Dispatcher::pack_b).
enum class OperandB : std::uint8_t { as_given, packed_once };

class Solver {
 public:
  /// Looks up selectors per backend, op and element type.
  Solver(Registry registry, DispatchPolicy policy);
  /// Uses one selector for all problems.
  Solver(Selector selector, Registry registry, DispatchPolicy policy);

  /// The given memory, or that of the registry's first backend.
  MemorySpace space_or_first(const std::optional<MemorySpace>& space) const;
  /// See Dispatcher::get_solution.
  Solution solve(ProblemRef problem, const std::optional<MemorySpace>& space = {}, const Limits& limits = {},
                 OperandB b = OperandB::as_given) {
    return solve(problem, space_or_first(space), limits, {}, b);
  }
  /// Prepares the launch of a solution. When its kernel refuses, prepares the next one, which becomes the
  /// solution.
  std::unique_ptr<Launch> make_ready(ProblemRef problem, Solution& solution, const Limits& limits = {},
                                     OperandB b = OperandB::as_given);

  /// The limits of the policy and those of a call. Throws invalid_argument for limits that are not valid.
  Limits limits_with(const Limits& of_call) const;

  /// Whether to refine a solution at its first run: the policy requests it, there is no timing of the
  /// problem, and its form has no copies.
  bool wants_refinement(const Solution& solution) const noexcept;
  /// Times the best configs on the caller's operands; the fastest becomes the solution's config and is
  /// stored.
  void refine(const Buffers& buffers, Solution& solution, const Limits& limits = {});

  /// Why a config uses too many threads for kernels of a backend; empty when it does not.
  std::string thread_refusal(Backend& backend, const KernelConfig& config);
  /// The backend that runs the config. Throws unsupported with the rule and its reason when no backend that
  /// reaches the memory (nothing: of any backend) can.
  Backend& backend_of(ProblemRef problem, const KernelConfig& config,
                      const std::optional<MemorySpace>& space = {});

  const Registry& registry() const noexcept { return registry_; }
  /// See Dispatcher::warnings.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  /// A config that refused a problem when it was prepared.
  struct Refused {
    Backend* backend;
    Problem problem;
    KernelConfig config;
    std::string reason;
  };
  struct BackendChoice {
    Choice choice;
    Backend* backend;
    KernelConfig model_config = {};  ///< Solution::model_config
    std::size_t agreeing = 0;        ///< Solution::agreeing
  };
  using Selectors = std::vector<Selector>;

  Solution solve(ProblemRef problem, const MemorySpace& space, const Limits& limits,
                 std::span<const Refused> refused, OperandB b);
  /// Throws invalid_argument when no backend reaches the memory.
  void check_reachable(const MemorySpace& space) const;
  /// Null where the config did not refuse the problem.
  static const Refused* find_refused(std::span<const Refused> refused, const Backend& backend,
                                     const KernelConfig& config, const Problem& problem);
  /// Whether the config stands for what a library suggests for a problem, and so for another kernel under
  /// another problem.
  static bool is_suggestion(const BackendChoice& offer, ProblemRef problem);
  /// The fastest kernel of the backend for lines at any address (any_address.h) that takes the problem and is
  /// predicted to need less than `below_us`; nothing where there is none.
  static std::optional<BackendChoice> any_address_offer(Backend& backend, ProblemRef problem,
                                                        const Limits& limits,
                                                        std::span<const Refused> refused, double below_us);
  /// Of lines that are not aligned: replaces the choice by a kernel that takes them, or by the choice for a
  /// form with aligned lines, where the kernel, or the form and its copies, are predicted to take clearly
  /// less time. Only in a GPU's memory.
  void prefer_aligned(ProblemRef problem, const MemorySpace& space, const Limits& limits,
                      std::span<const Refused> refused, OperandB b, std::optional<BackendChoice>& best,
                      ExecutionForm& form);
  /// The best choice over all backends that reach the memory; with `applicable_only`, over backends with a
  /// config whose applicability rules admit the problem. Nothing when no config takes the problem; `why` then
  /// receives the reason, unless it has one already.
  std::optional<BackendChoice> best_backend_choice(ProblemRef problem, const MemorySpace& space,
                                                   bool applicable_only, const Limits& limits,
                                                   std::span<const Refused> refused, std::string& why);
  std::optional<BackendChoice> offer_of(Backend& backend, ProblemRef problem, const Limits& limits,
                                        std::span<const Refused> refused, std::string& why);
  /// The choice itself where the backend has its config or the config is complete. Otherwise the backend's
  /// configs that agree with it and apply to the problem, with the choice's predictions: by analytic cost,
  /// and wide loads first where the costs are equal.
  std::vector<Choice> completed(Backend& backend, ProblemRef problem, const Choice& choice,
                                const Limits& limits);
  /// The solution's config and the next best configs that its backend accepts.
  std::vector<Choice> contenders(const Solution& solution, const Limits& limits);
  /// The selectors of one backend for a signature, in the order of use.
  Selectors& selectors(Backend& backend, const Signature& signature);
  /// The selector of one backend by analytic cost alone.
  const Selector& analytic(Backend& backend);
  /// Whether any config of a backend's family applies to the problem: much cheaper than selecting.
  bool has_applicable(Backend& backend, ProblemRef problem);
  /// What to do about the type of a problem that nothing takes: "; ... convert to float32" where kernels take
  /// the same problem in fp32, else empty.
  std::string type_remedy(ProblemRef problem, const MemorySpace& space);
  /// The result of an exhaustive search over one form, cached and stored; nothing when the search finds no
  /// config.
  std::optional<Solution> measured(const ExecutionForm& form, const MemorySpace& space, const Limits& limits);
  /// Writes a timed solution to the policy's decision file, if any; adds a warning when that fails.
  /// `candidates`: those that were timed.
  void keep(const Solution& solution, const Fastest& fastest, std::span<const Candidate> candidates,
            const Limits& limits);

  /// The applicability rules of one backend's family for one signature.
  struct Asked {
    Backend* backend;
    Signature signature;
    std::shared_ptr<const Family> family;       ///< null when the backend has no configs for the signature
    std::unique_ptr<ApplicabilityRules> rules;  ///< of the family
  };

  /// Families of backends, each enumerated once. Selectors share it.
  class Families {
   public:
    explicit Families(std::string rules) : rules_(std::move(rules)) {}
    /// Like Backend::family. Thread-safe.
    std::shared_ptr<const Family> of(Backend& backend, const Signature& signature);
    /// Why the backend can run neither a config nor, where the config leaves axes unknown, any of its configs
    /// that agree with it. Empty when it can. Configs of other providers are checked when one of them is
    /// chosen.
    std::string absence(Backend& backend, const Signature& signature, const KernelConfig& config);

   private:
    struct Known {
      Backend* backend;
      Signature signature;
      std::shared_ptr<const Family> family;
    };
    std::string rules_;
    std::mutex mutex_;
    std::vector<Known> known_;
  };

  Registry registry_;
  DispatchPolicy policy_;
  std::shared_ptr<Families> families_;
  std::optional<Selectors> fixed_;
  std::map<std::tuple<Backend*, Op, DType>, Selectors> found_;
  std::map<Backend*, Selector> analytic_;
  std::vector<Asked> asked_;
  /// By print(Limits).
  std::map<std::string, std::unordered_map<PlacedProblem, std::optional<Solution>, PlacedProblemHash>>
      measured_;
  std::map<Backend*, ThreadLimit> limits_;
  std::vector<std::string> warnings_;
};

}  // namespace kscout
