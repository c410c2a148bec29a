#pragma once
/// \file
/// Runs work in a forked child, and other programs: both may crash, hang or leave traces without harm here.
///
///     const ChildResult found = in_child(30, [] { return facts_of_the_driver(); });
///     if (!found.failure.empty()) ...   // "crashed: Segmentation fault"
///
/// Of the threads only the calling one exists in the child, so the work should not wait for others.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace kscout {

struct ChildResult {
  std::string output;   ///< what the work returned
  std::string failure;  ///< how the child ended instead, "crashed: ..."; empty when it returned
  bool timed_out = false;
};

/// Calls `work` in a child that is ended after `seconds`. Costs the fork, more where much memory is mapped.
/// Throws device_failure when the system has no process or pipe left.
ChildResult in_child(double seconds, const std::function<std::string()>& work);

/// In such work: ends the child (timed_out) unless another call comes within so many seconds; 0 = no end.
void end_child_after(double seconds);

// ---- Runs a program of others: its output, how it ended, and an end for it when it takes too long.
//
//     const ProgramResult result = run_program({"bin/benchmark_x", "-m=128"}, /*seconds=*/60);
//     if (!result.ended_well()) report(result.ending());

struct ProgramResult {
  static constexpr std::size_t kMaxOutput = 1 << 20;  ///< what it prints beyond that is dropped
  std::string output;  ///< standard output; what it printed before it was ended is kept
  int exit_code = 0;
  int signal = 0;          ///< that ended it; 0 = it ended by itself
  bool timed_out = false;  ///< it and its children were killed

  bool ended_well() const noexcept { return exit_code == 0 && signal == 0 && !timed_out; }
  /// "exit code 3", "killed by signal 11 (Segmentation fault)", "did not end in time".
  std::string ending() const;
};

/// The program's standard input is empty, its standard error goes nowhere. Throws not_found when it cannot be
/// started, device_failure when the system has no pipe left.
ProgramResult run_program(const std::vector<std::string>& command, double seconds);

/// The same without an end to its time, and with both outputs in the file `log`, which begins anew; ending
/// the terminal's process group ends it, too. `output` stays empty.
ProgramResult run_logged(const std::vector<std::string>& command, const std::filesystem::path& log);

}  // namespace kscout
