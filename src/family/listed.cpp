#include "family/listed.h"

#include <algorithm>
#include <optional>

#include <kscout/family.h>

#include "family/legality.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout {

std::vector<KernelConfig> listed_candidates(ProblemRef problem, std::span<const KernelConfig> listed,
                                            const Device& device, std::size_t varied) {
  if (listed.empty() || !listed_config(listed.front(), 1)) return {};
  const auto allowed = [&](std::span<const KernelConfig> some, Asked rules) {
    ConfigTable table(*listed.front().space);
    for (const KernelConfig& one : some) table.push_back(one);
    return admitted(problem, table, device, rules);
  };
  const auto is_in = [](const auto& some, const KernelConfig& config) {
    return std::ranges::find(some, config) != std::ranges::end(some);
  };
  std::vector<KernelConfig> splits;
  for (const KernelConfig& one : listed.first(std::min(listed.size(), varied))) {
    for (const KernelConfig& config : other_splits(problem.as<GemmProblem>(), one, device.cores)) {
      if (!is_in(listed, config) && !is_in(splits, config)) splits.push_back(config);
    }
  }
  std::vector<KernelConfig> candidates;
  const auto right = allowed(listed, Asked::suggested);
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (right[i] != 0) candidates.push_back(*listed_config(listed[i], static_cast<std::int32_t>(i + 1)));
  }
  const auto possible = allowed(splits, Asked::all);
  for (std::size_t i = 0; i < splits.size(); ++i) {
    if (possible[i] != 0) candidates.push_back(splits[i]);
  }
  return candidates;
}

}  // namespace kscout
