#include "select/region.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fail.h"

namespace kscout {

Region::Sizes region_sizes(ProblemRef problem) noexcept {
  const ImplicitGemm product = product_of(problem);
  const auto log2_of = [](std::int64_t size) {
    return std::log2(static_cast<double>(std::max<std::int64_t>(size, 1)));
  };
  return {log2_of(product.m), log2_of(product.n), log2_of(product.k), log2_of(product.groups)};
}

double Region::distance(std::size_t family, ProblemRef problem) const noexcept {
  Sizes at = region_sizes(problem);
  for (double& size : at) size *= steps;
  double nearest = std::numeric_limits<double>::infinity();
  for (const Prototype& prototype : prototypes[family]) {
    double sum = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double off = at[i] - prototype[i];
      sum += off * off;
    }
    nearest = std::min(nearest, sum);
  }
  return std::sqrt(nearest) / steps;
}

void check(const Region& region, std::size_t families) {
  if (region.prototypes.size() != families) {
    fail(Errc::invalid_argument, "region: prototypes of {} families in a model of {}",
         region.prototypes.size(), families);
  }
  std::size_t count = 0;
  for (const auto& of_family : region.prototypes) {
    if (of_family.empty()) fail(Errc::invalid_argument, "region: a family has no prototype");
    count += of_family.size();
    for (const Region::Prototype& prototype : of_family) {
      for (const std::int32_t size : prototype) {
        if (size < 0 || size > 63 * Region::steps)
          fail(Errc::invalid_argument, "region: a size of 2^({} / {}); sizes are from 1 to 2^63", size,
               Region::steps);
      }
    }
  }
  if (count > Region::max_prototypes)
    fail(Errc::invalid_argument, "region: {} prototypes; the limit is {}", count, Region::max_prototypes);
}

}  // namespace kscout
