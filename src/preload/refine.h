#pragma once
/// \file
/// Times a pick against the library's own kernel on the first calls of a problem (--refine).
///
///     EventTimer timer(driver);
///     Contest contest({problem, form, config, copies_us});      // one per problem
///     const Contest::Turn turn = contest.next();               // outside of captures
///     const EventTimer::Span span = timer.start(stream);       // where turn.timed
///     ...                                                      // turn.library: the original call, else the pick
///     contest.add(turn, span, timer.stop(span, stream), timer);
///     if (const auto result = contest.result(timer)) keep(result->is_library_faster() ? ... : ...);
///
/// The samples are calls of the program itself, and every result is right, because both kernels compute the
/// same product. Nothing waits for the GPU: events around a call are read at a later call, when the GPU has
/// passed them.
#include <atomic>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/backend.h>
#include <kscout/config.h>

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
  enum class State { pending, done, failed };

  /// Null events where the driver refuses.
  Span start(void* stream) noexcept;
  bool stop(const Span& span, void* stream) noexcept;
  /// Sets `us` when the state is done. Waits for nothing.
  State read(const Span& span, double& us) const noexcept;
  void give_back(const Span& span) noexcept;

 private:
  const Driver& driver_;
  std::mutex mutex_;
  std::vector<void*> free_;
};

/// Two kernels of one problem, on its first calls: the first call of each is not timed, because it may load
/// the kernel; then they alternate. The shortest time of each decides: other work can only lengthen a sample.
/// Thread-safe.
class Contest {
 public:
  static constexpr int kCalls = 12;

  /// The pick computes `form`: the problem itself, or a form of it on copies that take about `copies_us`.
  struct Pick {
    Problem problem, form;
    KernelConfig config;
    double copies_us = 0;
  };
  explicit Contest(Pick pick) : pick_(std::move(pick)) {}
  const Pick& pick() const noexcept { return pick_; }

  struct Turn {
    bool library = false, timed = false;
  };
  struct Result {
    double pick_us = 0, library_us = 0;
    bool is_library_faster() const noexcept { return library_us < pick_us; }
  };

  /// The kernel of the next call. Call it outside of captures.
  Turn next() noexcept;
  /// Adds the span of a timed call; gives it back where it was not recorded.
  void add(const Turn& turn, const EventTimer::Span& span, bool is_recorded, EventTimer& timer) noexcept;
  /// The result; once, after all calls, when the GPU has passed the last one. Without a sample of both
  /// kernels there is none, and the pick stays.
  std::optional<Result> result(EventTimer& timer) noexcept;
  bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }

 private:
  struct Sample {
    EventTimer::Span span;
    bool library;
  };
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  const Pick pick_;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  int calls_ = 0, running_ = 0;
  std::vector<Sample> open_;
  double pick_us_ = kNone, library_us_ = kNone;
};

/// Stores the faster of the pick and `library`, the config of the library's own kernel, as a decision under
/// `limits` (print(Limits)), and both times as timings. Of a pick on copies, the kernel's own time is stored
/// without the copies, and no timings. Throws the errors of DecisionDb.
void store(const Contest::Pick& pick, const Contest::Result& result, const KernelConfig& library,
           const std::string& limits, Backend& gpu, const std::filesystem::path& db);

}  // namespace kscout::preload
