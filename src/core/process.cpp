
#include "core/process.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fail.h"

namespace kscout {

namespace {

constexpr char kWhole = '\n';  // written last: it proves that the output before it is complete

[[noreturn]] void work_and_leave(double seconds, const std::function<std::string()>& work, int out) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) {
    std::signal(signal, SIG_DFL);  // the child must not run the program's own handlers
  }
  end_child_after(seconds);
  const std::string text = work() + kWhole;
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(out, text.data() + at, text.size() - at);
    if (wrote <= 0) _exit(1);
    at += static_cast<std::size_t>(wrote);
  }
  _exit(0);
}

/// Records how the child ended, in words.
void record_ending(pid_t child, double seconds, ChildResult& result) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    result.failure = "lost its process";  // SIGCHLD is ignored, so the system reaped the child
    return;
  }
  result.timed_out = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  if (result.timed_out) {
    result.failure = fmt::format("did not end within {} s", seconds);
  } else if (WIFSIGNALED(status)) {
    result.failure = fmt::format("crashed: {}", strsignal(WTERMSIG(status)));
  } else {
    result.failure = fmt::format("ended the process with code {}", WEXITSTATUS(status));
  }
}

std::string read_all(int from) {
  std::string text;
  char chunk[1024];
  for (;;) {
    const ssize_t got = read(from, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(chunk, static_cast<std::size_t>(got));
  }
}

}  // namespace

void end_child_after(double seconds) {
  const auto us = static_cast<std::int64_t>(std::ceil(seconds * 1e6));
  const itimerval timer{.it_interval = {}, .it_value = {us / 1'000'000, us % 1'000'000}};
  setitimer(ITIMER_REAL, &timer, nullptr);  // SIGALRM
}

void* map_shared(std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail(Errc::device_failure, "no shared memory of {} bytes", bytes);
  return at;
}

void unmap_shared(void* memory, std::size_t bytes) noexcept { munmap(memory, bytes); }

ChildResult in_child(double seconds, const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) fail(Errc::device_failure, "no pipe to a child process: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    work_and_leave(seconds, work, ends[1]);
  }
  const int error = errno;
  close(ends[1]);
  ChildResult result;
  if (child > 0) result.output = read_all(ends[0]);
  close(ends[0]);
  if (child < 0) fail(Errc::device_failure, "cannot fork: {}", std::strerror(error));
  record_ending(child, seconds, result);
  if (!result.output.empty() && result.output.back() == kWhole) {
    result.output.pop_back();
    result.failure.clear();
  }
  return result;
}

}  // namespace kscout

extern char** environ;

namespace kscout {

namespace {

using Clock = std::chrono::steady_clock;

/// Holds the targets of a program's input and output.
class Redirections {
 public:
  Redirections() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
  }
  ~Redirections() { posix_spawn_file_actions_destroy(&actions_); }
  Redirections(const Redirections&) = delete;
  Redirections& operator=(const Redirections&) = delete;

  void to_file(int from, const char* file) {
    posix_spawn_file_actions_addopen(&actions_, from, file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  }
  void to(int from, int descriptor) { posix_spawn_file_actions_adddup2(&actions_, descriptor, from); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// `flags`: for posix_spawnattr_setflags. Throws not_found.
pid_t start(const std::vector<std::string>& command, const Redirections& redirections, short flags) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, flags);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], redirections.get(), &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) fail(Errc::not_found, "{}: cannot be started ({})", command[0], std::strerror(error));
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void record_end(int status, ProgramResult& result) {
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/// Reads until the other end is closed; false when the deadline passes first.
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
    const std::size_t room = ProgramResult::kMaxOutput - std::min(output.size(), ProgramResult::kMaxOutput);
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
  Redirections redirections;
  redirections.to(1, ends[1]);
  redirections.to_file(2, "/dev/null");
  pid_t child = 0;
  try {
    // The child leads its own process group, so that killing the group ends its children too.
    child = start(command, redirections, POSIX_SPAWN_SETPGROUP);
  } catch (...) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
  ProgramResult result;
  result.timed_out = !read_until(deadline, ends[0], result.output);
  close(ends[0]);
  // A program may close its output and continue: it then has the rest of its time to end.
  int status = 0;
  while (!result.timed_out && waitpid(child, &status, WNOHANG) == 0) {
    result.timed_out = Clock::now() >= deadline;
    usleep(1000);
  }
  if (result.timed_out) {
    kill(-child, SIGKILL);
    wait_for(child);
    return result;
  }
  record_end(status, result);
  return result;
}

ProgramResult run_logged(const std::vector<std::string>& command, const std::filesystem::path& log) {
  Redirections redirections;
  redirections.to_file(1, log.c_str());
  redirections.to(2, 1);
  ProgramResult result;
  record_end(wait_for(start(command, redirections, 0)), result);
  return result;
}

}  // namespace kscout
