#pragma once
/// \file
/// Starts a worker program for a sweep, exchanges lines with it, and ends it.
///
///     WorkerProcess worker(program, {"--sweep", folder}, log);
///     worker.send(line);
///     poll worker.fd(); worker.receive(lines);      // false when it has ended
///     std::string how = worker.end();               // "killed by signal 11 (Segmentation fault)"
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace kscout {

/// A worker that is not ready after this many seconds counts as broken.
inline constexpr double kStartLimitS = 30;

class WorkerProcess {
 public:
  /// Appends the worker's standard error to `log`. Throws device_failure when the program cannot be started.
  WorkerProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                const std::filesystem::path& log);
  /// Kills the worker if it still runs.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  int fd() const noexcept { return fd_; }
  /// Does nothing when the worker has ended: receive() reports that.
  void send(const std::string& line);
  /// Appends the complete lines that have arrived, without waiting; false when the worker closed its end.
  bool receive(std::vector<std::string>& lines);
  /// Kills the worker if it still runs, and waits for its end. Returns how the worker ended: by itself, or
  /// killed by this call; "" when there is no worker.
  std::string end();

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string buffer_;
};

}  // namespace kscout
