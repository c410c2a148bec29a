#include "search/space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include <kscout/provider.h>

#include "core/fail.h"
#include "search/search.h"

namespace kscout {

SearchSpace::SearchSpace(ConfigTable configs) : configs_(std::move(configs)) {
  if (configs_.empty()) fail(Errc::invalid_argument, "nothing to search: no config is left");
  std::vector<std::size_t> axes;
  std::vector<std::vector<std::int32_t>> values;
  double points = 1;
  for (std::size_t axis = 0; axis < configs_.space().axes.size(); ++axis) {
    const auto column = configs_.column(axis);
    std::vector<std::int32_t> distinct(column.begin(), column.end());
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    if (distinct.size() == 1) continue;
    points *= static_cast<double>(distinct.size());
    axes.push_back(axis);
    values_.push_back(static_cast<std::uint16_t>(distinct.size()));
    ordered_.push_back(configs_.space().axes[axis].words.empty());
    values.push_back(std::move(distinct));
    if (values.back().size() > UINT16_MAX || points >= 0x1p64) {
      fail(Errc::unsupported,
           "too large to search: the values of {} axes have {:.1e} combinations; the limit is 2^64",
           axes.size(), points);
    }
  }
  ranks_.resize(size() * axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto column = configs_.column(axes[i]);
    for (std::size_t c = 0; c < size(); ++c) {
      const auto at = std::ranges::lower_bound(values[i], column[c]);
      ranks_[c * axes.size() + i] = static_cast<std::uint16_t>(at - values[i].begin());
    }
  }
  place_.reserve(size());
  for (std::uint32_t c = 0; c < size(); ++c) {
    if (!place_.emplace(key(point(c)), c).second)
      fail(Errc::invalid_argument, "config {} of {} is listed twice among the configs to search", c, size());
  }
}

std::uint64_t SearchSpace::key(std::span<const std::uint16_t> point) const noexcept {
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < point.size(); ++i) key = key * values_[i] + point[i];
  return key;
}

std::optional<std::uint32_t> SearchSpace::find(std::span<const std::uint16_t> point) const {
  const auto found = place_.find(key(point));
  return found == place_.end() ? std::nullopt : std::optional(found->second);
}

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

std::vector<FoundConfig> Tally::score(std::span<const std::uint32_t> configs) {
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
