#pragma once
/// \file
/// A few threads that stay: one call runs a function once per part and returns when all parts are done.
///
///     pool.run(2, [](void* data, int part) { ... }, &data);   // part 0 in this thread, part 1 in a worker
///
/// Workers spin for a short while after their last part, then sleep, so that calls that follow each other
/// start at once and an idle program costs nothing. Threads do not survive fork(): a child
/// process starts its own when it first needs them, and what it was given before the fork goes on to work.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/fork_mutex.h"

namespace kscout::cpu {

class ThreadPool {
 public:
  using Part = void (*)(void* data, int part);

  ThreadPool();

  /// Starts `parts - 1` workers at once when more than are there already are asked for. Throws device_failure
  /// when the system gives no thread.
  void reserve(int parts);

  /// Runs part(data, 0..parts-1). Needs reserve(parts) before. While another thread is inside, or from inside
  /// a part, all parts run one after the other in the calling thread. Allocates nothing, but for the workers
  /// of the first call after a fork; when the system gives none, the calling thread does their work.
  void run(int parts, Part part, void* data) noexcept;

  /// Ties worker i to the i-th core this process may use and the calling thread to the first; `false` unties.
  /// Costs system calls; meant for measuring.
  void pin(bool pinned);

  ~ThreadPool();

 private:
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> ticket{0};  ///< grows by 1 per task; workers wait for a change
    std::atomic<bool> sleeping{false};
    std::thread thread;
  };
  void work(Worker& worker, int part);
  void add_workers(int parts);  ///< with busy_ held

  void forget_workers() noexcept;  ///< in a child process

  ForkMutex busy_;  ///< also keeps fork() away; held while parts run and while workers are added
  std::vector<std::unique_ptr<Worker>> workers_;
  Part part_ = nullptr;
  void* data_ = nullptr;
  bool stop_ = false;
  bool pinned_ = false;
  alignas(64) std::atomic<int> pending_{0};
};

}  // namespace kscout::cpu
