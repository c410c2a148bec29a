#pragma once
/// \file
/// A worker program as seen from the sweep: start, talk, end.
///
///     WorkerProcess worker(program, {"--sweep", folder}, log);
///     worker.send(line);
///     poll worker.fd(); worker.receive(lines);      // false when it is gone
///     std::string how = worker.end();               // "killed by signal 11 (Segmentation fault)"
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace kscout {

/// A worker that is not ready after so many seconds is broken.
inline constexpr double kStartLimitS = 30;

class WorkerProcess {
 public:
  /// Standard error goes to the end of `log`. Throws device_failure when the program cannot be started.
  WorkerProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                const std::filesystem::path& log);
  /// Kills it if it still lives.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  int fd() const noexcept { return fd_; }
  pid_t pid() const noexcept { return pid_; }
  /// Does nothing when the worker is gone: receive() tells.
  void send(const std::string& line);
  /// Appends the whole lines that have arrived, without waiting; false when the worker closed its end.
  bool receive(std::vector<std::string>& lines);
  /// Kills it, waits for its end and says how it ended by itself, if it did.
  std::string end();

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string buffer_;
};

}  // namespace kscout
