#pragma once
/// \file
/// Keeps plans of cuDNN that no launch uses, for later launches of the same config and problem.
///
///     std::optional<PooledPlan> plan = PlanPool::here().take(key);
///     if (!plan) plan.emplace(build(), microseconds);
///     ...
///     PlanPool::here().give_back(key, std::move(*plan));
///
/// A plan belongs to one launch at a time, because the library does not promise that threads may share one.
#include <list>
#include <mutex>
#include <optional>

#include "backend/cuda/cudnn_graph.h"

namespace kscout::cudnn {

/// Everything that a plan depends on.
struct PlanKey {
  int gpu = 0;
  bool deterministic = false;  ///< a limit, or KSCOUT_CUDNN_DETERMINISTIC
  ConvProblem problem;
  CudnnConfig config;
  bool operator==(const PlanKey&) const = default;
};

struct PooledPlan {
  ConvPlan plan;
  double setup_us = 0;  ///< time of building it
};

/// Thread-safe. Holds at most kMaxPlans and drops the plans that were returned longest ago.
class PlanPool {
 public:
  /// A plan takes about 200 KiB of the library's memory (pytorch#104369).
  static constexpr std::size_t kMaxPlans = 512;

  /// The pool of this process. Never destroyed: the driver may be gone by then.
  static PlanPool& here();

  std::optional<PooledPlan> take(const PlanKey& key);
  void give_back(const PlanKey& key, PooledPlan plan);

 private:
  struct Entry {
    PlanKey key;
    PooledPlan plan;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;  ///< the latest first
};

}  // namespace kscout::cudnn
