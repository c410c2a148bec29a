#pragma once
/// \file
/// Work in a forked child: what may crash, hang, or leave traces that this process must not have.
///
///     const ChildResult found = in_child(30, [] { return facts_of_the_driver(); });
///     if (!found.failure.empty()) ...   // "crashed: Segmentation fault"
///
/// Of the threads only the calling one exists in the child, so the work should not wait for others.
#include <functional>
#include <string>

namespace kscout {

struct ChildResult {
  std::string output;   ///< what the work returned
  std::string failure;  ///< how the child ended instead, "crashed: ..."; empty when it returned
  bool timed_out = false;
};

/// Calls `work` in a child that is ended after `seconds`. Costs the fork, more where much memory is mapped.
/// Throws device_failure when the system has no process or pipe left.
ChildResult in_child(double seconds, const std::function<std::string()>& work);

}  // namespace kscout
