#pragma once
/// \file
/// Provides a mutex that is free in a child process: fork() waits until no other thread holds one.
///
///     ForkMutex mutex{ForkLevel::dispatcher};
///     const std::scoped_lock lock(mutex);          // the guarded data is consistent in a child forked meanwhile
///
/// A thread that itself holds such a mutex while it forks (to try a library in a child) does not wait for
/// others. Its child must not touch data that other threads may be changing.
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace kscout {

/// A thread that holds a mutex of one level may lock or create only mutexes of later levels.
enum class ForkLevel : std::uint8_t { dispatcher, reload, selector, library, thread_pool, model, files };
inline constexpr std::size_t kForkLevels = 7;

/// Number of forks between the first process and this one. A lock that a thread of an earlier process held is
/// never released in this process.
std::uint32_t fork_generation() noexcept;

class ForkMutex {
 public:
  /// Called in a child for each mutex, while the child still holds it.
  using InChild = void (*)(void* of) noexcept;

  /// Throws device_failure when the system cannot register another fork handler.
  explicit ForkMutex(ForkLevel level, InChild in_child = nullptr, void* of = nullptr);
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock();
  bool try_lock();
  void unlock();

 private:
  friend struct ForkHandlers;
  std::mutex mutex_;
  ForkLevel level_;
  InChild in_child_;
  void* of_;
};

}  // namespace kscout
