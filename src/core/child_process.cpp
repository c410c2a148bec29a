#include "core/child_process.h"

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fail.h"

namespace kscout {

namespace {

constexpr char kWhole = '\n';  // written last: the output before it is complete

/// SIGALRM after so long.
void set_alarm(double seconds) {
  const auto us = static_cast<std::int64_t>(std::ceil(seconds * 1e6));
  const itimerval timer{.it_interval = {}, .it_value = {us / 1'000'000, us % 1'000'000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void work_and_leave(double seconds, const std::function<std::string()>& work, int out) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) {
    std::signal(signal, SIG_DFL);  // the program's own handlers are none of the child's business
  }
  set_alarm(seconds);
  const std::string text = work() + kWhole;
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(out, text.data() + at, text.size() - at);
    if (wrote <= 0) _exit(1);
    at += static_cast<std::size_t>(wrote);
  }
  _exit(0);
}

/// How the child ended, in words.
void tell_ending(pid_t child, double seconds, ChildResult& result) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    result.failure = "lost its process";  // SIGCHLD ignored: somebody else reaped it
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
  tell_ending(child, seconds, result);
  if (!result.output.empty() && result.output.back() == kWhole) {
    result.output.pop_back();
    result.failure.clear();
  }
  return result;
}

}  // namespace kscout
