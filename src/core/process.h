#pragma once
/// \file
/// Runs work in a forked child, and other programs, so that a crash, a hang or leaked state does no harm
/// here.
///
///     const ChildResult found = in_child(30, [] { return facts_of_the_driver(); });
///     if (!found.failure.empty()) ...   // "crashed: Segmentation fault"
///
/// Only the calling thread exists in the child, so the work must not wait for other threads.
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kscout {

struct ChildResult {
  std::string output;   ///< what the work returned
  std::string failure;  ///< how the child ended without returning, "crashed: ..."; empty when it returned
  bool timed_out = false;
};

/// Calls `work` in a child that is killed after `seconds`. Costs a fork, which takes longer when much memory
/// is mapped. Throws device_failure when the system has no process or pipe left.
ChildResult in_child(double seconds, const std::function<std::string()>& work);

/// For use inside `work`: kills the child (timed_out) unless it calls this function again within `seconds`; 0
/// = no limit.
void end_child_after(double seconds);

// ---- Holds objects that child processes write and this process reads.
//
//     const SharedArray<double> times(2);
//     in_child(30, [&] { times.all()[0] = measured(); return std::string(); });

/// Throws device_failure when the system has no memory left.
void* map_shared(std::size_t bytes);
void unmap_shared(void* memory, std::size_t bytes) noexcept;

/// `T` must not point to memory of one process.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(std::size_t count)
      : count_(count), data_(static_cast<T*>(map_shared(count * sizeof(T)))) {
    for (T& one : all()) one = T{};
  }
  ~SharedArray() { unmap_shared(data_, count_ * sizeof(T)); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;
  std::span<T> all() const noexcept { return {data_, count_}; }

 private:
  std::size_t count_;
  T* data_;
};

// ---- Runs another program and returns its output and exit status; kills it at a time limit.
//
//     const ProgramResult result = run_program({"bin/benchmark_x", "-m=128"}, /*seconds=*/60);
//     if (!result.ended_well()) report(result.ending());

struct ProgramResult {
  static constexpr std::size_t kMaxOutput = 1 << 20;  ///< further output is dropped
  std::string output;                                 ///< standard output, also of a killed program
  int exit_code = 0;
  int signal = 0;          ///< the signal that ended it; 0 = none
  bool timed_out = false;  ///< the program and its children were killed

  bool ended_well() const noexcept { return exit_code == 0 && signal == 0 && !timed_out; }
  /// "exit code 3", "killed by signal 11 (Segmentation fault)", "did not end in time".
  std::string ending() const;
};

/// The program's standard input is empty; its standard error is discarded. Throws not_found when it cannot be
/// started, device_failure when the system has no pipe left.
ProgramResult run_program(const std::vector<std::string>& command, double seconds);

/// Runs a program without a time limit and writes both outputs to the file `log`, which is overwritten. The
/// program stays in the terminal's process group and ends with it. `output` stays empty.
ProgramResult run_logged(const std::vector<std::string>& command, const std::filesystem::path& log);

}  // namespace kscout
