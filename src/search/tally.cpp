#include "search/tally.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace kscout {

std::vector<FoundConfig> best_of(std::vector<FoundConfig> found, std::size_t top) {
  std::ranges::sort(found, {}, &FoundConfig::evaluation);
  std::ranges::stable_sort(found, std::ranges::greater{}, &FoundConfig::score);
  std::unordered_set<std::uint32_t> seen;
  std::vector<FoundConfig> best;
  for (const FoundConfig& one : found) {
    if (best.size() == top || !(one.score > -std::numeric_limits<double>::infinity())) break;
    if (seen.insert(one.config).second) best.push_back(one);
  }
  return best;
}

std::vector<FoundConfig> Tally::ask(std::span<const std::uint32_t> configs) {
  if (configs.empty()) return {};
  scores_.assign(configs.size(), -std::numeric_limits<double>::infinity());
  objective_(configs, scores_);
  const std::size_t before = found_.size();
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const double score = std::isnan(scores_[i]) ? -std::numeric_limits<double>::infinity() : scores_[i];
    found_.push_back({configs[i], score, found_.size() + 1});
  }
  return {found_.begin() + static_cast<std::ptrdiff_t>(before), found_.end()};
}

}  // namespace kscout
