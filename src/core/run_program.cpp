#include "core/run_program.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fail.h"

extern char** environ;

namespace kscout {

namespace {

using Clock = std::chrono::steady_clock;

/// Starts the program as leader of a process group of its own, so that its children end with it.
pid_t start(const std::vector<std::string>& command, int out) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    close(out);
    fail(Errc::not_found, "{}: cannot be started ({})", command[0], std::strerror(error));
  }
  return child;
}

/// Reads until the other end is closed; false when the time was up before.
bool read_until(Clock::time_point deadline, int from, std::string& output) {
  char chunk[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd end{.fd = from, .events = POLLIN, .revents = 0};
    const int ready = poll(&end, 1, static_cast<int>(std::min<std::int64_t>(left + 1, 1000)));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t got = read(from, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const std::size_t room = ProgramResult::kMostOutput - std::min(output.size(), ProgramResult::kMostOutput);
    output.append(chunk, std::min(static_cast<std::size_t>(got), room));
  }
}

}  // namespace

std::string ProgramResult::ending() const {
  if (timed_out) return "did not end in time";
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

ProgramResult run_program(const std::vector<std::string>& command, double seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    fail(Errc::device_failure, "no pipe to '{}': {}", command[0], std::strerror(errno));
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  pid_t child = 0;
  try {
    child = start(command, ends[1]);
  } catch (...) {
    close(ends[0]);
    throw;
  }
  close(ends[1]);
  ProgramResult result;
  result.timed_out = !read_until(deadline, ends[0], result.output);
  close(ends[0]);
  // A program may close its output and go on: then it gets the rest of its time.
  int status = 0;
  while (!result.timed_out && waitpid(child, &status, WNOHANG) == 0) {
    result.timed_out = Clock::now() >= deadline;
    usleep(1000);
  }
  if (result.timed_out) {
    kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return result;
  }
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return result;
}

}  // namespace kscout
