#include "train/region.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kscout {

namespace {

using Points = std::vector<Region::Sizes>;

double squared_distance(const Region::Sizes& a, const Region::Sizes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

Region::Sizes mean_of(const Points& points) {
  Region::Sizes mean{};
  for (const auto& point : points) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += point[i] / static_cast<double>(points.size());
  }
  return mean;
}

/// Points of which each is the farthest from those before it; begins near the mean. Stops early when all
/// points are equal to one of them.
Points far_apart(const Points& points, std::size_t count) {
  const Region::Sizes mean = mean_of(points);
  const auto nearest =
      std::ranges::min_element(points, {}, [&](const auto& point) { return squared_distance(point, mean); });
  Points chosen{*nearest};
  std::vector<double> away(points.size(), std::numeric_limits<double>::infinity());
  while (chosen.size() < count) {
    for (std::size_t i = 0; i < points.size(); ++i)
      away[i] = std::min(away[i], squared_distance(points[i], chosen.back()));
    const auto farthest = std::ranges::max_element(away);
    if (*farthest == 0) break;
    chosen.push_back(points[static_cast<std::size_t>(farthest - away.begin())]);
  }
  return chosen;
}

/// Lloyd's algorithm. Every cluster keeps a point: its start is a point of its own.
Points cluster_means(const Points& points, std::size_t count) {
  constexpr int kRounds = 25;
  Points means = far_apart(points, count);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Points> clusters(means.size());
    for (const auto& point : points) {
      const auto nearest = std::ranges::min_element(
          means, {}, [&](const auto& mean) { return squared_distance(point, mean); });
      clusters[static_cast<std::size_t>(nearest - means.begin())].push_back(point);
    }
    const Points before = means;
    for (std::size_t i = 0; i < means.size(); ++i) {
      if (!clusters[i].empty()) means[i] = mean_of(clusters[i]);
    }
    if (means == before) break;
  }
  return means;
}

bool equal_but_epilogue(const Family& a, const Family& b) {
  Signature one = a.signature;
  one.epilogue = b.signature.epilogue;
  return one == b.signature;
}

}  // namespace

Region fit_region(const TrainingSet& set, std::span<const Family> families,
                  const std::function<bool(std::size_t)>& take) {
  Points all;
  std::vector<Points> of_family(families.size());
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    if (!take(p)) continue;
    all.push_back(region_sizes(set.problems[p]));
    for (std::size_t f = 0; f < families.size(); ++f) {
      if (signature_of(set.problems[p]) == families[f].signature) of_family[f].push_back(all.back());
    }
  }
  // Families that were only measured without their epilogue do not make those of the others coarser.
  const auto own = static_cast<std::size_t>(
      std::ranges::count_if(of_family, [](const Points& points) { return !points.empty(); }));
  constexpr std::size_t kLeast = 100;  // of each family: fewer make its own problems seem far
  const std::size_t count = std::max(Region::fitted_prototypes / std::max<std::size_t>(own, 1), kLeast);
  Region region;
  for (std::size_t f = 0; f < families.size(); ++f) {
    auto& prototypes = region.prototypes.emplace_back();
    const auto same = [&](const Family& other) { return equal_but_epilogue(other, families[f]); };
    const auto base = static_cast<std::size_t>(std::ranges::find_if(families, same) - families.begin());
    const Points& points = of_family[f].empty() ? of_family[base] : of_family[f];
    for (const auto& mean : cluster_means(points.empty() ? all : points, count)) {
      Region::Prototype rounded{};
      for (std::size_t i = 0; i < mean.size(); ++i)
        rounded[i] = static_cast<std::int32_t>(std::lround(mean[i] * Region::steps));
      prototypes.push_back(rounded);
    }
  }
  return region;
}

}  // namespace kscout
