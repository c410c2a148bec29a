#include "backend/cuda/cudnn_plans.h"

#include <algorithm>

namespace kscout::cudnn {

PlanPool& PlanPool::here() {
  static PlanPool* const pool = new PlanPool;
  return *pool;
}

std::optional<PooledPlan> PlanPool::take(const PlanKey& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) return std::nullopt;
  std::optional<PooledPlan> plan(std::move(found->plan));
  entries_.erase(found);
  return plan;
}

void PlanPool::give_back(const PlanKey& key, PooledPlan plan) {
  std::list<Entry> dropped;  // destroyed without the lock: the library may take long to free a plan
  const std::scoped_lock lock(mutex_);
  entries_.push_front({key, std::move(plan)});
  if (entries_.size() > kMaxPlans) dropped.splice(dropped.end(), entries_, std::prev(entries_.end()));
}

}  // namespace kscout::cudnn
