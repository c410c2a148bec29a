#pragma once
/// \file
/// Keeps a few threads alive: one call runs a function once per part and returns when all parts are done.
///
///     pool.run(2, [](void* data, int part) { ... }, &data);   // part 0 in this thread, part 1 in a worker
///
/// Workers spin for a short while after their last part and then sleep. Consecutive calls therefore start at
/// once, and an idle program uses no CPU time. A worker that slept for a second ends, so that it does not
/// keep a process alive whose own threads have all ended; the next call starts it again. The calling thread
/// also runs the parts that no worker has begun when its own is done: other programs may use the workers'
/// cores. Threads do not survive fork(): a child process starts its own when it first needs them, and objects
/// made before the fork keep working.
///
/// Each part runs with the calling thread's rounding and flush-to-zero mode, without traps in workers. The
/// program's signals are blocked in workers, so that its handlers run in threads of its own.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/cpu/common/float_control.h"
#include "core/fork_mutex.h"

namespace kscout::cpu {

class ThreadPool {
 public:
  using Part = void (*)(void* data, int part);

  ThreadPool();

  /// Starts workers until there are at least `parts - 1`. Throws device_failure when the system cannot create
  /// a thread.
  void reserve(int parts);

  /// Runs part(data, 0..parts-1), each in one thread. Needs an earlier reserve(parts). When another thread is
  /// inside run(), or a part calls run(), all parts run one after the other in the calling thread. Allocates
  /// nothing, except for the workers of the first call after a fork; when the system cannot create them, the
  /// calling thread does their work.
  void run(int parts, Part part, void* data) noexcept;

  /// Pins worker i to the i-th core that this process may use, and the calling thread to the first; `false`
  /// unpins. Costs system calls; meant for measuring.
  void pin(bool pinned);

  ~ThreadPool();

 private:
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> ticket{0};  ///< grows by 1 per task; workers wait for a change
    std::atomic<std::uint32_t> taken{0};   ///< the last ticket whose part some thread has begun
    std::atomic<bool> sleeping{false};
    std::mutex waking;  ///< guards no data: no signal is lost between the worker's last look and its sleep
    std::condition_variable signal;
    bool has_ended = false;  ///< guarded by busy_
    std::thread thread;
  };
  /// Whether the calling thread has to run the part of this ticket.
  static bool take(Worker& worker, std::uint32_t ticket) noexcept;
  void work(Worker& worker, int part);
  static void wake(Worker& worker) noexcept;
  /// Sleeps until the ticket differs from `seen`. Returns false when the worker has to end.
  bool sleep(Worker& worker, std::uint32_t seen);
  std::unique_ptr<Worker> start_worker(int part, int workers);
  void add_workers(int parts);  ///< requires busy_

  void forget_workers() noexcept;  ///< called in a child process

  ForkMutex busy_;  ///< also makes fork() wait; held while parts run and while workers are added
  std::vector<std::unique_ptr<Worker>> workers_;
  Part part_ = nullptr;
  void* data_ = nullptr;
  FloatControl float_control_;  ///< of the calling thread
  std::atomic<bool> stop_ = false;
  bool pinned_ = false;
  alignas(64) std::atomic<int> pending_{0};
};

/// The threads of the backend.
ThreadPool& pool();

}  // namespace kscout::cpu
