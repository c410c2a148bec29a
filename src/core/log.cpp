#include "core/log.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/fail.h"

namespace kscout {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::shared_ptr<Log> Log::from_environment() {
  const std::string target = environment("KSCOUT_LOG");
  return target.empty() ? nullptr : std::make_shared<Log>(target);
}

Log::Log(const std::string& target) : file_(STDERR_FILENO), owned_(target != "stderr") {
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
    const std::string line = fmt::format("kscout: {}\n", text);
    [[maybe_unused]] const auto written = write(file_, line.data(), line.size());
  } catch (...) {  // no memory for the line: it is lost
  }
}

}  // namespace kscout
