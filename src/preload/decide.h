#pragma once
/// \file
/// What the servers of GPUs (gpu.h) and CPUs (cpu.h) share: settings, the decision about each problem, its
/// contest with the library's own kernel (--refine), counts, and storage. docs/design/0012-servers.md.
///
///     Decision* one = decisions.find(key);                       // no lock
///     if (!one) one = decisions.add(key, tally, [&](Decision& made) { choose(made); });   // the caller locks
///     if (one->outcome != Outcome::served) return one->outcome;
///     const Turn turn = one->contest ? one->contest->next() : Turn();
///     ...                                                        // kLibrarys: the original, else the pick
///     one->contest->add(turn, span, /*is_recorded=*/true, clock);
///     if (const auto result = settle(*one, clock, tally)) keep(...);
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>

#include "dispatch/contest.h"
#include "preload/apart.h"
#include "preload/read_calls.h"
#include "select/decision_db.h"

namespace kscout::preload {

struct ServeSettings {
  /// By how much the model must expect the library's own suggestion to take longer than our choice.
  double min_gain = 0.02;
  /// And by how many microseconds: a call costs the CPU about this much.
  double min_saved_us = 1;
  /// Whether to time picks against the library's own kernels. Not where CUBLAS_WORKSPACE_CONFIG asks for
  /// equal bits in every run.
  bool refine = false;
  /// Serves convolutions of cuDNN, too.
  bool convolutions = false;
  /// Serves every product of a weight that has a class, by the class (Limits::batch_invariant), and no other.
  bool batch_invariant = false;
  /// One result in so many is checked; 0: none.
  std::uint64_t check_results = 0;
  /// Timings of earlier processes; those of this one are added.
  std::filesystem::path db = {};

  /// Reads KSCOUT_PRELOAD_MIN_GAIN (percent), KSCOUT_PRELOAD_MIN_SAVED_US, KSCOUT_PRELOAD_REFINE,
  /// KSCOUT_PRELOAD_CONVOLUTIONS, KSCOUT_PRELOAD_POLICY, KSCOUT_PRELOAD_CHECK_RESULTS and KSCOUT_DB; `wrong`
  /// receives a text for a setting that is no number of at least 0, neither 0 nor 1, or no policy.
  static ServeSettings from_environment(std::string& wrong);
  /// Of policy batch-invariant more: a product without a decision would get the library's bits.
  std::size_t most_decisions() const noexcept { return batch_invariant ? 1 << 19 : 1 << 14; }
};

/// Whether KSCOUT_DISABLE names the timings, or KSCOUT_FORCE a config, which comes before them.
bool are_timings_disabled();

/// Says once in a process on standard error why policy batch-invariant passes a product on.
void report_without_class(const char* why) noexcept;

/// What a server did. Thread-safe.
struct Tally {
  std::array<std::atomic<std::uint64_t>, kOutcomeWords.size()> outcomes{};
  std::atomic<std::uint64_t> saved_ns = 0;  ///< by the model, or as timed
  std::atomic<std::uint64_t> wrong_suggestions = 0;
  /// Problems timed by --refine: begun, finished, and those where the library's kernel was faster.
  std::atomic<std::uint64_t> contests = 0, refined = 0, library_kept = 0;

  Outcome count(Outcome outcome) noexcept {
    outcomes[static_cast<std::size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
    return outcome;
  }
  std::uint64_t served() const noexcept { return outcomes[static_cast<std::size_t>(Outcome::served)]; }
  void forget() noexcept;
};

// ---- Contests: the last kernel is the library's own, the others are picks.

/// Of a contest with one pick.
inline constexpr std::size_t kLibrarys = 1;

struct ContestResult {
  std::size_t pick = 0;  ///< the fastest one
  double pick_us = 0, library_us = 0;
  bool is_library_faster() const noexcept { return library_us < pick_us; }
};

// ---- Decisions.

/// What is done about the calls of one key. Complete before other threads see it; a contest, or a kernel that
/// fails, changes the outcome later.
template <class Key, class Clock>
struct BasicDecision {
  using KeyType = Key;
  explicit BasicDecision(const Key& of) : key(of) {}

  const Key key;
  std::atomic<Outcome> outcome = Outcome::served;
  std::unique_ptr<Contest<Clock>> contest;  ///< null: the pick is not timed

  bool is_undecided() const noexcept { return contest && !contest->is_over(); }
};

/// What an exception, the one being handled, says of a decision that was not made.
Outcome outcome_of_failure(const ServeSettings& settings) noexcept;

/// Decisions by their keys. None is ever removed: threads find them without a lock, also in a forked child.
template <class Decision>
class DecisionMap {
 public:
  using Key = typename Decision::KeyType;
  explicit DecisionMap(const ServeSettings& settings)
      : settings_(settings), places_(std::bit_ceil(2 * settings.most_decisions())) {}

  /// Null: none is made yet.
  Decision* find(const Key& key) const noexcept { return place_of(key).load(std::memory_order_acquire); }

  /// Adds what `choose` makes of a new decision; its errors become the outcome. Null where the map is full.
  /// Throws bad_alloc: the next call tries again. One thread at a time.
  template <class Choose>
  Decision* add(const Key& key, Tally& tally, Choose&& choose) {
    if (size_ >= settings_.most_decisions()) return nullptr;
    auto made = std::make_unique<Decision>(key);
    try {
      run_apart([&] { choose(*made); });
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      made->outcome = outcome_of_failure(settings_);
    }
    if (made->contest) tally.contests.fetch_add(1, std::memory_order_relaxed);
    ++size_;
    Decision* const kept = made.release();
    place_of(key).store(kept, std::memory_order_release);
    return kept;
  }

 private:
  using Place = std::atomic<Decision*>;
  /// That of the key, or the first free one. There always is one: at most half are taken.
  Place& place_of(const Key& key) const noexcept {
    for (std::size_t at = quick_hash(key);; ++at) {
      Place& place = places_[at & (places_.size() - 1)];
      const Decision* const one = place.load(std::memory_order_acquire);
      if (!one || one->key == key) return place;
    }
  }

  const ServeSettings& settings_;
  mutable std::vector<Place> places_;
  std::size_t size_ = 0;
};

/// The original that a thread is about to call for a contest.
template <class Decision, class Clock>
struct TimedOriginal {
  Decision* decision = nullptr;
  Turn turn;
  typename Clock::Span span;
  void* stream = nullptr;
};

/// Ends a contest whose samples are known: the fastest kernel is the decision's. The caller locks.
template <class Decision, class Clock>
std::optional<ContestResult> settle(Decision& one, Clock& clock, Tally& tally) noexcept {
  const std::vector<double>* const times_us = one.contest->result(clock);
  if (!times_us) return std::nullopt;
  const auto pick = std::min_element(times_us->begin(), times_us->end() - 1);
  const ContestResult result{static_cast<std::size_t>(pick - times_us->begin()), *pick, times_us->back()};
  // Without a sample of both, the first pick stays.
  if (std::max(result.pick_us, result.library_us) == Contest<Clock>::kNone) return std::nullopt;
  tally.refined.fetch_add(1, std::memory_order_relaxed);
  if (result.is_library_faster()) {
    tally.library_kept.fetch_add(1, std::memory_order_relaxed);
    one.outcome = Outcome::slower;
  }
  return result;
}

/// Calls `store`, which writes what a contest found. A failure is said once: other processes have to time the
/// problem again.
void keep(const std::function<void()>& store) noexcept;

}  // namespace kscout::preload
