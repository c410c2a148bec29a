#include "preload/cpu.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <utility>

#include <time.h>

#include <kscout/error.h>
#include <kscout/provider.h>
#include <kscout/version.h>

#include "backend/cpu/cpu_backend.h"
#include "core/thread_limit.h"
#include "dispatch/solver.h"
#include "dispatch/timed_choice.h"
#include "preload/apart.h"
#include "preload/openmp_team.h"
#include "preload/say.h"
#include "provider/joint.h"
#include "provider/native/native.h"

namespace kscout::preload {

namespace {

/// Products below take about two microseconds: a decision costs more than many of them can gain.
constexpr double kSmallFlop = 1e5;
/// A thread that sleeps or has lost its CPU to another program takes longer to start than such a share of a
/// product takes to compute.
constexpr double kFlopOfThread = 4e6;
/// Threads of a parallel region wait actively for a while after the one before.
constexpr double kFlopOfOpenMpThread = 1e6;
/// A call that takes more memory than this could end the process for lack of it.
constexpr std::size_t kMaxWorkspaceBytes = std::size_t{1} << 28;
/// Stands for the library's kernel in the decision file.
constexpr const char* kLibrary = "library";

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

/// How the decision file writes the threads of a key.
std::string threads_text(const CpuKey& key) {
  return std::string(key.on_openmp ? "openmp_threads=" : "threads=") + std::to_string(key.threads);
}

thread_local TimedOriginal<CpuServer::Decision, HostClock> timed_original;

}  // namespace

/// What a call needs of its decision.
struct CpuServer::Running {
  Decision& decision;
  std::unique_ptr<Launch> launch = nullptr;
  std::unique_ptr<Workspace> workspace = nullptr;
  void* memory = nullptr;  ///< of the workspace
};

CpuServer::CpuServer(const ServeSettings& settings) : settings_(settings) {}
CpuServer::~CpuServer() = default;

int CpuServer::allowed_threads() {
  constexpr std::int64_t kValidNs = 200'000'000;
  thread_local int threads = 0;
  thread_local std::int64_t until = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  if (now_ns >= until) {
    // A fork waits for the lock. Without it, a child could inherit a static object that another thread was
    // initialising, and would wait for that thread for ever.
    const std::scoped_lock lock(deciding_);
    run_apart([&] { threads = std::min(threads_of_environment(), present_thread_limit().threads); });
    until = now_ns + kValidNs;
  }
  return threads;
}

int CpuServer::threads_for(const kscout_blas_call& call, const ProductKey& product) {
  int most = allowed_threads();
  if (call.openmp) most = call.openmp->in_parallel() ? 1 : std::min(most, call.openmp->max_threads());
  if (call.threads) most = std::min(most, call.threads());
  const double of_thread = call.openmp ? kFlopOfOpenMpThread : kFlopOfThread;
  const double worthwhile = std::max(1.0, flop_count(product.problem) / of_thread);
  return static_cast<int>(std::min<double>(std::max(1, most), worthwhile));
}

CpuServer::Decision* CpuServer::decide(const CpuKey& key) {
  const std::scoped_lock lock(deciding_);
  if (Decision* const found = decisions_.find(key)) return found;
  return decisions_.add(key, tally_, [&](Decision& made) { choose(made); });
}

const StoredDecision* CpuServer::timed(const CpuKey& key) {
  if (settings_.batch_invariant || !*key.library || are_timings_disabled()) return nullptr;
  const auto [of_library, is_new] = timings_.try_emplace(key.library);
  if (is_new) {
    try {
      const DecisionOrigin here{device_identity(cpu_backend().device()), "", KSCOUT_VERSION, key.library};
      for (StoredDecision& one : DecisionDb(settings_.db).read(here))
        of_library->second.emplace(std::pair(one.problem, one.limits), std::move(one));
    } catch (const Error& error) {
      kscout_say("earlier timings are not used: %s", error.what());
    }
  }
  const auto found = of_library->second.find(std::pair(print(key.problem), threads_text(key)));
  return found == of_library->second.end() ? nullptr : &found->second;
}

void CpuServer::choose(Decision& one) {
  const CpuKey& key = one.key;
  const StoredDecision* const known = timed(key);
  if (known && known->config == kLibrary) {
    one.outcome = Outcome::slower;
    return;
  }
  auto& solver = solvers_[key.threads];
  if (!solver) {
    Registry registry;
    registry.add(cpu_backend());
    solver = std::make_unique<Solver>(std::move(registry),
                                      DispatchPolicy{.db = settings_.db, .threads = key.threads});
  }
  const Limits limits = {.batch_invariant = settings_.batch_invariant};
  if (known) {
    one.solution = {.choice = timed_choice(key.problem, parse_kernel_to_run(known->config).config,
                                           known->time_us, known->next_us),
                    .backend = &cpu_backend(),
                    .form = {.problem = key.problem}};
  } else {
    one.solution = solver->solve(key.problem, {}, limits);
  }
  auto launch = solver->make_ready(key.problem, one.solution, limits);
  const ChoiceSource source = one.solution.choice.decided_by;
  const bool is_known = source != ChoiceSource::analytic && source != ChoiceSource::fallback;
  // No model of CPUs knows a transposed A. PyTorch's library gains by the analytic cost, OpenBLAS's threads
  // do not (docs/bench/exec_cpu.md).
  const bool is_served = is_known || settings_.refine || (key.on_openmp && !row_major_a(key.problem.layout));
  if (!is_served) {
    one.outcome = Outcome::model;
    return;
  }
  one.workspace_bytes = launch->workspace_bytes();
  if (one.workspace_bytes > kMaxWorkspaceBytes) {
    one.outcome = Outcome::kernel;
    return;
  }
  one.can_fail = member_config(one.solution.choice.config).space->provider != native_gemm_space.provider;
  one.launches.give(std::move(launch));
  if (settings_.refine && !known && source != ChoiceSource::forced)
    one.contest = std::make_unique<Contest<HostClock>>(ContestRules{.order = Order::one_by_one});
}

void CpuServer::prepare(Running& running) {
  Decision& one = running.decision;
  running.launch = one.launches.take();
  if (!running.launch) {
    const std::scoped_lock lock(deciding_);
    run_apart([&] {
      running.launch = solvers_[one.key.threads]->make_ready(one.key.problem, one.solution,
                                                             {.batch_invariant = settings_.batch_invariant});
    });
  }
  if (one.workspace_bytes == 0) return;
  running.workspace = workspaces_.take();
  if (!running.workspace) running.workspace = std::make_unique<Workspace>();
  try {
    running.memory = running.workspace->at_least(host_memory(), one.workspace_bytes);
  } catch (const Error&) {
    throw std::bad_alloc();
  }
}

void CpuServer::compute(Running& running, const Operands& operands) {
  const FloatingPoint guard;
  Decision& one = running.decision;
  try {
    running.launch->run(buffers_of(operands, {}), running.memory);
  } catch (const std::exception& error) {
    // With beta 0 the BLAS overwrites all of C.
    if (one.can_fail && operands.beta != 0) {
      kscout_say("a kernel failed after it may have added to C, which nothing can undo: %s", error.what());
      std::abort();
    }
    one.outcome = Outcome::failed;
    throw;
  }
}

Outcome CpuServer::try_serve(const kscout_blas_call& call, const ProductKey& product) {
  if (!settings_.batch_invariant && flop_count(product.problem) < small_flop(call, settings_))
    return Outcome::small;
  if (call.alpha == 0) return Outcome::nothing;
  if (call.openmp && call.lost_threads && call.openmp->max_threads() > 1) return Outcome::forked;
  const CpuKey key{product, threads_for(call, product), call.openmp != nullptr, call.library};
  const OpenMpTeam team(call.openmp);
  const cpu::TeamScope scope(call.openmp ? &team : nullptr);
  Decision* one = decisions_.find(key);
  if (!one) one = decide(key);
  if (!one) return Outcome::failed;
  if (const Outcome outcome = one->outcome; outcome != Outcome::served) return outcome;
  // All that can fail comes first: a contest counts the calls that run.
  Running running{*one};
  prepare(running);
  Turn turn;
  if (one->is_undecided()) {
    const std::scoped_lock lock(deciding_);
    turn = one->contest->next();
  }
  HostClock::Span span = turn.timed ? HostClock::start() : HostClock::Span();
  if (turn.kernel == kLibrarys) {
    timed_original = {one, turn, span};
  } else {
    try {
      compute(running, operands_of(call));
    } catch (...) {
      if (turn.timed) end_turn(*one, turn, span, false);
      throw;
    }
    if (turn.timed) end_turn(*one, turn, span, true);
  }
  one->launches.give(std::move(running.launch));
  workspaces_.give(std::move(running.workspace));
  return turn.kernel == kLibrarys ? Outcome::timed : Outcome::served;
}

Outcome CpuServer::serve(const kscout_blas_call& call, const ProductKey& product) noexcept {
  Outcome outcome = Outcome::failed;
  try {
    outcome = try_serve(call, product);
  } catch (const std::bad_alloc&) {
    outcome = Outcome::memory;
  } catch (...) {  // the BLAS computes it
  }
  return tally_.count(outcome);
}

void CpuServer::after_original() noexcept {
  const auto [one, turn, span, stream] = std::exchange(timed_original, {});
  if (turn.timed) end_turn(*one, turn, span, true);
}

void CpuServer::end_turn(Decision& one, const Turn& turn, HostClock::Span span, bool is_recorded) noexcept {
  HostClock::stop(span);
  std::optional<ContestResult> result;
  {
    const std::scoped_lock lock(deciding_);
    one.contest->add(turn, span, is_recorded, clock_);
    result = settle(one, clock_, tally_);
  }
  if (result && *one.key.library && !one.solution.form.padded()) keep([&] { store(one, *result); });
}

void CpuServer::store(const Decision& one, const ContestResult& result) const {
  const auto [best, next] = std::minmax(result.pick_us, result.library_us);
  StoredDecision decision = decision_of(one.key.problem, member_config(one.solution.choice.config),
                                        Fastest{.time_us = best, .next_us = next, .timed = 2}, cpu_backend());
  if (result.is_library_faster()) decision.config = kLibrary;
  decision.backend = one.key.library;
  decision.limits = threads_text(one.key);
  DecisionDb(settings_.db).put(decision);
}

}  // namespace kscout::preload
