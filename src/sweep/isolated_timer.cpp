#include "sweep/isolated_timer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include <poll.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/links.h"

namespace kscout {

namespace {

std::int64_t after(const ReadClock& clock, double seconds) { return clock() + std::llround(seconds * 1e9); }

/// A temporary folder for the worker's manifest, which it reads at its start, and for its log.
class StartFolder {
 public:
  const std::filesystem::path& path() const noexcept { return folder_.path(); }
  std::filesystem::path log() const { return path() / "worker.log"; }
  std::string last_line() const {
    std::ifstream log_file(log());
    std::string last = "it printed nothing";
    for (std::string line; std::getline(log_file, line);) last = line;
    return last;
  }

 private:
  const TemporaryFolder folder_{"kscout-search"};
};

}  // namespace

IsolatedTimer::IsolatedTimer(const SweepPlan& plan, IsolatedTimerOptions options)
    : plan_(plan), options_(std::move(options)) {
  if (plan.problems.size() != 1) {
    fail(Errc::invalid_argument, "a plan of {} problems: configs are timed on one at a time",
         plan.problems.size());
  }
}

bool IsolatedTimer::receive(std::vector<std::string>& lines, std::int64_t deadline_ns, bool& timed_out) {
  while (lines.empty()) {
    const std::int64_t left_ns = deadline_ns - options_.clock();
    timed_out = left_ns <= 0;
    if (timed_out) return true;
    pollfd waiting{worker_->fd(), POLLIN, 0};
    const int ready =
        poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left_ns / 1'000'000 + 1, 1000)));
    if (ready < 0 && errno != EINTR)
      fail(Errc::device_failure, "cannot wait for the worker: errno {}", errno);
    if (ready > 0 && !worker_->receive(lines) && lines.empty()) return false;
  }
  return true;
}

void IsolatedTimer::start() {
  const StartFolder folder;
  write_manifest(folder.path(), plan_);
  worker_.emplace(
      options_.worker,
      std::vector<std::string>{"--sweep", folder.path().string(), "--cpus", print_ranges(allowed_cpus()),
                               "--device", "0", "--parent", std::to_string(getpid())},
      folder.log());
  opens_problem_ = true;
  std::vector<std::string> lines;
  bool timed_out = false;
  if (!receive(lines, after(options_.clock, kStartLimitS), timed_out)) {
    const std::string how = worker_->end();
    worker_.reset();
    fail(Errc::device_failure, "the worker {} ended before it was ready: {}; its last message: {}",
         options_.worker.string(), how, folder.last_line());
  }
  if (timed_out) {
    worker_.reset();
    fail(Errc::device_failure, "the worker {} is not ready after {} s", options_.worker.string(),
         kStartLimitS);
  }
  const Reply answer = decode_reply(lines.front());
  if (answer.kind == Reply::Kind::failed) {
    worker_.reset();
    throw Error(answer.code, answer.outcome.reason);
  }
}

IsolatedTimer::Measured IsolatedTimer::measure(std::int32_t pass, const std::vector<std::uint32_t>& configs) {
  if (!worker_) start();
  worker_->send(encode(Assignment{0, pass, configs, best_us_}));
  Measured answers;
  for (;;) {
    // The worker reports all contenders together, so their limits add up.
    double limit_s = options_.item_limit_s * (pass == 1 ? 1 : static_cast<double>(configs.size()));
    if (opens_problem_) limit_s += options_.open_limit_s;
    std::vector<std::string> lines;
    bool timed_out = false;
    if (!receive(lines, after(options_.clock, limit_s), timed_out)) {
      answers.status = Status::crashed;
      answers.ended = worker_->end();
    } else if (timed_out) {
      answers.status = Status::timeout;
      answers.ended = fmt::format("no answer within {} s", limit_s);
      worker_->end();
    }
    for (const std::string& line : lines) {
      const Reply answer = decode_reply(line);
      if (answer.kind == Reply::Kind::failed) throw Error(answer.code, answer.outcome.reason);
      if (answer.kind == Reply::Kind::done) return answers;
      if (answers.outcomes.size() >= configs.size() || answer.index != configs[answers.outcomes.size()])
        fail(Errc::device_failure, "a worker replied for config {} out of order", answer.index);
      answers.outcomes.push_back(answer.outcome);
      opens_problem_ = false;
    }
    if (answers.ended.empty()) continue;
    worker_.reset();
    return answers;
  }
}

Outcome IsolatedTimer::failed(const Measured& answers, std::int32_t pass) const {
  return {{.status = answers.status, .cache = plan_.protocol.cache, .pass = pass}, answers.ended};
}

Outcome IsolatedTimer::coarse(std::uint32_t config) {
  const Measured answers = measure(1, {config});
  if (answers.outcomes.empty()) return failed(answers, 1);
  const Outcome& outcome = answers.outcomes.front();
  if (outcome.measured.status == Status::ok) best_us_ = std::min(best_us_, outcome.measured.time_us);
  return outcome;
}

std::vector<Outcome> IsolatedTimer::contenders(const std::vector<std::uint32_t>& configs) {
  Measured together = measure(2, configs);
  if (together.ended.empty()) return std::move(together.outcomes);
  std::vector<Outcome> outcomes;
  for (const std::uint32_t config : configs) {
    const Measured alone = measure(2, {config});
    outcomes.push_back(alone.outcomes.empty() ? failed(alone, 2) : alone.outcomes.front());
  }
  return outcomes;
}

}  // namespace kscout
