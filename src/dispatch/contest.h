#pragma once
/// \file
/// Finds the fastest of some kernels of one problem on the first calls of a program: the kernels take turns,
/// each call computes its product, and nothing waits.
///
///     Contest<HostClock> contest({.kernels = 3});
///     const Turn turn = contest.next();                       // the kernel of this call
///     HostClock::Span span = turn.timed ? clock.start() : HostClock::Span();
///     ...
///     if (turn.timed) clock.stop(span), contest.add(turn, span, /*is_recorded=*/true, clock);
///     if (const auto* times_us = contest.result(clock)) ...   // once, when all samples are read
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "instruments/stream_clock.h"
#include "measure/timing.h"

namespace kscout {

/// Measures the time between two points of a thread on the CPU.
struct HostClock {
  struct Span {
    std::int64_t begin = 0, end = 0;  ///< ns
  };
  static Span start() noexcept { return {now_ns(), 0}; }
  static void stop(Span& span) noexcept { span.end = now_ns(); }
  static SpanState read(const Span& span, double& us) noexcept {
    us = static_cast<double>(span.end - span.begin) / 1e3;
    return SpanState::done;
  }
  static void give_back(const Span&) noexcept {}
};

/// In which order kernels take the first calls of a problem. Alternating, last kernel first, then back and
/// forth: none is always on calls of even number, which may be other layers. One by one: threads of a library
/// may wait actively for more work, and would slow down a kernel that alternates with it.
enum class Order : std::uint8_t { alternating, one_by_one };

struct ContestRules {
  std::size_t kernels = 2;
  Order order = Order::alternating;
  int samples = 5;  ///< of each kernel, besides its first call, which may load it
  /// A kernel whose shortest time is above this many times the shortest of all gets no further call.
  double drop = std::numeric_limits<double>::infinity();
  double budget_us = std::numeric_limits<double>::infinity();  ///< no turns after so much timed work
};

struct Turn {
  std::size_t kernel = 0;
  bool timed = false;
};

/// The shortest time of each kernel decides: other work can only lengthen a sample. A span that the clock has
/// not reached is read at a later call. The caller locks; only is_over() is safe without.
template <class Clock>
class Contest {
 public:
  /// Kernel 0 takes the calls that are no turn of any kernel, and stays when nothing is known.
  explicit Contest(const ContestRules& rules) : rules_(rules), best_us_(rules.kernels, kNone) {}

  /// The kernel of the next call.
  Turn next() noexcept {
    if (spent_us_ > rules_.budget_us) place_ = places();
    while (place_ < places()) {
      const Turn turn = turn_at(place_++);
      if (best_us_[turn.kernel] != kNone && best_us_[turn.kernel] > rules_.drop * shortest_us()) continue;
      running_ += turn.timed;
      return turn;
    }
    return {};
  }
  /// Adds the span of a timed call; gives it back where it was not recorded.
  void add(const Turn& turn, const typename Clock::Span& span, bool is_recorded, Clock& clock) noexcept {
    --running_;
    try {
      if (is_recorded) return open_.push_back({span, turn.kernel});
    } catch (...) {  // no memory: the sample is lost
    }
    clock.give_back(span);
  }
  /// Reads the samples that the clock has passed. After the last one, once: the shortest time of each kernel
  /// in us, infinite where it has no sample; else null.
  const std::vector<double>* result(Clock& clock) noexcept {
    if (is_over()) return nullptr;
    std::erase_if(open_, [&](const Sample& sample) {
      double us = 0;
      const SpanState state = clock.read(sample.span, us);
      if (state == SpanState::pending) return false;
      double& best_us = best_us_[sample.kernel];
      if (state == SpanState::done && us > 0) {
        best_us = std::min(best_us, us);
        spent_us_ += us;
      }
      clock.give_back(sample.span);
      return true;
    });
    if (place_ < places() || running_ > 0 || !open_.empty()) return nullptr;
    over_.store(true, std::memory_order_release);
    return &best_us_;
  }
  bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }

  /// The time of a kernel without a sample.
  static constexpr double kNone = std::numeric_limits<double>::infinity();

 private:
  struct Sample {
    typename Clock::Span span;
    std::size_t kernel;
  };

  std::size_t calls_of_one() const noexcept { return static_cast<std::size_t>(rules_.samples) + 1; }
  std::size_t places() const noexcept { return rules_.kernels * calls_of_one(); }
  double shortest_us() const noexcept { return *std::ranges::min_element(best_us_); }
  Turn turn_at(std::size_t place) const noexcept {
    if (rules_.order == Order::one_by_one) return {place / calls_of_one(), place % calls_of_one() > 0};
    const std::size_t round = place / rules_.kernels, at = place % rules_.kernels;
    return {round % 2 == 0 ? rules_.kernels - 1 - at : at, round > 0};
  }

  const ContestRules rules_;
  std::atomic<bool> over_ = false;
  std::size_t place_ = 0;
  int running_ = 0;
  double spent_us_ = 0;
  std::vector<Sample> open_;
  std::vector<double> best_us_;
};

}  // namespace kscout
