#include "dispatch/trial.h"

#include <algorithm>
#include <cmath>

#include <kscout/error.h>

#include "measure/measured_backend.h"

namespace kscout {

namespace {

constexpr int kSamples = 3;
/// A kernel that takes this many times as long as another one gets no second timed call.
constexpr double kDrop = 1.5;
/// By how much a kernel must be faster than the best predicted one: the spread of such samples.
constexpr double kSurely = 0.99;
/// Seconds for code that is compiled at run time.
constexpr double kBuildSeconds = 3;

}  // namespace

std::unique_ptr<Trial> Trial::of(Backend& backend, ProblemRef problem, std::span<const Choice> choices,
                                 const Limits& limits, double seconds) {
  StreamClock* const clock = instruments_of(backend).stream_clock();
  if (!clock) return nullptr;
  std::vector<KernelConfig> configs;
  for (const Choice& choice : choices) configs.push_back(choice.config);
  const auto left_out = backend.prepare_ahead(problem, configs, kBuildSeconds);
  std::vector<Choice> ready;
  std::vector<std::unique_ptr<Launch>> launches;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!left_out[i].empty()) continue;
    try {
      launches.push_back(limits.any() ? backend.prepare_within(problem, configs[i], limits)
                                      : backend.prepare(problem, configs[i]));
      ready.push_back(choices[i]);
    } catch (const Error& error) {  // the kernel itself refuses the problem
      if (error.code() != Errc::unsupported) throw;
    }
  }
  if (ready.size() < 2) return nullptr;
  std::unique_ptr<Trial> trial(new Trial(
      *clock, {.kernels = ready.size(), .samples = kSamples, .drop = kDrop, .budget_us = 1e6 * seconds}));
  for (const Choice& choice : ready) trial->candidates_.push_back({&backend, choice.config});
  trial->choices_ = std::move(ready);
  trial->launches_ = std::move(launches);
  return trial;
}

std::size_t Trial::workspace_bytes() const noexcept {
  std::size_t most = 0;
  for (const auto& launch : launches_) most = std::max(most, launch->workspace_bytes());
  return most;
}

Trial::Call Trial::next(Stream stream, std::size_t workspace_bytes) {
  Call call;
  if (!clock_.captures(stream)) call.turn = contest_.next();
  const bool fits = launches_[call.turn.kernel]->workspace_bytes() <= workspace_bytes;
  call.launch = launches_[fits ? call.turn.kernel : 0].get();
  call.choice = &choices_[fits ? call.turn.kernel : 0];
  if (call.turn.timed && fits) call.span = clock_.start(stream);
  return call;
}

void Trial::add(Call& call, Stream stream, bool ran) noexcept {
  if (!call.turn.timed) return;
  contest_.add(call.turn, call.span, ran && clock_.stop(call.span, stream), clock_);
}

std::optional<Fastest> Trial::result() {
  const std::vector<double>* const times_us = contest_.result(clock_);
  if (!times_us) return std::nullopt;
  Fastest fastest;
  std::size_t best = 0;
  for (std::size_t i = 0; i < times_us->size(); ++i) {
    const double time_us = (*times_us)[i];
    if (time_us == Contest<StreamClock>::kNone) continue;
    fastest.times_us.emplace_back(i, time_us);
    if (time_us < kSurely * times_us->front() && time_us < (*times_us)[best]) best = i;
  }
  fastest.index = best;
  fastest.timed = fastest.times_us.size();
  if (fastest.timed < 2 || times_us->front() == Contest<StreamClock>::kNone) return fastest;
  fastest.time_us = (*times_us)[best];
  for (const auto& [index, time_us] : fastest.times_us) {
    if (index != best) fastest.next_us = std::fmin(fastest.next_us, time_us);
  }
  return fastest;
}

}  // namespace kscout
