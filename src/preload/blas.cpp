#include "preload/blas.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include <time.h>

#include <kscout/error.h>

#include "backend/cpu/cpu_backend.h"
#include "core/thread_limit.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "measure/timing.h"
#include "preload/apart.h"
#include "preload/openmp_team.h"
#include "preload/say.h"
#include "provider/joint.h"
#include "provider/native/native.h"

namespace kscout::preload {

namespace {

/// Of policy batch-invariant more: a product without a decision would get the library's bits.
constexpr std::size_t kMaxDecisions = 16384, kMaxDecisionsInClasses = 1 << 19, kMaxIdle = 64;
/// Products below take about two microseconds: a decision costs more than many of them can gain.
constexpr double kSmallFlop = 1e5;
/// A thread that sleeps or has lost its CPU to another program takes longer to start than such a share of a
/// product takes to compute.
constexpr double kFlopOfThread = 4e6;
/// Threads of a parallel region wait actively for a while after the one before.
constexpr double kFlopOfOpenMpThread = 1e6;
constexpr int kContestCalls = 12;
/// A call that takes more memory than this could end the process for lack of it.
constexpr std::size_t kMaxWorkspaceBytes = std::size_t{1} << 28;
constexpr double kNone = std::numeric_limits<double>::infinity();

/// What KSCOUT_THREADS and OPENBLAS_NUM_THREADS allow. A variable that is no number binds OpenBLAS neither.
int threads_of_environment() {
  constexpr int kMany = std::numeric_limits<int>::max();
  int threads = std::getenv("KSCOUT_THREADS") ? thread_limit(0, cpu_backend().device()).threads : kMany;
  const char* const value = std::getenv("OPENBLAS_NUM_THREADS");
  int given = 0;
  if (value && std::from_chars(value, value + std::strlen(value), given).ec == std::errc() && given > 0)
    threads = std::min(threads, given);
  return threads;
}

/// Below, the BLAS computes: a parallel region of all threads takes longer than a small product can gain.
double small_flop(const kscout_blas_call& call, const ServeSettings& settings) {
  if (!call.openmp || settings.refine || call.openmp->in_parallel()) return kSmallFlop;
  const int threads = call.openmp->max_threads();
  return threads > 1 ? kFlopOfOpenMpThread * threads : kSmallFlop;
}

}  // namespace

/// What is done about a problem.
struct BlasServer::Decision {
  Passed why = Passed::none;
  Solution solution;
  std::size_t workspace_bytes = 0;
  std::vector<std::unique_ptr<Launch>> idle;  ///< a launch runs in one thread at a time
  bool can_fail = false;                      ///< the kernel is one of a library
  // --refine
  bool is_open = false;
  int calls = 0, running = 0;
  double pick_us = kNone, library_us = kNone;

