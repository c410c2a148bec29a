#include "preload/refine.h"

#include <algorithm>
#include <span>
#include <utility>

#include <kscout/provider.h>

#include "dispatch/timed_choice.h"
#include "provider/joint.h"

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

EventTimer::State EventTimer::read(const Span& span, double& us) const noexcept {
  constexpr int kNotReady = 600;
  const int reached = driver_.event_query(span.end);
  if (reached == kNotReady) return State::pending;
  float ms = 0;
  if (reached != 0 || driver_.event_elapsed(&ms, span.begin, span.end) != 0) return State::failed;
  us = 1e3 * static_cast<double>(ms);
  return State::done;
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

Contest::Turn Contest::next() noexcept {
  const std::scoped_lock lock(mutex_);
  if (calls_ == kCalls || over_.load(std::memory_order_relaxed)) return {};
  // Library, pick, pick, library: neither is always on calls of even number, which may be other layers.
  const int call = calls_++;
  const Turn turn{.library = call % 4 == 0 || call % 4 == 3, .timed = call >= 2};
  running_ += turn.timed;
  return turn;
}

void Contest::add(const Turn& turn, const EventTimer::Span& span, bool is_recorded,
                  EventTimer& timer) noexcept {
  const std::scoped_lock lock(mutex_);
  --running_;
  try {
    if (is_recorded) return open_.push_back({span, turn.library});
  } catch (...) {  // no memory: the sample is lost
  }
  timer.give_back(span);
}

std::optional<Contest::Result> Contest::result(EventTimer& timer) noexcept {
  const std::scoped_lock lock(mutex_);
  if (over_.load(std::memory_order_relaxed)) return std::nullopt;
  std::erase_if(open_, [&](const Sample& sample) {
    double us = 0;
    const EventTimer::State state = timer.read(sample.span, us);
    if (state == EventTimer::State::pending) return false;
    double& best_us = sample.library ? library_us_ : pick_us_;
    if (state == EventTimer::State::done && us > 0) best_us = std::min(best_us, us);
    timer.give_back(sample.span);
    return true;
  });
  if (calls_ < kCalls || running_ > 0 || !open_.empty()) return std::nullopt;
  over_.store(true, std::memory_order_release);
  if (pick_us_ == kNone || library_us_ == kNone) return std::nullopt;
  return Result{pick_us_, library_us_};
}

void store(const Contest::Pick& pick, const Contest::Result& result, const KernelConfig& library,
           const std::string& limits, Backend& gpu, const std::filesystem::path& db) {
  const KernelConfig ours = member_config(pick.config);
  Fastest fastest{.time_us = result.pick_us, .next_us = result.library_us, .timed = 2};
  if (result.is_library_faster()) {
    std::swap(fastest.time_us, fastest.next_us);
  } else if (pick.copies_us > 0) {
    // The kernel's time on the copies. Nothing else was timed on them.
    fastest.time_us = std::max(fastest.time_us - pick.copies_us, 0.1 * fastest.time_us);
    fastest.next_us = Choice::unknown;
    fastest.timed = 1;
  }
  StoredDecision decision = result.is_library_faster() ? decision_of(pick.problem, library, fastest, gpu)
                                                       : decision_of(pick.form, ours, fastest, gpu);
  decision.limits = limits;
  std::vector<StoredTiming> timings;
  if (!(pick.copies_us > 0)) {
    const Signature signature = signature_of(pick.problem);
    timings = {timing_of(pick.problem, config_name(signature, library), result.library_us, gpu),
               timing_of(pick.problem, config_name(signature, ours), result.pick_us, gpu)};
  }
  DecisionDb(db).put(std::span(&decision, 1), timings);
}

}  // namespace kscout::preload
