#pragma once
/// \file
/// Replaces a prediction by times on a GPU: the best configs take turns on the first calls of a problem, and
/// the fastest stays. Nothing waits, and each call computes the caller's result.
///
///     if (auto trial = Trial::of(offers, solution, limits, seconds)) ...
///     Trial::Call call = trial->next(stream, workspace_bytes);
///     ...                                                          // call.launch runs
///     trial->add(call, stream, /*ran=*/true);
///     if (const auto fastest = trial->result()) ...                // once; candidates()[fastest->index]
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <kscout/dispatcher.h>

#include "dispatch/contest.h"
#include "dispatch/timed_choice.h"

namespace kscout {

class Trial {
 public:
  /// The choices, best first, that the backend can prepare; their code is built here. Null for fewer than
  /// two, or a device whose calls cannot be timed without waiting.
  static std::unique_ptr<Trial> of(Backend& backend, ProblemRef problem, std::span<const Choice> choices,
                                   const Limits& limits, double seconds);

  struct Call {
    Turn turn;
    StreamClock::Span span;
    Launch* launch = nullptr;
    const Choice* choice = nullptr;
  };
  /// The kernel of the next call. While the stream is captured, or where the kernel whose turn it is needs
  /// more workspace, it is the best predicted one, untimed.
  Call next(Stream stream, std::size_t workspace_bytes);
  void add(Call& call, Stream stream, bool ran) noexcept;
  /// That any of its calls needs.
  std::size_t workspace_bytes() const noexcept;
  /// The fastest, once, when the GPU has passed the last timed call. Without a time of the best predicted
  /// config and of another one, the index is that of the best predicted one, and it has no time: so for
  /// kernels that are shorter than the program takes to start them.
  std::optional<Fastest> result();

  const std::vector<Choice>& choices() const noexcept { return choices_; }
  const std::vector<Candidate>& candidates() const noexcept { return candidates_; }
  /// The launch of a candidate, which leaves the trial.
  std::unique_ptr<Launch> take(std::size_t index) { return std::move(launches_[index]); }

 private:
  Trial(StreamClock& clock, const ContestRules& rules) : clock_(clock), contest_(rules) {}

  StreamClock& clock_;
  Contest<StreamClock> contest_;
  std::vector<Choice> choices_;
  std::vector<Candidate> candidates_;
  std::vector<std::unique_ptr<Launch>> launches_;
};

}  // namespace kscout
