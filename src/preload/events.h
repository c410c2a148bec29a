#pragma once
/// \file
/// Times work on a GPU without waiting for it: events around a call are read at a later one.
///
///     EventTimer timer(driver);
///     const EventTimer::Span span = timer.start(stream);
///     ...
///     if (timer.stop(span, stream)) later([&] { return timer.read(span, us); });
#include <mutex>
#include <vector>

#include "preload/decide.h"
#include "preload/workspaces.h"

namespace kscout::preload {

/// Measures the GPU's time between two points of a stream. Keeps its events for later spans. Thread-safe.
class EventTimer {
 public:
  explicit EventTimer(const Driver& driver) : driver_(driver) {}
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  struct Span {
    void *begin = nullptr, *end = nullptr;
  };
  /// Null events where the driver refuses.
  Span start(void* stream) noexcept;
  bool stop(const Span& span, void* stream) noexcept;
  /// Sets `us` when the state is done. Waits for nothing.
  SpanState read(const Span& span, double& us) const noexcept;
  void give_back(const Span& span) noexcept;

 private:
  const Driver& driver_;
  std::mutex mutex_;
  std::vector<void*> free_;
};

}  // namespace kscout::preload
