#pragma once
/// \file
/// The other ways in which a dispatcher on a GPU may run a problem whose rows are no multiples of 16 bytes: a
/// kernel that takes them, or copies with aligned rows.
#include <string>
#include <vector>

#include <kscout/selector.h>

namespace kscout::cli {

struct OtherWay {
  std::string config;  ///< name of the kernel
  std::string runs;    ///< the problem that it computes
  double copies_us;    ///< predicted; 0 without copies
  double time_us;      ///< predicted, copies included
};

/// Fastest first; without ways whose time is not predicted. Empty where all rows are multiples of 16 bytes.
std::vector<OtherWay> other_ways(const Selector& selector, ProblemRef problem);

}  // namespace kscout::cli
