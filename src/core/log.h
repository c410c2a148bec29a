#pragma once
/// \file
/// Logs a running application's decisions to the target that the environment variable KSCOUT_LOG names.
///
///     const std::shared_ptr<Log> log = Log::from_environment();   // null: logging is off
///     if (log) log->line(fmt::format("model {}", path));
///
/// KSCOUT_LOG is "stderr" or the name of a file to which lines are appended; several processes may share the
/// file.
#include <memory>
#include <string>
#include <string_view>

namespace kscout {

class Log {
 public:
  /// Null when KSCOUT_LOG is not set or empty. Throws device_failure when the file cannot be opened.
  static std::shared_ptr<Log> from_environment();
  /// `target`: "stderr" or a file name.
  explicit Log(const std::string& target);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes "kscout: TEXT\n" at once. The first line of the process that cannot be written is reported on
  /// stderr.
  void line(std::string_view text) noexcept;
  /// Whether any log of this process lost a line.
  static bool lost_lines() noexcept;
  /// Records that a child process lost lines; it has reported them.
  static void set_lost_lines() noexcept;

 private:
  std::string target_;
  int file_;
  bool owned_;
};

/// The value of an environment variable; empty when it is not set.
std::string environment(const char* name);

}  // namespace kscout
