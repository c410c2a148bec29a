#pragma once
/// \file
/// What the servers of a program's GPU share (gpu.h: products, conv.h: convolutions): the GPU and its
/// context, workspaces, captures, timed calls, and how a decided call runs.
///
///     GpuSession session(find, settings, /*off=*/"");
///     if (!session.is_on_its_gpu()) return Outcome::gpu;
///     if (!session.open()) return Outcome::off;
///     decide(session.gpu());                                  // once for each problem
///     return session.run(decision, operands, tally);
///
/// Work runs in the caller's workspace where that is large enough, else in memory of the stream's own.
/// Thread-safe.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/launch.h>

#include "preload/calls.h"
#include "preload/decide.h"
#include "preload/events.h"
#include "preload/read_calls.h"
#include "preload/workspaces.h"
#include "select/decision_db.h"

namespace kscout::preload {

/// What is done about a problem of a GPU.
template <class Key>
struct GpuDecision : BasicDecision<Key, EventTimer> {
  using BasicDecision<Key, EventTimer>::BasicDecision;
  std::vector<std::unique_ptr<Launch>> picks;  ///< the best first; more than one of a contest
  std::atomic<std::size_t> best = 0;           ///< of `picks`
  std::size_t workspace_bytes = 0;
  std::atomic<double> saved_us = 0;
  std::mutex running;  ///< one launch runs in one thread at a time
  std::atomic<bool> failed = false;
  std::atomic<bool> has_run = false;
};

class GpuSession {
 public:
  /// `off`: a reason to serve nothing; empty: none.
  GpuSession(kscout_find find, const ServeSettings& settings, std::string off);
  ~GpuSession();
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  const ServeSettings& settings() const noexcept { return settings_; }
  const Driver& driver() const noexcept { return driver_; }
  kscout_find finder() const noexcept { return find_; }

  bool is_off() const noexcept { return off_.load(std::memory_order_acquire); }
  /// Why nothing is served; empty while anything may be.
  const char* off_reason() const noexcept;
  void turn_off(const std::string& why) noexcept;
  /// A child process has no GPU context: it serves nothing.
  void in_child() noexcept;

  /// Whether this thread's context is that of the first call.
  bool is_on_its_gpu() noexcept;
  /// Makes that context the one of a thread of ours. Returns whether it is.
  bool use_context() noexcept;
  /// Opens backend `cuda` on the GPU of this thread's context. Returns whether it is open.
  bool open();
  // After open().
  Backend& gpu() const noexcept { return *gpu_; }
  /// Of the decision file.
  const DecisionTable& timings() const noexcept { return timings_; }

  /// Runs the decision's kernel, or returns why the library has to compute the call. C is unchanged then.
  template <class Decision>
  Outcome run(Decision& one, const Operands& operands, Tally& tally);
  /// Ends the contest of a decision whose samples are known.
  template <class Decision>
  std::optional<ContestResult> settled(Decision& one, Tally& tally) noexcept;
  /// Whether after_original() has to follow the original of a call with this outcome: the call is timed; or a
  /// graph is captured, and the thread may load kernels until then (exchange_capture_mode), because a program
  /// that warms up first has not made the original do so.
  static constexpr bool watches(Outcome outcome) noexcept {
    return outcome == Outcome::capture || outcome == Outcome::timed;
  }
  void exchange_capture_mode() noexcept;
  void after_original(int status) noexcept;

  /// Releases workspaces outside of captures. Returns whether there were any.
  bool give_back() noexcept;
  /// How often workspaces were released because the program needed memory.
  std::uint64_t given_back() const noexcept;

 private:
  static constexpr std::uintptr_t kWorkspaceAlignment = 256;
  /// Larger workspaces are reserved for captures only by calls on a stream other than the default one, on
  /// which programs warm up before they capture.
  static constexpr std::size_t kSmallReserve = std::size_t{64} << 20;

  /// The memory of a call; null where there is none, with the reason.
  void* workspace_of(const Operands& operands, std::size_t bytes, StreamWorkspaces::Hold& hold, Outcome& why);
  void add(Contest<EventTimer>& contest, const Turn& turn, const EventTimer::Span& span,
           bool is_recorded) noexcept;

  const ServeSettings settings_;
  kscout_find find_;
  Driver driver_;
  std::atomic<bool> off_ = false;
  std::array<char, 512> off_reason_{};
  std::once_flag turned_off_;

  std::mutex opening_;
  bool was_opened_ = false;
  Backend* gpu_ = nullptr;
  DecisionTable timings_;

  std::atomic<void*> context_ = nullptr;  ///< of the first call
  std::mutex contesting_;                 ///< guards the contests
  std::unique_ptr<StreamWorkspaces> workspaces_;
  std::atomic<StreamWorkspaces*> opened_workspaces_ = nullptr;
  EventTimer timer_{driver_};

  static thread_local TimedOriginal<Contest<EventTimer>, EventTimer> timed_original_;
};

template <class Decision>
Outcome GpuSession::run(Decision& one, const Operands& operands, Tally& tally) {
  void* workspace = nullptr;
  StreamWorkspaces::Hold hold;
  Outcome why = Outcome::served;
  if (one.workspace_bytes > 0 && !(workspace = workspace_of(operands, one.workspace_bytes, hold, why)))
    return why;
  Turn turn{.kernel = one.best.load(std::memory_order_relaxed)};
  if (one.is_undecided() && !driver_.captures(operands.stream)) {
    const std::scoped_lock lock(contesting_);
    turn = one.contest->next();
  }
  const EventTimer::Span span = turn.timed ? timer_.start(operands.stream) : EventTimer::Span();
  if (turn.kernel == one.picks.size()) {
    timed_original_ = {one.contest.get(), turn, span, operands.stream};
    return Outcome::timed;
  }
  try {
    const std::scoped_lock lock(one.running);
    one.picks[turn.kernel]->run(buffers_of(operands, gpu_->space()), workspace, {operands.stream});
    one.has_run.store(true, std::memory_order_relaxed);
  } catch (...) {
    one.failed = true;
    if (turn.timed) add(*one.contest, turn, span, false);
    throw;
  }
  if (turn.timed) add(*one.contest, turn, span, timer_.stop(span, operands.stream));
  tally.saved_ns.fetch_add(static_cast<std::uint64_t>(1e3 * one.saved_us), std::memory_order_relaxed);
  return Outcome::served;
}

template <class Decision>
std::optional<ContestResult> GpuSession::settled(Decision& one, Tally& tally) noexcept {
  const std::scoped_lock lock(contesting_);
  const CaptureAside aside(driver_);
  std::optional<ContestResult> result = settle(one, timer_, tally);
  if (result && !result->is_library_faster()) {
    one.best = result->pick;
    one.saved_us = result->library_us - result->pick_us;
  }
  return result;
}

}  // namespace kscout::preload
