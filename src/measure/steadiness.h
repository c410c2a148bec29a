#pragma once
/// \file
/// Is the machine left alone while something is timed? A fixed piece of work, timed before and after, tells.
///
///     Steadiness steadiness;
///     if (steadiness.steady(launch.probe_us())) ...   // as fast as this machine was ever seen to be
///
/// A neighbour on the other hardware thread of a core, which a virtual machine cannot see, halves the speed
/// of some instructions for tenths of a second at a time. No number of repeats averages that out: all the
/// samples of a config fall into the same phase. What can be done is to wait until the phase is over.
#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace kscout {

class Steadiness {
 public:
  /// A probe this much slower than usual tells of a disturbance (src/backend/cpu/probe.h: it scatters by 2 %
  /// when alone, a neighbour costs more than 100 %).
  static constexpr double kSlack = 0.2;

  /// Whether a probe that took so long ran undisturbed. 0 (nobody can tell) counts as undisturbed.
  bool steady(double probe_us) noexcept {
    group_[filled_++] = probe_us;
    if (filled_ == group_.size()) {
      std::ranges::nth_element(group_, group_.begin() + kGroup / 2);
      usual_us_ = std::min(usual_us_, group_[kGroup / 2]);
      filled_ = 0;
    }
    return probe_us <= usual_us_ * (1 + kSlack);
  }

 private:
  static constexpr std::size_t kGroup = 32;
  std::array<double, kGroup> group_{};
  std::size_t filled_ = 0;
  /// Median of the fastest group of probes: a single fast one (the clock's steps, a moment of boost) is no
  /// measure.
  double usual_us_ = std::numeric_limits<double>::infinity();
};

}  // namespace kscout
