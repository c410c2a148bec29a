#include "sweep_with_progress.h"

#include <atomic>
#include <csignal>

#include <fmt/format.h>

#include "measure/timing.h"
#include "progress_line.h"
#include "sweep/journal.h"
#include "work_folder.h"

namespace kscout::cli {

namespace {

std::atomic<bool> stop_asked = false;
volatile std::sig_atomic_t stop_signal = 0;

extern "C" void ask_to_stop(int signal) {
  stop_signal = signal;
  stop_asked = true;
}

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "?";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

void show(const SweepProgress& p, ProgressLine& line) {
  if (!line.due()) return;
  const double rate = static_cast<double>(p.rows) / p.elapsed_s;
  line(fmt::format("{:.0f} %  {}/{} problems  {:.0f} measurements/s  {} left{}", 100 * p.share_done,
                   p.problems_done, p.problems, rate, duration(p.left_s),
                   p.failed ? fmt::format("  {} failed", p.failed) : ""),
       p.share_done);
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool>& signal_came() { return stop_asked; }

void report_left_out(const SweepPlan& plan, std::string_view verb) {
  if (!plan.left_out.empty())
    fmt::print(stderr, "kscout {}: left out: {}\n", verb, left_out_text(plan.left_out));
}

SweepReport sweep_with_progress(const SweepPlan& plan, SweepOptions options, std::string_view verb) {
  watch_signals();
  report_left_out(plan, verb);
  // Exceeding a file size limit then fails write() instead of raising a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  ProgressLine line(verb);
  options.stop = &stop_asked;
  options.progress = [&line](const SweepProgress& progress) { show(progress, line); };
  return run_sweep(plan, options);
}

void end_by_signal() {
  std::signal(stop_signal, SIG_DFL);
  std::raise(stop_signal);
}

MeasurementTable measure_plan(const SweepPlan& plan, std::string_view verb) {
  WorkFolder folder("", "", verb);
  const SweepReport report =
      sweep_with_progress(plan, {.folder = folder.path, .worker = default_worker()}, verb);
  if (report.ended == "interrupted") {
    folder.clear();
    end_by_signal();
  }
  return read_sweep(folder.path);
}

}  // namespace kscout::cli