  /// The pick computes the first half of a contest's calls: threads of a library may wait actively for more
  /// work, and would slow down a pick that alternates with it.
  bool is_librarys_turn() const noexcept { return calls >= kContestCalls / 2; }
  /// The first call of each is slow.
  bool counts_next() const noexcept { return calls % (kContestCalls / 2) != 0; }
};

/// A call between begin() and finish().
struct BlasServer::Running {
  Decision* decision = nullptr;
  std::unique_ptr<Launch> launch;
  std::unique_ptr<Workspace> workspace;
  void* memory = nullptr;  ///< of the workspace
  bool timed = false;      ///< of a contest
  bool counts = false;     ///< and not the first call of its kernel
  std::int64_t begin = 0;  ///< ns
};

namespace {

/// The original that this thread is about to call for a contest.
struct TimedOriginal {
  void* decision = nullptr;
  bool counts = false;
  std::int64_t begin = 0;
};
thread_local TimedOriginal timed_original;

}  // namespace

BlasServer::BlasServer(const ServeSettings& settings) : settings_(settings) {}
BlasServer::~BlasServer() = default;

int BlasServer::allowed_threads() {
  constexpr std::int64_t kValidNs = 200'000'000;
  thread_local int threads = 0;
  thread_local std::int64_t until = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  if (now_ns >= until) {
    // A fork waits for the lock. Without it, a child could inherit a static object that another thread was
    // initialising, and would wait for that thread for ever.
    const std::scoped_lock lock(mutex_);
    run_apart([&] { threads = std::min(threads_of_environment(), present_thread_limit().threads); });
    until = now_ns + kValidNs;
  }
  return threads;
}

int BlasServer::threads_for(const kscout_blas_call& call, const GemmProblem& problem) {
  int most = allowed_threads();
  if (call.openmp) most = call.openmp->in_parallel() ? 1 : std::min(most, call.openmp->max_threads());
  if (call.threads) most = std::min(most, call.threads());
  const double of_thread = call.openmp ? kFlopOfOpenMpThread : kFlopOfThread;
  const double worthwhile = std::max(1.0, flop_count(problem) / of_thread);
  return static_cast<int>(std::min<double>(std::max(1, most), worthwhile));
}

BlasServer::Decision& BlasServer::decide(const Asked& asked) {
  if (const auto found = decisions_.find(asked); found != decisions_.end()) return *found->second;
  auto decision = std::make_unique<Decision>();
  try {
    run_apart([&] { choose(asked, *decision); });
  } catch (const Error& error) {
    decision->why = error.code() == Errc::unsupported ? Passed::kernel : Passed::failed;
    if (settings_.batch_invariant) {
      decision->why = Passed::classes;
      report_without_class(error.what());
    }
  } catch (const std::bad_alloc&) {  // the next call tries again
    throw;
  } catch (const std::exception&) {
    decision->why = Passed::failed;
  }
  Decision& kept = *decisions_.emplace(asked, std::move(decision)).first->second;
  if (kept.is_open) contests_.fetch_add(1, std::memory_order_relaxed);
  return kept;
}

void BlasServer::choose(const Asked& asked, Decision& decision) {
  auto& solver = solvers_[asked.threads];
  if (!solver) {
    Registry registry;
    registry.add(cpu_backend());
    solver = std::make_unique<Solver>(std::move(registry),
                                      DispatchPolicy{.db = settings_.db, .threads = asked.threads});
  }
  const Limits limits = {.batch_invariant = settings_.batch_invariant};
  decision.solution = solver->solve(asked.problem, {}, limits);
  auto launch = solver->make_ready(asked.problem, decision.solution, limits);
  const ChoiceSource source = decision.solution.choice.decided_by;
  const bool is_known = source != ChoiceSource::analytic && source != ChoiceSource::fallback;
  // No model of CPUs knows a transposed A. PyTorch's library gains by the analytic cost, OpenBLAS's threads
  // do not (docs/bench/exec_cpu.md).
  const bool is_served =
      is_known || settings_.refine || (asked.on_openmp && !row_major_a(asked.problem.layout));
  if (!is_served) {
    decision.why = Passed::model;
    return;
  }
  decision.workspace_bytes = launch->workspace_bytes();
  if (decision.workspace_bytes > kMaxWorkspaceBytes) {
    decision.why = Passed::kernel;
    return;
  }
  decision.can_fail =
      member_config(decision.solution.choice.config).space->provider != native_gemm_space.provider;
  decision.idle.push_back(std::move(launch));
  decision.is_open = settings_.refine && source != ChoiceSource::forced;
}

Passed BlasServer::begin(const Asked& asked, Running& running) {
  const std::scoped_lock lock(mutex_);
  const std::size_t most = settings_.batch_invariant ? kMaxDecisionsInClasses : kMaxDecisions;
  if (decisions_.size() >= most && !decisions_.contains(asked)) return Passed::failed;
  Decision& one = decide(asked);
  if (one.why != Passed::none) return one.why;
  // All that can fail comes first: a contest counts the calls that run.
  const bool timed = one.is_open && one.calls < kContestCalls;
  const bool is_librarys = timed && one.is_librarys_turn();
  if (!is_librarys) {
    if (!one.idle.empty()) {
      running.launch = std::move(one.idle.back());
      one.idle.pop_back();
    } else {
      run_apart([&] {
        running.launch = solvers_[asked.threads]->make_ready(asked.problem, one.solution,
                                                             {.batch_invariant = settings_.batch_invariant});
      });
    }
    if (one.workspace_bytes > 0) {
      if (idle_.empty()) {
        running.workspace = std::make_unique<Workspace>();
      } else {
        running.workspace = std::move(idle_.back());
        idle_.pop_back();
      }
      try {
        running.memory = running.workspace->at_least(host_memory(), one.workspace_bytes);
      } catch (const Error&) {
        return Passed::memory;
      }
    }
  }
  running.decision = &one;
  running.timed = timed;
  if (!timed) return Passed::none;
  running.counts = one.counts_next();
  ++one.calls;
  ++one.running;
  return is_librarys ? Passed::timed : Passed::none;
}

void BlasServer::finish(Running running) noexcept try {
  const double us =
      running.timed && running.counts ? static_cast<double>(now_ns() - running.begin) / 1e3 : kNone;
  const std::scoped_lock lock(mutex_);
  Decision& one = *running.decision;
  if (running.timed) {
    double& best = running.launch ? one.pick_us : one.library_us;
    best = std::min(best, us);
    if (--one.running == 0 && one.calls == kContestCalls) {
      one.is_open = false;
      refined_.fetch_add(1, std::memory_order_relaxed);
      if (one.library_us < one.pick_us) {
        one.why = Passed::slower;
        one.idle.clear();
        library_kept_.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
  if (running.launch && one.why == Passed::none) one.idle.push_back(std::move(running.launch));
  if (running.workspace && idle_.size() < kMaxIdle) idle_.push_back(std::move(running.workspace));
} catch (...) {  // no memory: the launch or the workspace is made again
}

void BlasServer::compute(Running& running, const Operands& operands) {
  const FloatingPoint guard;
  try {
    running.launch->run(GemmBuffers{.a = operands.a,
                                    .b = operands.b,
                                    .c = operands.c,
                                    .alpha = operands.alpha,
                                    .beta = operands.beta},
                        running.memory);
  } catch (const std::exception& error) {
    // With beta 0 the BLAS overwrites all of C.
    if (running.decision->can_fail && operands.beta != 0) {
      kscout_say("a kernel failed after it may have added to C, which nothing can undo: %s", error.what());
      std::abort();
    }
    const std::scoped_lock lock(mutex_);
    running.decision->why = Passed::failed;
    throw;
  }
}

Passed BlasServer::serve(const kscout_blas_call& call, const GemmProblem& problem) noexcept {
  Passed why = Passed::failed;
  try {
    if (!settings_.batch_invariant && flop_count(problem) < small_flop(call, settings_)) {
      why = Passed::small;
    } else if (call.alpha == 0) {
      why = Passed::nothing;
    } else if (call.openmp && call.lost_threads && call.openmp->max_threads() > 1) {
      why = Passed::forked;
    } else {
      Running running;
      const Asked asked{problem, threads_for(call, problem), call.openmp != nullptr};
      const OpenMpTeam team(call.openmp);
      const cpu::TeamScope scope(call.openmp ? &team : nullptr);
      why = begin(asked, running);
      if (running.timed) running.begin = now_ns();
      if (why == Passed::timed) {
        timed_original = {running.decision, running.counts, running.begin};
      } else if (why == Passed::none) {
        why = Passed::failed;
        try {
          compute(running, operands_of(call));
        } catch (...) {
          running.counts = false;
          finish(std::move(running));
          throw;
        }
        finish(std::move(running));
        served_.fetch_add(1, std::memory_order_relaxed);
        return Passed::none;
      }
    }
  } catch (const std::bad_alloc&) {
    why = Passed::memory;
  } catch (...) {  // the BLAS computes it
  }
  passed_[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  return why;
}

void BlasServer::after_original() noexcept {
  const TimedOriginal call = std::exchange(timed_original, {});
  finish({.decision = static_cast<Decision*>(call.decision),
          .launch = nullptr,
          .workspace = nullptr,
          .timed = true,
          .counts = call.counts,
          .begin = call.begin});
}

ServeCounts BlasServer::counts() const noexcept {
  ServeCounts counts{
      .served = served_, .contests = contests_, .refined = refined_, .library_kept = library_kept_};
  std::ranges::transform(passed_, counts.passed.begin(), [](const auto& count) { return count.load(); });
  return counts;
}

void BlasServer::in_child() noexcept {
  served_ = contests_ = refined_ = library_kept_ = 0;
  for (auto& count : passed_) count = 0;
}

}  // namespace kscout::preload
