#pragma once
/// \file
/// A mutex that is free in a child process: fork() waits until no other thread holds one.
///
///     ForkMutex mutex{ForkLevel::dispatcher};
///     const std::scoped_lock lock(mutex);          // what it guards is whole in a child that is forked meanwhile
///
/// A thread that forks while it holds such a mutex itself (a library that is tried in a child) waits for
/// nobody: its child must not touch what other threads may be changing.
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace kscout {

/// A thread that holds a mutex of one level may take or make only those of later levels.
enum class ForkLevel : std::uint8_t { dispatcher, reload, selector, library, thread_pool, model, files };
inline constexpr std::size_t kForkLevels = 7;

/// How many forks lie between the first process and this one: what a thread of an earlier one left behind,
/// nobody will take away.
std::uint32_t fork_generation() noexcept;

class ForkMutex {
 public:
  /// Called in a child for each mutex, while it is held there.
  using InChild = void (*)(void* of) noexcept;

  /// Throws device_failure when the system has no room for one more thing to do at fork().
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
