#pragma once
/// \file
/// Lets a thread compute kernels on threads that its program has, instead of the pool's.
///
///     const TeamScope scope(&team);          // in this thread, until the end of the scope
///     launch->run(buffers, workspace);
#include "backend/cpu/common/thread_pool.h"

namespace kscout::cpu {

/// Threads of a program.
class Team {
 public:
  virtual ~Team() = default;
  /// Runs part(data, 0..parts-1), each once, in any number of threads. Returns when all are done.
  virtual void run(int parts, ThreadPool::Part part, void* data) const noexcept = 0;
};

/// The team of the calling thread; null: the pool.
inline const Team*& current_team() noexcept {
  static thread_local const Team* team = nullptr;
  return team;
}

class TeamScope {
 public:
  explicit TeamScope(const Team* team) noexcept : before_(current_team()) { current_team() = team; }
  ~TeamScope() { current_team() = before_; }
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;

 private:
  const Team* before_;
};

}  // namespace kscout::cpu
