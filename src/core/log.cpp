#include "core/log.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/printable.h"

namespace kscout {

namespace {
std::atomic<bool> any_line_lost = false;  ///< whether a log of this process lost a line
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::shared_ptr<Log> Log::from_environment() {
  const std::string target = environment("KSCOUT_LOG");
  return target.empty() ? nullptr : std::make_shared<Log>(target);
}

Log::Log(const std::string& target) : target_(target), file_(STDERR_FILENO), owned_(target != "stderr") {
  if (!owned_) return;
  file_ = open(target.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) {
    fail(Errc::device_failure, "KSCOUT_LOG={}: {}; name a file that can be written, or stderr", target,
         std::strerror(errno));
  }
}

Log::~Log() {
  if (owned_) close(file_);
}

void Log::line(std::string_view text) noexcept {
  try {
    const std::string line = fmt::format("kscout: {}\n", printable_line(text));
    errno = 0;
    if (write(file_, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
    const int error = errno != 0 ? errno : ENOSPC;  // a part of the line was written
    if (any_line_lost.exchange(true) || !owned_) return;
    fmt::print(stderr, "kscout: warning: KSCOUT_LOG={}: {}; lines of the log are lost\n", target_,
               std::strerror(error));
  } catch (...) {  // no memory for the line, or stderr is closed
    any_line_lost = true;
  }
}

bool Log::lost_lines() noexcept { return any_line_lost; }

void Log::set_lost_lines() noexcept { any_line_lost = true; }

}  // namespace kscout
