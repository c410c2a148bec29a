#pragma once
/// \file
/// Writes what the core counted in one process (kscout exec --report).
///
///     Report report(process);
///     if (!report.add_calls(calls)) return;
///     report.add(server);
///     report.write("-");
///
/// A text of limited length, without memory of its own: a process may end inside of malloc.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/types.h>

#include "preload/cpu.h"
#include "preload/gpu.h"
#include "preload/gpu_session.h"
#include "preload/guard.h"
#include "preload/result_checker.h"

namespace kscout::preload {

class Report {
 public:
  explicit Report(pid_t process) noexcept;

  /// By kscout_entry. Returns whether there were any but the program's allocations.
  bool add_calls(std::span<const std::uint64_t> calls) noexcept;
  void add_problems(std::uint64_t calls, const char* what, std::size_t problems) noexcept;
  void add_unread(std::span<const std::uint64_t> unread) noexcept;
  void add(const GpuSession& session) noexcept;
  void add(const GpuServer& server) noexcept;
  void add_convolutions(const Tally& tally) noexcept;
  void add(const CpuServer& server) noexcept;
  void add(const ResultChecker::Counts& counts) noexcept;
  void add(const Guard::Counts& counts, std::uint64_t wrong_convolutions) noexcept;

  bool any_of_gpu() const noexcept { return any_of_gpu_; }
  bool any_of_cpu() const noexcept { return any_of_cpu_; }

  /// Appends to a file, or writes to standard error (-).
  void write(const std::string& file) const noexcept;

 private:
  __attribute__((format(printf, 2, 3))) void line(const char* format, ...) noexcept;
  /// `what`: of what the calls are, before "passed on".
  void add(const Tally& tally, const char* what) noexcept;

  std::array<char, 8192> bytes_{};
  std::size_t size_ = 0;
  bool any_of_gpu_ = false, any_of_cpu_ = false;
};

}  // namespace kscout::preload
