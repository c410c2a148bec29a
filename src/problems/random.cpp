// Log-uniform sizes, from integers only: the same seed gives the same set on every machine.
#include <algorithm>
#include <set>
#include <tuple>

#include "core/fail.h"
#include "problems/generator.h"
#include "problems/sizes.h"

namespace kscout {

namespace {

/// One size: half of them without further ado, the other half from the shapes that workloads are full of.
Sizes draw(Generator& random, std::int64_t low, std::int64_t high) {
  const auto any = [&] { return random.by_octave(low, high); };
  const auto up_to = [&](std::int64_t most) { return random.by_octave(low, std::clamp(most, low, high)); };
  const auto multiple = [&](std::int64_t of) { return std::clamp((any() + of - 1) / of * of, low, high); };
  switch (random.below(10)) {
    case 0:  // few rows: decoding
    case 1:
      return {up_to(16), any(), any()};
    case 2:  // few columns
      return {any(), up_to(16), any()};
    case 3:  // deep: a small C from long dot products
      return {up_to(128), up_to(128), std::max(any(), any())};
    case 4:  // sizes that tiles divide
      return {multiple(16), multiple(64), multiple(64)};
    case 5: {
      const auto side = any();
      return {side, side, side};
    }
    default:
      return {any(), any(), any()};
  }
}

}  // namespace

std::vector<Sizes> random_sizes(const ProblemSetRequest& request,
                                const std::function<bool(const Sizes&)>& admits) {
  const std::size_t count = request.count ? request.count : 200;
  if (request.min_size < 1 || request.max_size < request.min_size ||
      request.max_size > (std::int64_t{1} << 40)) {
    fail(Errc::invalid_argument, "random sizes from {} to {}: need 1 <= least <= most <= 2^40",
         request.min_size, request.max_size);
  }
  Generator random(request.seed);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  std::vector<Sizes> sizes;
  const std::size_t tries = 1000 + 200 * count;
  for (std::size_t i = 0; i < tries && sizes.size() < count; ++i) {
    const Sizes drawn = draw(random, request.min_size, request.max_size);
    if (admits(drawn) && seen.insert({drawn.m, drawn.n, drawn.k}).second) sizes.push_back(drawn);
  }
  if (sizes.size() < count) {
    fail(Errc::invalid_argument,
         "random: {} of {} sizes found in {} draws; raise the limits on flops and bytes or ask for fewer",
         sizes.size(), count, tries);
  }
  return sizes;
}

}  // namespace kscout
