#pragma once
/// \file
/// Times calls on the GPU for the record.
///
///     CallTimer timer(find);
///     const CallTimer::Call call = timer.start(place, stream);      // not timed during a capture
///     ...                                                           // the call
///     timer.stop(call, status == 0);
///     timer.collect([&](const Record::Place& place, double us) { record.add_time(place, us); });
///
/// Nothing waits for the GPU: collect() hands over the times that the GPU has reached. start() is safe with
/// threads; for the other functions, the caller locks.
#include <atomic>
#include <deque>
#include <mutex>

#include "preload/events.h"
#include "preload/record.h"
#include "preload/workspaces.h"

namespace kscout::preload {

class CallTimer {
 public:
  explicit CallTimer(kscout_find find) : find_(find) {}

  struct Call {
    Record::Place place;  ///< false: the call is not timed
    EventTimer::Span span;
    void* stream = nullptr;
  };

  /// Only calls on the GPU of the first one are timed.
  Call start(const Record::Place& place, void* stream) noexcept;
  /// `done`: the call succeeded.
  void stop(const Call& call, bool done) noexcept;

  /// Calls add(place, us).
  template <class F>
  void collect(F&& add) {
    if (open_.empty()) return;
    const CaptureAside aside(driver_);
    for (double us = 0; !open_.empty(); open_.pop_front()) {
      const auto& [place, span, stream] = open_.front();
      const SpanState state = events_.read(span, us);
      if (state == SpanState::pending) return;
      events_.give_back(span);
      if (state == SpanState::done) add(place, us);
    }
  }

  /// A child has no GPU context.
  void in_child() noexcept { off_ = true; }
  /// Forgets the calls of the parent process.
  void forget() noexcept { open_.clear(); }

 private:
  bool can_time() noexcept;

  const kscout_find find_;
  std::once_flag opened_;
  Driver driver_;
  bool can_time_ = false;
  EventTimer events_{driver_};
  std::atomic<void*> context_ = nullptr;
  std::atomic<bool> off_ = false;
  std::deque<Call> open_;  ///< oldest first
};

}  // namespace kscout::preload
