#include "core/fork_mutex.h"

#include <array>
#include <atomic>
#include <vector>

#include <pthread.h>

#include "core/fail.h"

namespace kscout {

/// The handlers that fork() calls.
struct ForkHandlers {
  struct Level {
    std::mutex adding;
    std::vector<ForkMutex*> all;
  };
  std::array<Level, kForkLevels> levels;
  std::atomic<std::uint32_t> generation{0};
  std::atomic<int> forks{0};  ///< threads that wait to fork: new holders let them go first

  /// Never destroyed: a fork may happen after the destructors of statics.
  static ForkHandlers& instance() {
    static ForkHandlers& one = *new ForkHandlers;
    return one;
  }
  static Level& level(ForkLevel of) { return instance().levels[static_cast<std::size_t>(of)]; }

  /// 0, or the system's error number.
  static int registered() noexcept {
    static const int error = pthread_atfork(before, in_parent, in_child);
    return error;
  }
  static void before() noexcept;
  static void in_parent() noexcept;
  static void in_child() noexcept;
  static void unlock_all() noexcept;
};

namespace {

/// Number of mutexes that this thread holds.
thread_local int held = 0;
/// Whether this thread's current fork took all mutexes.
thread_local bool took_all = false;

}  // namespace

void ForkHandlers::before() noexcept {
  took_all = held == 0;
  if (!took_all) return;
  ForkHandlers& own = instance();
  own.forks.fetch_add(1);
  for (Level& level : own.levels) {
    level.adding.lock();
    for (ForkMutex* one : level.all) one->mutex_.lock();
  }
}

void ForkHandlers::unlock_all() noexcept {
  ForkHandlers& own = instance();
  for (auto level = own.levels.rbegin(); level != own.levels.rend(); ++level) {
    for (ForkMutex* one : level->all) one->mutex_.unlock();
    level->adding.unlock();
  }
  own.forks.notify_all();
}

void ForkHandlers::in_parent() noexcept {
  if (!took_all) return;
  instance().forks.fetch_sub(1);
  unlock_all();
}

void ForkHandlers::in_child() noexcept {
  instance().generation.fetch_add(1);
  if (!took_all) return;
  instance().forks.store(0);  // the child does not have the other threads that were about to fork
  for (Level& level : instance().levels) {
    for (ForkMutex* one : level.all) {
      if (one->in_child_) one->in_child_(one->of_);
    }
  }
  unlock_all();
}

std::uint32_t fork_generation() noexcept {
  ForkHandlers::registered();
  return ForkHandlers::instance().generation.load(std::memory_order_relaxed);
}

ForkMutex::ForkMutex(ForkLevel level, InChild in_child, void* of)
    : level_(level), in_child_(in_child), of_(of) {
  if (const int error = ForkHandlers::registered(); error != 0)
    fail(Errc::device_failure, "cannot prepare for fork(): error {}", error);
  const std::scoped_lock lock(ForkHandlers::level(level).adding);
  ForkHandlers::level(level).all.push_back(this);
}

ForkMutex::~ForkMutex() {
  const std::scoped_lock lock(ForkHandlers::level(level_).adding);
  std::erase(ForkHandlers::level(level_).all, this);
}

void ForkMutex::lock() {
  // Without this wait, a thread that locks in a loop would retake the mutex before the forking thread wakes
  // up. A thread that already holds another ForkMutex continues, because the forking thread waits for it.
  auto& forks = ForkHandlers::instance().forks;
  for (int waiting = 0; held == 0 && (waiting = forks.load()) != 0;) forks.wait(waiting);
  mutex_.lock();
  ++held;
}

bool ForkMutex::try_lock() {
  if (!mutex_.try_lock()) return false;
  ++held;
  return true;
}

void ForkMutex::unlock() {
  --held;
  mutex_.unlock();
}

}  // namespace kscout
