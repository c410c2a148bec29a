#pragma once
/// \file
/// Times many candidates on one problem: all of them coarsely, then the best few and the peers in rounds.
///
///     SideBySide match;
///     match.add({.name = "mine", .call = [&] { launch->run(buffers, workspace); }});
///     match.add({.name = "onednn", .peer = true, .call = [&] { ... }});
///     match.coarse();                // every candidate that is no peer, slow ones dropped early
///     match.interleaved(6);          // the best 6 and the peers
///     match.best(false)->time_us
///
/// Only times of rounds are comparable: a coarse time may have been taken while the machine was slow. Caches
/// stay as the previous call left them.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <string>

#include "measure/samples.h"
#include "measure/timing.h"

namespace kscout::bench {

struct Candidate {
  std::string name;
  bool peer = false;   ///< another library: timed in rounds only
  bool extra = false;  ///< takes part in the rounds however slow it is; never the best
  std::function<void()> call;
  std::function<void()> prepare = {};  ///< called before each series, outside its time
  double coarse_us = std::numeric_limits<double>::infinity();  ///< fastest coarse series; infinite for peers
  double time_us = std::numeric_limits<double>::infinity();    ///< median over rounds; infinite: not in them
};

class SideBySide {
 public:
  /// Reads the time in nanoseconds from `clock`.
  explicit SideBySide(std::function<std::int64_t()> clock = now_ns) : clock_(std::move(clock)) {}

  Candidate& add(Candidate candidate) { return candidates_.emplace_back(std::move(candidate)); }
  void drop_last() { candidates_.pop_back(); }

  /// Takes up to three passes over the candidates, forwards and backwards, and keeps each candidate's fastest
  /// series. A candidate leaves when it is several times slower than the best so far. Passes lie apart in
  /// time, so that a slow phase of the machine does not drop the candidates that it happens to meet.
  void coarse();
  /// Times the `finalists` fastest, the extra candidates and the peers in rounds, each round in another order
  /// (time_in_rounds).
  void interleaved(std::size_t finalists,
                   const RoundsRule& rule = {.rounds = 9, .least = 5, .budget_us = 3e6});

  const std::deque<Candidate>& candidates() const { return candidates_; }
  /// The candidate with the lowest median over rounds, among peers or among the rest without extra ones; null
  /// without any.
  const Candidate* best(bool peer) const;

 private:
  /// Microseconds per call of a series of at least `min_us`; `one_us` is the approximate time of a call.
  double series(const Candidate& one, double min_us, double one_us) const;

  std::function<std::int64_t()> clock_;
  std::deque<Candidate> candidates_;  ///< a deque: references stay valid
};

}  // namespace kscout::bench
