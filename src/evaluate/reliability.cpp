#include "evaluate/reliability.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kscout {

bool Reliability::Bin::holds() const noexcept {
  return !judged() || std::fabs(claimed - observed) <= tolerance;
}

bool Reliability::holds() const noexcept {
  return std::ranges::all_of(bins, [](const Bin& bin) { return bin.holds(); });
}

Reliability reliability(std::span<const Claim> claims) {
  Reliability r;
  std::array<double, 10> variance{};
  for (const Claim& claim : claims) {
    const double p = claim.probability;
    if (!(p >= 0 && p <= 1)) continue;
    const std::size_t at = std::min<std::size_t>(static_cast<std::size_t>(p * 10), r.bins.size() - 1);
    ++r.claims;
    ++r.bins[at].claims;
    r.bins[at].claimed += p;
    r.bins[at].observed += claim.right;
    variance[at] += p * (1 - p);
    r.claimed += p;
    r.observed += claim.right;
    r.brier += (p - claim.right) * (p - claim.right);
  }
  for (std::size_t i = 0; i < r.bins.size(); ++i) {
    Reliability::Bin& bin = r.bins[i];
    if (bin.claims == 0) continue;
    const auto count = static_cast<double>(bin.claims);
    bin.claimed /= count;
    bin.observed /= count;
    bin.standard_error = std::sqrt(variance[i]) / count;
  }
  if (r.claims > 0) {
    const auto count = static_cast<double>(r.claims);
    r.brier /= count;
    r.claimed /= count;
    r.observed /= count;
    r.standard_error = std::sqrt(std::accumulate(variance.begin(), variance.end(), 0.0)) / count;
  }
  return r;
}

}  // namespace kscout
