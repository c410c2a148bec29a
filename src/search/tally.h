#pragma once
/// \file
/// Asks an objective and counts. For the sources of this folder.
#include <span>
#include <vector>

#include "search/search.h"

namespace kscout {

/// The usable ones, best first, each config once; of equals the first evaluated. At most `top`.
std::vector<FoundConfig> best_of(std::vector<FoundConfig> found, std::size_t top);

class Tally {
 public:
  explicit Tally(const Objective& objective) : objective_(objective) {}

  /// Scores in the order asked; NaN has become -infinity.
  std::vector<FoundConfig> ask(std::span<const std::uint32_t> configs);
  std::size_t evaluations() const noexcept { return found_.size(); }
  /// All that was asked, in order.
  std::span<const FoundConfig> found() const noexcept { return found_; }
  SearchResult result(std::size_t top) const { return {best_of(found_, top), evaluations()}; }

 private:
  const Objective& objective_;
  std::vector<FoundConfig> found_;
  std::vector<double> scores_;
};

}  // namespace kscout
