#include "family/listed.h"

#include <algorithm>
#include <optional>

#include <kscout/family.h>

#include "family/legality.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout {

std::vector<KernelConfig> listed_candidates(ProblemRef problem, std::span<const KernelConfig> listed,
                                            const Device& device, std::size_t varied) {
  std::vector<KernelConfig> candidates;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const auto config = listed_config(listed[i], static_cast<std::int32_t>(i + 1));
    if (!config) return {};
    const Verdict verdict = rule_verdict(problem, listed[i], device);
    const bool wrong = verdict.status == VerdictStatus::refused && !verdict.since.empty();
    if (!wrong) candidates.push_back(*config);
  }
  std::vector<KernelConfig> others;
  for (const KernelConfig& one : listed.first(std::min(listed.size(), varied))) {
    for (const KernelConfig& config : other_splits(problem.as<GemmProblem>(), one, device.cores)) {
      const auto is_in = [&](std::span<const KernelConfig> some) {
        return std::ranges::find(some, config) != some.end();
      };
      if (!is_in(listed) && !is_in(others) && rule_refusal(problem, config, device).empty())
        others.push_back(config);
    }
  }
  candidates.insert(candidates.end(), others.begin(), others.end());
  return candidates;
}

}  // namespace kscout
