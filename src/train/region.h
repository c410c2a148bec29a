#pragma once
/// \file
/// Summarises the training problems of a model by prototypes (select/region.h).
///
///     data.region = fit_region(set, families, [](std::size_t) { return true; });
#include <functional>
#include <span>

#include <kscout/family.h>

#include "select/region.h"
#include "train/training_set.h"

namespace kscout {

/// The prototypes of each family: means of clusters of the log2 sizes of those of its problems for which
/// `take` returns true. Clusters start from problems that are far from one another (Gonzalez 1985) and are
/// refined by Lloyd's algorithm, so equal problems give equal prototypes. A family without such a problem
/// gets those of the first family that differs in its epilogue only, or of all taken problems.
Region fit_region(const TrainingSet& set, std::span<const Family> families,
                  const std::function<bool(std::size_t)>& take);

}  // namespace kscout
