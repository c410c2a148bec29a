#include "preload/events.h"

#include <utility>

namespace kscout::preload {

EventTimer::Span EventTimer::start(void* stream) noexcept {
  Span span;
  {
    const std::scoped_lock lock(mutex_);
    for (void** const event : {&span.begin, &span.end}) {
      if (!free_.empty()) *event = std::exchange(free_.back(), nullptr), free_.pop_back();
    }
  }
  constexpr unsigned kWithTime = 0;
  const CaptureAside aside(driver_);
  for (void** const event : {&span.begin, &span.end}) {
    if (!*event && driver_.event_create(event, kWithTime) != 0) *event = nullptr;
  }
  if (span.begin && span.end && driver_.event_record(span.begin, stream) == 0) return span;
  give_back(span);
  return {};
}

bool EventTimer::stop(const Span& span, void* stream) noexcept {
  return span.begin && driver_.event_record(span.end, stream) == 0;
}

SpanState EventTimer::read(const Span& span, double& us) const noexcept {
  constexpr int kNotReady = 600;
  const int reached = driver_.event_query(span.end);
  if (reached == kNotReady) return SpanState::pending;
  float ms = 0;
  if (reached != 0 || driver_.event_elapsed(&ms, span.begin, span.end) != 0) return SpanState::failed;
  us = 1e3 * static_cast<double>(ms);
  return SpanState::done;
}

void EventTimer::give_back(const Span& span) noexcept {
  const std::scoped_lock lock(mutex_);
  for (void* const event : {span.begin, span.end}) {
    if (!event) continue;
    try {
      free_.push_back(event);
    } catch (...) {  // no memory: the event is lost
    }
  }
}

}  // namespace kscout::preload
