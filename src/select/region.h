#pragma once
/// \file
/// Says how far a problem is from the problems that a model was trained on.
///
///     const double octaves = region.distance(family, problem);   // 0: a prototype; 1: one size is doubled
///     if (guard.applies(octaves, lead)) ...                      // the library's first suggestion answers
///
/// The training problems of each family are summarised by prototypes: the means of clusters of their sizes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <kscout/any_problem.h>

namespace kscout {

struct Region {
  static constexpr std::size_t fitted_prototypes =
      512;  ///< of the families with training problems, at least 100 each
  static constexpr std::size_t max_prototypes = 8192;  ///< of all families together
  static constexpr int steps = 16;                     ///< resolution: steps per factor of 2
  /// log2 of m, n, k and the number of products, of a problem's (implicit) GEMM.
  using Sizes = std::array<double, 4>;
  /// The same in steps of 1/16, rounded.
  using Prototype = std::array<std::int32_t, 4>;

  std::vector<std::vector<Prototype>> prototypes;  ///< per family of the model, at least one each
  bool operator==(const Region&) const = default;

  /// Euclidean distance of the log2 sizes to the nearest prototype of the family. Takes no lock, allocates
  /// nothing; at most fitted_prototypes distances are computed by a trained one.
  double distance(std::size_t family, ProblemRef problem) const noexcept;
};

/// The sizes of a problem's (implicit) GEMM; sizes below 1 count as 1.
Region::Sizes region_sizes(ProblemRef problem) noexcept;

/// When the library's first suggestion answers in place of the model's first config: the problem is far from
/// the trained ones, and the first config is predicted to be hardly faster than the suggestion. The limits
/// were chosen with models trained without whole distributions (docs/bench/confidence_h200.md).
struct Guard {
  double distance = 2.5;  ///< octaves; nearer problems are left to the model
  double lead = 0.10;     ///< predicted ln of (speed of the first config / speed of the suggestion)
  bool operator==(const Guard&) const = default;

  bool applies(double octaves, double predicted_lead) const noexcept {
    return octaves >= distance && predicted_lead < lead;
  }
};

/// Throws invalid_argument unless each of `families` families has a prototype, all together have at most
/// max_prototypes, and sizes are from 1 to 2^63.
void check(const Region& region, std::size_t families);

}  // namespace kscout
