#include "watched_sweep.h"

#include <atomic>
#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

#include "measure/timing.h"

namespace kscout::cli {

namespace {

std::atomic<bool> stop_asked = false;
volatile std::sig_atomic_t stop_signal = 0;

extern "C" void ask_to_stop(int signal) {
  stop_signal = signal;
  stop_asked = true;
}

/// Ctrl-C and termination end the sweep in order; a file size limit is an error of write(), not a signal.
void watch_signals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "?";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

/// A bar on a terminal, a plain line now and then elsewhere. To standard error.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(std::string_view verb)
      : verb_(verb), terminal_(isatty(STDERR_FILENO)), next_ns_(now_ns() + every_ns()) {}
  ~ProgressPrinter() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
  }

  void show(const SweepProgress& p) {
    if (now_ns() < next_ns_) return;
    next_ns_ = now_ns() + every_ns();
    const double rate = static_cast<double>(p.rows) / p.elapsed_s;
    const std::string facts = fmt::format(
        "{:.0f} %  {}/{} problems  {:.0f} measurements/s  {} left{}", 100 * p.share_done, p.problems_done,
        p.problems, rate, duration(p.left_s), p.failed ? fmt::format("  {} failed", p.failed) : "");
    if (!terminal_) {
      fmt::print(stderr, "kscout {}: {}\n", verb_, facts);
      return;
    }
    constexpr int kWidth = 24;
    const int full = static_cast<int>(p.share_done * kWidth);
    fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {}", "", full, "", kWidth - full, facts);
    std::fflush(stderr);
    drawn_ = true;
  }

 private:
  std::int64_t every_ns() const { return terminal_ ? 100'000'000 : 10'000'000'000; }
  std::string_view verb_;
  bool terminal_, drawn_ = false;
  std::int64_t next_ns_;
};

}  // namespace

SweepReport watched_sweep(const SweepPlan& plan, SweepOptions options, std::string_view verb) {
  watch_signals();
  ProgressPrinter printer(verb);
  options.stop = &stop_asked;
  options.progress = [&printer](const SweepProgress& progress) { printer.show(progress); };
  return run_sweep(plan, options);
}

void end_by_signal() {
  std::signal(stop_signal, SIG_DFL);
  std::raise(stop_signal);
}

}  // namespace kscout::cli
