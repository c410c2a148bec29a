#pragma once
/// \file
/// States what a choice must keep to: a maximum workspace, equal bits from run to run, equal bits of a row
/// whatever M is.
///
///     dispatcher.run(problem, buffers, {.limits = {.workspace_bytes = 1 << 20}});
///     const Choice choice = selector.select(problem, By::best, {.deterministic = true});
///
/// A choice under limits is never a config that breaks one of them, nor a config of which that is not known.
#include <algorithm>
#include <cstdint>
#include <string>

namespace kscout {

struct Limits {
  static constexpr std::int64_t none = -1;
  std::int64_t workspace_bytes = none;  ///< maximum workspace of a run, copies of operands included
  /// Only configs that compute equal bits from equal operands in every run on one device.
  bool deterministic = false;
  /// Only configs of the one class that was measured for the weight of a GEMM: a row has equal bits whatever
  /// M is (docs/batch_invariant.md). No copies, no other backend.
  bool batch_invariant = false;

  bool any() const noexcept { return workspace_bytes >= 0 || deterministic || batch_invariant; }
  bool operator==(const Limits&) const = default;
};

/// The limits that keep both.
inline Limits both(const Limits& a, const Limits& b) noexcept {
  const bool one = a.workspace_bytes >= 0 && b.workspace_bytes >= 0;
  return {
      one ? std::min(a.workspace_bytes, b.workspace_bytes) : std::max(a.workspace_bytes, b.workspace_bytes),
      a.deterministic || b.deterministic, a.batch_invariant || b.batch_invariant};
}

/// "workspace<=1048576,deterministic,batch-invariant"; empty without limits. Part of the key of stored
/// decisions.
std::string print(const Limits& limits);

/// Throws invalid_argument for a workspace below -1.
void check(const Limits& limits);

}  // namespace kscout
