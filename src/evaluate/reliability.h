#pragma once
/// \file
/// Whether claimed probabilities mean what they say: the reliability table.
///
///     const Reliability r = reliability(claims);    // {0.7, true}, {0.4, false}, ...
///     r.holds();                                    // no bin that can be judged is off by more than 5 points
#include <array>
#include <cstddef>
#include <span>

namespace kscout {

/// A probability that was claimed, and what happened.
struct Claim {
  double probability;
  bool right;
};

struct Reliability {
  static constexpr std::size_t least_claims = 30;  ///< fewer say nothing about a bin
  static constexpr double tolerance = 0.05;        ///< between claimed and observed

  struct Bin {
    std::size_t claims = 0;
    double claimed = 0;   ///< mean of the probabilities in the bin
    double observed = 0;  ///< share that was right
    /// Of `observed`, if each claim were true: how far chance alone moves it.
    double standard_error = 0;
    bool judged() const noexcept { return claims >= least_claims; }
    /// Within the tolerance, or not judged.
    bool holds() const noexcept;
  };

  std::size_t claims = 0;
  std::array<Bin, 10> bins{};  ///< bin i: probabilities from i / 10 to (i + 1) / 10
  double brier = 0;           ///< mean squared difference of claim and outcome; 0.25 = always claiming a half
  double claimed = 0;         ///< mean of all probabilities
  double observed = 0;        ///< share of all that was right
  double standard_error = 0;  ///< of `observed`, as in a bin
  bool holds() const noexcept;
};

/// Claims outside [0, 1], also NaN, are left out.
Reliability reliability(std::span<const Claim> claims);

}  // namespace kscout
