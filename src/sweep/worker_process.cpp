#include "sweep/worker_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/callables/callable_backend.h"
#include "core/fail.h"

extern char** environ;

namespace kscout {

WorkerProcess::WorkerProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                             const std::filesystem::path& log) {
  // One socket for both directions. Unlike a pipe, writing to a closed one raises no signal.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    fail(Errc::device_failure, "cannot talk to a worker: {}", std::strerror(errno));
  }
  fd_ = ends[0];
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A process group of its own: Ctrl-C reaches only the sweep, which then ends its workers.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawn(&pid_, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (error != 0) {
    pid_ = -1;
    close(fd_);
    fail(Errc::device_failure, "cannot start the worker {}: {}", program.string(), std::strerror(error));
  }
}

WorkerProcess::~WorkerProcess() { end(); }

void WorkerProcess::send(const std::string& line) {
  const std::string text = line + '\n';
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t sent = ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    at += static_cast<std::size_t>(sent);
  }
}

bool WorkerProcess::receive(std::vector<std::string>& lines) {
  bool open = true;
  char chunk[16384];
  for (;;) {
    const ssize_t got = recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      open = false;
      break;
    }
    buffer_.append(chunk, static_cast<std::size_t>(got));
  }
  std::size_t begin = 0;
  for (std::size_t end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n', begin)) {
    lines.push_back(buffer_.substr(begin, end - begin));
    begin = end + 1;
  }
  buffer_.erase(0, begin);
  return open;
}

std::string WorkerProcess::end() {
  if (pid_ < 0) return {};
  // kill does nothing to a process that has ended: waitpid still reports the process's own status.
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  close(fd_);
  fd_ = -1;
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) == kCallablesEnded) return "the callable ended its process";
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace kscout
