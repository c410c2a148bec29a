#pragma once
/// \file
/// Says what each backend offers for a problem: the best config of its models, or of the analytic cost, that
/// this machine and the caller's limits accept. The first step of a solution.
///
///     Offers offers(Registry::here(), {});
///     std::string why;
///     if (const auto offer = offers.of(backend, problem, limits, {}, why)) ...   // else `why` has the reason
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <kscout/dispatcher.h>

#include "core/thread_limit.h"
#include "family/rules.h"

namespace kscout {

/// Selector::rank: every config.
inline constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

struct Offer {
  Choice choice;
  Backend* backend;
  KernelConfig model_config = {};  ///< Solution::model_config
  std::size_t agreeing = 0;        ///< Solution::agreeing
};

/// How much is known of the chosen config's time: 0 measured or predicted for this device, 1 predicted by a
/// model of other CPUs, 2 a rough cost. Times are compared with their like only.
int uncertainty(const Choice& choice) noexcept;

/// A config that refused a problem when it was prepared.
struct Refused {
  Backend* backend;
  Problem problem;
  KernelConfig config;
  std::string reason;
};
/// Null where the config did not refuse the problem.
const Refused* find_refused(std::span<const Refused> refused, const Backend& backend,
                            const KernelConfig& config, const Problem& problem);

class Offers {
 public:
  /// `only`: answers all problems; else a model is searched for each backend, op and element type.
  Offers(Registry registry, DispatchPolicy policy, std::optional<Selector> only = {});

  const Registry& registry() const noexcept { return registry_; }
  const DispatchPolicy& policy() const noexcept { return policy_; }

  /// The best config of the backend that accepts the problem and is not among `refused`. Nothing where there
  /// is none; `why` then receives the reason, unless it has one already.
  std::optional<Offer> of(Backend& backend, ProblemRef problem, const Limits& limits,
                          std::span<const Refused> refused, std::string& why);
  /// The fastest kernel of the backend for lines at any address (any_address.h) that takes the problem and is
  /// predicted to need less than `below_us`; nothing where there is none.
  static std::optional<Offer> at_any_address(Backend& backend, ProblemRef problem, const Limits& limits,
                                             std::span<const Refused> refused, double below_us);
  /// Whether any config of a backend's family applies to the problem: much cheaper than an offer.
  bool has_applicable(Backend& backend, ProblemRef problem);

  using Selectors = std::vector<Selector>;
  /// The selectors of one backend for a signature, in the order of use.
  Selectors& selectors(Backend& backend, const Signature& signature);
  /// The selectors whose rankings name the contenders of a refinement, in the order of use: on a GPU without
  /// a model, one of any other GPU comes first, because timing decides.
  Selectors contending(Backend& backend, const Signature& signature);
  /// The choice itself where the backend has its config or the config is complete. Otherwise the backend's
  /// configs that agree with it and apply to the problem, with the choice's predictions: by analytic cost,
  /// and wide loads first where the costs are equal.
  std::vector<Choice> completed(Backend& backend, ProblemRef problem, const Choice& choice,
                                const Limits& limits);
  /// Why the backend, or the limit of threads, refuses the config; empty when neither does.
  std::string refusal(Backend& backend, ProblemRef problem, const KernelConfig& config);
  /// Why a config uses too many threads for kernels of a backend; empty when it does not.
  std::string thread_refusal(Backend& backend, const KernelConfig& config);

 private:
  static std::optional<std::filesystem::path> model_of_another_gpu(Backend& backend,
                                                                   const Signature& signature,
                                                                   DevicePolicy policy);
  Selector load(const std::filesystem::path& model, Backend& backend, const Signature& signature,
                DevicePolicy devices);
  /// The selector of one backend by analytic cost alone.
  const Selector& analytic(Backend& backend);

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
  std::optional<Selectors> only_;
  std::map<std::tuple<Backend*, Op, DType>, Selectors> found_;
  std::map<std::tuple<Backend*, Op, DType>, Selectors> foreign_;  ///< models of other GPUs, for contending()
  std::map<Backend*, Selector> analytic_;
  std::vector<Asked> asked_;
  std::map<Backend*, ThreadLimit> limits_;
};

}  // namespace kscout
