#include "preload/call_timer.h"

namespace kscout::preload {

bool CallTimer::can_time() noexcept {
  std::call_once(opened_, [&] {
    driver_ = Driver::found_by(find_);
    can_time_ =
        driver_.current && driver_.is_capturing && driver_.exchange_capture_mode && driver_.has_events();
  });
  return can_time_;
}

CallTimer::Call CallTimer::start(const Record::Place& place, void* stream) noexcept {
  void *context = nullptr, *first = nullptr;
  if (!place || off_ || !can_time() || driver_.current(&context) != 0 || !context) return {};
  if (!context_.compare_exchange_strong(first, context) && first != context) return {};
  if (driver_.captures(stream)) return {};
  const EventTimer::Span span = events_.start(stream);
  if (!span.begin) return {};
  return {place, span, stream};
}

void CallTimer::stop(const Call& call, bool done) noexcept {
  if (!call.place || off_) return;
  if (events_.stop(call.span, call.stream) && done) {
    try {
      return open_.push_back(call);
    } catch (...) {  // no memory: the time is lost
    }
  }
  events_.give_back(call.span);
}

}  // namespace kscout::preload
