#include "select/limited.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <kscout/backend.h>
#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "family/legality.h"

namespace kscout {
namespace {

/// What a kernel of this machine's CPU needs: NaN when it cannot be prepared here.
double host_workspace(ProblemRef problem, const KernelConfig& config) {
  try {
    return static_cast<double>(backend("cpu").prepare(problem, config)->workspace_bytes());
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
    return std::numeric_limits<double>::quiet_NaN();
  }
}

/// All choices of a ranking; empty unless the status is ok.
std::vector<Choice> whole_ranking(const FallbackChain& chain, ProblemRef problem, By by,
                                  SelectScratch& scratch, SelectStatus& status) {
  std::vector<Choice> all(64);
  for (;;) {
    std::size_t found = 0;
    status = chain.rank(problem, by, all, found, scratch);
    if (status != SelectStatus::ok) return {};
    const bool complete = found < all.size();
    all.resize(complete ? found : 8 * all.size());
    if (complete) return all;
  }
}

}  // namespace

Limited::Limited(const SelectorRequest& request)
    : always_(request.limits), breaks_(request.breaks), device_(request.device), calls_(request.calls) {
  check(always_);
}

std::string Limited::refusal(ProblemRef problem, const KernelConfig& config, const Limits& limits) const {
  if (breaks_) return breaks_(problem, config, limits);
  if (limits.deterministic) {
    if (std::string why = deterministic_refusal(problem, config, device_); !why.empty()) return why;
  }
  if (limits.workspace_bytes < 0) return {};
  double bytes = workspace_bound(problem, config, device_);
  if (std::isnan(bytes) && config.space->provider == "native") bytes = host_workspace(problem, config);
  if (bytes <= static_cast<double>(limits.workspace_bytes)) return {};
  return std::isnan(bytes) ? "its workspace is not known before it is prepared: a dispatcher prepares it"
                           : fmt::format("it may need a workspace of {} bytes, the limit is {}", bytes,
                                         limits.workspace_bytes);
}

SelectStatus Limited::rank(const FallbackChain& chain, ProblemRef problem, By by, std::span<Choice> best,
                           std::size_t& count, const Limits& limits, SelectScratch& scratch) const {
  if (!is_valid(problem)) return SelectStatus::bad_problem;
  SelectStatus status{};
  std::string why;
  std::vector<Choice> all = limits.batch_invariant ? chain.class_members(problem, why)
                                                   : whole_ranking(chain, problem, by, scratch, status);
  if (status != SelectStatus::ok) return status;
  const KernelConfig first = all.empty() ? KernelConfig() : all.front().config;
  const Choice* const timed = chain.decisions().find(problem, limits);
  const auto is_timed = [&](const Choice& one) { return timed && one.config == timed->config; };
  if (timed && (!limits.batch_invariant || std::ranges::any_of(all, is_timed))) {
    std::erase_if(all, is_timed);
    all.insert(all.begin(), *timed);
  }
  // One config more than fits, for the last one's margin.
  std::vector<Choice> kept;
  for (const Choice& one : all) {
    if (kept.size() > best.size()) break;
    if (refusal(problem, one.config, limits).empty()) kept.push_back(one);
  }
  if (kept.empty()) return SelectStatus::no_config;
  const auto cost = [&](const Choice& one) {
    return calls_ > 0 && one.setup_us > 0 ? one.time_us + one.setup_us / static_cast<double>(calls_)
                                          : one.time_us;
  };
  count = std::min(kept.size(), best.size());
  for (std::size_t i = 0; i < count; ++i) {
    best[i] = kept[i];
    if (kept[i].source != ChoiceSource::db)
      best[i].margin = i + 1 < kept.size() ? cost(kept[i + 1]) / cost(kept[i]) - 1 : Choice::unknown;
    // The confidence is about the first config among all.
    if (kept[i].config != first) best[i].confidence = Choice::unknown;
  }
  return SelectStatus::ok;
}

void Limited::explain(const FallbackChain& chain, ProblemRef problem, By by, const Limits& limits,
                      SelectScratch& scratch) const {
  SelectStatus status{};
  std::string why;
  const std::vector<Choice> all = limits.batch_invariant ? chain.class_members(problem, why)
                                                         : whole_ranking(chain, problem, by, scratch, status);
  if (!why.empty()) fail(Errc::unsupported, "{}", why);
  if (all.empty()) chain.explain(status == SelectStatus::ok ? SelectStatus::no_config : status, problem, by);
  fail(Errc::unsupported, "{}: none of the {} configs that can take it keeps the limits ({}): {}: {}",
       print(problem), all.size(), print(limits), config_name(signature_of(problem), all.front().config),
       refusal(problem, all.front().config, limits));
}

}  // namespace kscout
