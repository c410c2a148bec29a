#include "family/listed.h"

#include <algorithm>
#include <optional>

#include <kscout/family.h>

#include "family/legality.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/cudnn/cudnn.h"

namespace kscout {

std::optional<KernelConfig> listed_config(const KernelConfig& named, std::int32_t place) {
  const bool cudnn = is_direction(named.space->op) && named.space == &cudnn_space(named.space->op);
  if (!cudnn && named.space != &cublaslt_gemm_space) return std::nullopt;
  KernelConfig config = named;
  config[named.space->axis_index("suggestion")] = place;
  return config;
}

std::int32_t suggestion_place(const KernelConfig& config) {
  const auto& axes = config.space->axes;
  const auto value = [&](std::string_view name) {
    const auto axis = std::ranges::find(axes, name, &Axis::name);
    return axis == axes.end() ? 0 : config[static_cast<std::size_t>(axis - axes.begin())];
  };
  return value("mode") == 0 ? value("suggestion") : 0;  // cuDNN suggests in modes a, b, fallback
}

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
  const bool splits_k = listed.front().space == &cublaslt_gemm_space;
  for (const KernelConfig& one : listed.first(splits_k ? std::min(listed.size(), varied) : 0)) {
    for (const KernelConfig& config : other_splits(problem.as<GemmProblem>(), one, device.cores)) {
      if (!is_in(listed, config) && !is_in(splits, config)) splits.push_back(config);
    }
  }
  std::vector<KernelConfig> candidates;
  const auto right = allowed(listed, Asked::suggested);
  for (std::size_t i = 0; i < listed.size(); ++i) {
    // A suggestion of cuDNN by number alone counts those that the rules admit, too.
    const std::size_t place = splits_k ? i + 1 : candidates.size() + 1;
    if (right[i] != 0) candidates.push_back(*listed_config(listed[i], static_cast<std::int32_t>(place)));
  }
  const auto possible = allowed(splits, Asked::all);
  for (std::size_t i = 0; i < splits.size(); ++i) {
    if (possible[i] != 0) candidates.push_back(splits[i]);
  }
  return candidates;
}

}  // namespace kscout
