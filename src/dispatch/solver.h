#pragma once
/// \file
/// Which config of which backend computes a problem, in which form. No buffers and no locks in here.
///
///     Solver solver(Registry::here(), {});
///     Solution solution = solver.solve(problem);
///     auto launch = solver.make_ready(problem, solution);   // may pass over a kernel that refuses only now
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

/// A problem whose operands are in one memory.
template <class P>
struct PlacedProblem {
  P problem;
  MemorySpace space;
  bool operator==(const PlacedProblem&) const = default;
};
template <class P>
struct PlacedProblemHash {
  std::size_t operator()(const PlacedProblem<P>& of) const noexcept {
    const auto place = static_cast<std::size_t>(of.space.ordinal) * EnumWords<MemoryKind>::words.size() +
                       static_cast<std::size_t>(of.space.kind);
    return std::hash<P>()(of.problem) + 0x9E3779B97F4A7C15u * place;
  }
};

class Solver {
 public:
  /// Selectors are found per backend, op and element type.
  Solver(Registry registry, DispatchPolicy policy);
  /// One selector for all.
  Solver(Selector selector, Registry registry, DispatchPolicy policy);

  /// The memory that is meant when nobody says: that of the registry's first backend.
  MemorySpace space_or_first(const std::optional<MemorySpace>& space) const;
  /// See Dispatcher::get_solution.
  Solution solve(const GemmProblem& problem, const std::optional<MemorySpace>& space = {}) {
    return solve(problem, space_or_first(space), {});
  }
  /// The launch of a solution; when its kernel refuses, that of the next one, which becomes the solution.
  std::unique_ptr<Launch> make_ready(const GemmProblem& problem, Solution& solution);
  // The same for a convolution, which has one form.
  ConvSolution solve(const ConvProblem& problem, const std::optional<MemorySpace>& space = {}) {
    return solve(problem, space_or_first(space), {});
  }
  std::unique_ptr<Launch> make_ready(const ConvProblem& problem, ConvSolution& solution);

  /// Whether a solution is to be refined when it first runs: the policy wants it, nobody has timed the
  /// problem yet, and nothing is padded.
  bool wants_refinement(const Solution& solution) const noexcept;
  /// Times the best configs on the caller's operands; the fastest becomes the solution's and is kept.
  void refine(const GemmProblem& problem, const GemmBuffers& buffers, Solution& solution);

  /// Why a config's threads are too many for kernels of a backend; empty when they are not.
  std::string thread_refusal(Backend& backend, const KernelConfig& config);

  const Registry& registry() const noexcept { return registry_; }
  /// See Dispatcher::warnings.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  /// A config that refused when it was made ready.
  struct Refused {
    Backend* backend;
    Problem problem;
    KernelConfig config;
    std::string reason;
  };
  struct BackendChoice {
    Choice choice;
    Backend* backend;
  };
  using Selectors = std::vector<Selector>;

  Solution solve(const GemmProblem& problem, const MemorySpace& space, std::span<const Refused> refused);
  ConvSolution solve(const ConvProblem& problem, const MemorySpace& space, std::span<const Refused> refused);
  /// Throws invalid_argument when no backend reaches the memory.
  void check_reachable(const MemorySpace& space) const;
  /// The best over all backends that reach the memory, or over `applicable_only` ones: whose rules let any
  /// config take the problem. Nothing when no config takes it; writes to `why` when that is empty.
  std::optional<BackendChoice> best_backend_choice(ProblemRef problem, const MemorySpace& space,
                                                   bool applicable_only, std::span<const Refused> refused,
                                                   std::string& why);
  std::optional<Choice> offer_of(Backend& backend, ProblemRef problem, std::span<const Refused> refused,
                                 std::string& why);
  /// The solution's config and the next best that its backend accepts.
  std::vector<Choice> contenders(const GemmProblem& problem, const Solution& solution);
  /// Those of one backend for a signature, in the order in which they are asked.
  Selectors& selectors(Backend& backend, const Signature& signature);
  /// Whether any config of a backend's family applies to the problem: far cheaper than selecting.
  bool has_applicable(Backend& backend, ProblemRef problem);
  /// The answer of an exhaustive search over one form, remembered and kept; nothing when it finds none.
  std::optional<Solution> measured(const ExecutionForm& form, const MemorySpace& space);
  /// Writes a timed solution to the policy's file of decisions, where there is one; a warning when that
  /// fails.
  void keep(const GemmProblem& problem, const Solution& solution, const Fastest& fastest);

  /// The applicability rules of one backend's family for one signature.
  struct Asked {
    Backend* backend;
    Signature signature;
    std::unique_ptr<ApplicabilityRules> rules;  ///< null when the backend has no configs for the signature
  };

  /// Families of backends, each enumerated once. Selectors hold it, too.
  class Families {
   public:
    explicit Families(std::string rules) : rules_(std::move(rules)) {}
    /// As Backend::family. Thread-safe.
    std::shared_ptr<const Family> of(Backend& backend, const Signature& signature);

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
  std::vector<Asked> asked_;
  std::unordered_map<PlacedProblem<GemmProblem>, std::optional<Solution>, PlacedProblemHash<GemmProblem>>
      measured_;
  std::map<Backend*, ThreadLimit> limits_;
  std::vector<std::string> warnings_;
};

}  // namespace kscout
