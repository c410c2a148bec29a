#include "backend/cpu/common/thread_pool.h"

#include <chrono>
#include <system_error>

#if defined(__linux__)
#include <csignal>

#include <pthread.h>
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/fail.h"

namespace kscout::cpu {

namespace {

/// Longer than the pause between two calls of a layer, shorter than a time slice.
constexpr int kSpins = 2000;
constexpr std::chrono::seconds kIdle{1};

void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

thread_local bool inside_part = false;

#if defined(__linux__)
/// Blocks signals in the calling thread, except those that its own instructions raise. A new thread inherits
/// the mask.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&blocked, own);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};
#else
struct BlockedSignals {};
#endif

#if defined(__linux__)
std::vector<int> allowed_cores() {
  // Read at process start, because pinning changes the calling thread's own mask.
  static const std::vector<int> cores = [] {
    std::vector<int> found;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return found;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) found.push_back(core);
    }
    return found;
  }();
  return cores;
}

void pin_thread(pthread_t thread, std::size_t index, bool pinned) {
  const std::vector<int> cores = allowed_cores();
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (pinned) {
    CPU_SET(cores[index % cores.size()], &set);
  } else {
    for (const int core : cores) CPU_SET(core, &set);
  }
  pthread_setaffinity_np(thread, sizeof set,
                         &set);  // some containers refuse it: the threads then stay where they are
}
#endif

}  // namespace

ThreadPool::ThreadPool()
    : busy_(
          ForkLevel::thread_pool,
          [](void* pool) noexcept { static_cast<ThreadPool*>(pool)->forget_workers(); }, this) {}

void ThreadPool::forget_workers() noexcept {
  // The threads belong to the parent process and can be neither joined nor detached here, so their objects
  // are leaked.
  for (auto& worker : workers_) static_cast<void>(worker.release());
  workers_.clear();
}

void ThreadPool::reserve(int parts) {
  const std::scoped_lock lock(busy_);
  add_workers(parts);
}

std::unique_ptr<ThreadPool::Worker> ThreadPool::start_worker(int part, int workers) {
  auto worker = std::make_unique<Worker>();
  try {
    [[maybe_unused]] const BlockedSignals blocked;
    worker->thread = std::thread(&ThreadPool::work, this, std::ref(*worker), part);
  } catch (const std::system_error& error) {
    fail(Errc::device_failure, "cannot start worker thread {} of {}: {}", part, workers, error.what());
  }
#if defined(__linux__)
  if (pinned_) pin_thread(worker->thread.native_handle(), static_cast<std::size_t>(part), true);
#endif
  return worker;
}

void ThreadPool::add_workers(int parts) {
  for (int part = 1; part < parts; ++part) {
    const auto at = static_cast<std::size_t>(part - 1);
    if (at < workers_.size() && !workers_[at]->has_ended) continue;
    if (at == workers_.size()) workers_.reserve(workers_.size() + 1);  // before the thread runs
    auto worker = start_worker(part, parts - 1);
    if (at == workers_.size()) {
      workers_.push_back(std::move(worker));
    } else {
      workers_[at] = std::move(worker);
    }
  }
}

void ThreadPool::run(int parts, Part part, void* data) noexcept {
  if (parts == 1 || inside_part || !busy_.try_lock()) {
    for (int i = 0; i < parts; ++i) part(data, i);
    return;
  }
  try {
    add_workers(parts);  // adds none, unless the process was forked or was idle
  } catch (...) {
    busy_.unlock();
    for (int i = 0; i < parts; ++i) part(data, i);
    return;
  }
  part_ = part;
  data_ = data;
  float_control_ = FloatControl::here();
  pending_.store(parts - 1, std::memory_order_relaxed);
  for (int i = 0; i < parts - 1; ++i) {
    Worker& worker = *workers_[static_cast<std::size_t>(i)];
    worker.ticket.fetch_add(1, std::memory_order_seq_cst);
    if (worker.sleeping.load(std::memory_order_seq_cst)) wake(worker);
  }
  inside_part = true;
  part(data, 0);
  for (int i = 0; i < parts - 1; ++i) {
    Worker& worker = *workers_[static_cast<std::size_t>(i)];
    if (!take(worker, worker.ticket.load(std::memory_order_relaxed))) continue;
    part(data, i + 1);
    pending_.fetch_sub(1, std::memory_order_relaxed);
  }
  inside_part = false;
  for (int spins = 0; pending_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      relax();
    } else {
      std::this_thread::yield();  // more threads than cores: let the workers run
    }
  }
  busy_.unlock();
}

bool ThreadPool::take(Worker& worker, std::uint32_t ticket) noexcept {
  std::uint32_t before = ticket - 1;  // run() returns when all parts are done: the part before was taken
  return worker.taken.compare_exchange_strong(before, ticket, std::memory_order_acq_rel);
}

void ThreadPool::wake(Worker& worker) noexcept {
  { const std::scoped_lock lock(worker.waking); }
  worker.signal.notify_one();
}

bool ThreadPool::sleep(Worker& worker, std::uint32_t seen) {
  for (;;) {
    std::unique_lock lock(worker.waking);
    worker.sleeping.store(true, std::memory_order_seq_cst);
    const bool woken = worker.signal.wait_for(
        lock, kIdle, [&] { return worker.ticket.load(std::memory_order_seq_cst) != seen; });
    worker.sleeping.store(false, std::memory_order_relaxed);
    if (woken) return !stop_;
    lock.unlock();
    if (!busy_.try_lock()) continue;  // a call may have begun
    const bool ends = worker.ticket.load(std::memory_order_relaxed) == seen;
    if (ends) {
      worker.thread.detach();  // nobody may come to join it
      worker.has_ended = true;
    }
    busy_.unlock();
    if (ends) return false;
  }
}

void ThreadPool::work(Worker& worker, int part) {
  inside_part = true;
  for (std::uint32_t seen = 0;;) {
    int spins = 0;
    while (worker.ticket.load(std::memory_order_acquire) == seen && spins < kSpins) {
      relax();
      ++spins;
    }
    if (spins == kSpins && !sleep(worker, seen)) return;
    if (stop_) return;
    seen = worker.ticket.load(std::memory_order_acquire);
    if (!take(worker, seen)) continue;
    float_control_.set_without_traps();
    part_(data_, part);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::pin(bool pinned) {
#if defined(__linux__)
  const std::scoped_lock lock(busy_);
  pinned_ = pinned;
  pin_thread(pthread_self(), 0, pinned);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i]->has_ended) pin_thread(workers_[i]->thread.native_handle(), i + 1, pinned);
  }
#else
  pinned_ = pinned;
#endif
}

ThreadPool::~ThreadPool() {
  const bool locked = busy_.try_lock();  // no worker ends by itself meanwhile
  stop_ = true;
  for (auto& worker : workers_) {
    worker->ticket.fetch_add(1, std::memory_order_seq_cst);
    wake(*worker);
  }
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
  if (locked) busy_.unlock();
}

ThreadPool& pool() {
  static ThreadPool instance;
  return instance;
}

}  // namespace kscout::cpu
