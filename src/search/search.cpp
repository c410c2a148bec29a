#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "core/fail.h"
#include "search/space.h"

namespace kscout {

namespace {

// Population sizes of the differential evolution that CK Tile's public tools use.
constexpr std::size_t kMembers = 20, kMinMembers = 4;
constexpr double kMutation = 0.3, kCrossover = 0.7;

}  // namespace

std::uint32_t Searcher::below(std::size_t count) {
  // Numbers beyond the last whole multiple of `count` are redrawn: they would favour small results.
  const std::uint64_t most = std::mt19937_64::max() - std::mt19937_64::max() % count;
  std::uint64_t drawn = random_();
  while (drawn >= most) drawn = random_();
  return static_cast<std::uint32_t>(drawn % count);
}

bool Searcher::chance(double probability) {
  return static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
}

SearchResult Searcher::search(const SearchSpace& space, const Objective& objective,
                              const SearchRequest& request) {
  switch (request.strategy) {
    case SearchStrategy::de:
      return evolve(space, objective, request);
    case SearchStrategy::random:
      return draw(space, objective, request);
    case SearchStrategy::all:
      break;
  }
  Tally tally(objective);
  std::vector<std::uint32_t> all(space.size());
  std::iota(all.begin(), all.end(), 0u);
  tally.score(all);
  return tally.result(request.top);
}

SearchResult Searcher::draw(const SearchSpace& space, const Objective& objective,
                            const SearchRequest& request) {
  Tally tally(objective);
  std::vector<std::uint32_t> drawn;
  for (std::size_t i = 0; i < request.evaluations; ++i) drawn.push_back(below(space.size()));
  tally.score(drawn);
  return tally.result(request.top);
}

SearchResult Searcher::evolve(const SearchSpace& space, const Objective& objective,
                              const SearchRequest& request) {
  const std::size_t count = std::min(kMembers, request.evaluations);
  if (count < kMinMembers) return draw(space, objective, request);
  Tally tally(objective);
  std::vector<std::uint32_t> drawn;
  for (std::size_t i = 0; i < count; ++i) drawn.push_back(below(space.size()));
  std::vector<FoundConfig> members = tally.score(drawn);
  SearchPoint child;
  for (std::size_t left = (request.evaluations - count) / count; left > 0; --left) {
    std::vector<std::uint32_t> children;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t others[3];
      for (std::size_t at = 0; at < 3; ++at) {
        do others[at] = below(count);
        while (others[at] == i || std::find(others, others + at, others[at]) != others + at);
      }
      const auto parent = space.point(members[i].config);
      child.assign(parent.begin(), parent.end());
      for (std::size_t axis = 0; axis < child.size(); ++axis) {
        if (chance(kMutation)) child[axis] = space.point(members[others[below(3)]].config)[axis];
        if (chance(1 - kCrossover)) child[axis] = parent[axis];
      }
      children.push_back(space.find(child).value_or(members[i].config));
    }
    const std::vector<FoundConfig> scored = tally.score(children);
    for (std::size_t i = 0; i < count; ++i) {
      if (scored[i].score > members[i].score) members[i] = scored[i];
    }
  }
  return {best_of(std::move(members), request.top), tally.evaluations()};
}

ConfigTable applicable_table(const Family& family, ProblemRef problem) {
  std::vector<std::uint8_t> applicable(family.configs.size());
  applicable_configs(family, problem, applicable);
  ConfigTable configs(family.configs.space());
  for (std::size_t i = 0; i < applicable.size(); ++i) {
    if (applicable[i] != 0) configs.push_back(family.configs[i]);
  }
  if (configs.empty()) {
    fail(Errc::unsupported, "none of the {} configs of rule set '{}' can take {}", applicable.size(),
         family.rules, print(problem));
  }
  return configs;
}

Objective model_objective(const Model& model, ProblemRef problem, const SearchSpace& space) {
  return [&model, problem, &space](std::span<const std::uint32_t> configs, std::span<double> scores) {
    ConfigTable asked(space.configs().space());
    for (const std::uint32_t config : configs) asked.push_back(space.configs()[config]);
    std::ranges::copy(model.score_configs(problem, asked), scores.begin());
  };
}

}  // namespace kscout
