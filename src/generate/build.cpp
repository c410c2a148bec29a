#include "generate/build.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "core/fail.h"
#include "core/files.h"
#include "generate/project.h"

extern char** environ;

namespace kscout {
namespace {

namespace fs = std::filesystem;

/// Runs a program with its output in a file. Its exit code; -1 when it ended by a signal. Throws not_found.
int run_program(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(Errc::not_found, "{}: cannot be started ({})", command[0], std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The first line of a compiler's output that complains, else its first line.
std::string complaint(const fs::path& log) {
  const std::string text = read_file(log);
  std::string first;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find("error") != std::string::npos) return line;
    if (first.empty()) first = line;
  }
  return first.empty() ? "failed without a word" : first;
}

/// When the newest of the files was changed.
fs::file_time_type newest(std::initializer_list<fs::path> files) {
  auto time = fs::file_time_type::min();
  for (const fs::path& file : files) {
    std::error_code ignored;
    time = std::max(time, fs::last_write_time(file, ignored));
  }
  return time;
}

class Builder {
 public:
  explicit Builder(const BuildRequest& request)
      : request_(request), project_(read_project(request.project)), folder_(request.project / "build") {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail(Errc::device_failure, "{}: cannot be made ({})", folder_.string(), error.message());
  }

  BuildResult run() {
    BuildResult result;
    result.kernels.resize(project_.kernels.size());
    compile_all(result);
    if (!request_.check_only) link(result);
    return result;
  }

 private:
  fs::path object_of(const std::string& name) const { return folder_ / (name + ".o"); }

  std::vector<std::string> command_for(const fs::path& source) const {
    std::vector<std::string> command{request_.compiler};
    command.insert(command.end(), request_.flags.begin(), request_.flags.end());
    for (const std::string word : {"-std=c++20", "-fPIC", "-O3", "-I"}) command.push_back(word);
    command.push_back(request_.project.string());
    command.push_back("-I");
    command.push_back((request_.project / "include").string());
    if (request_.check_only) command.push_back("-fsyntax-only");
    command.push_back("-c");
    command.push_back(source.string());
    return command;
  }

  void compile_all(BuildResult& result) {
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> failures(std::max<std::size_t>(1, request_.jobs));
    const auto work = [&](std::exception_ptr& failure) {
      try {
        for (std::size_t i = next++; i < result.kernels.size(); i = next++)
          result.kernels[i] = compile(project_.kernels[i]);
      } catch (...) {
        failure = std::current_exception();
        next = result.kernels.size();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::exception_ptr& failure : failures) threads.emplace_back([&] { work(failure); });
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  BuiltKernel compile(const GeneratedKernel& kernel) const {
    const fs::path source = request_.project / kernel.file, object = object_of(kernel.name);
    const auto changed =
        newest({source, request_.project / "ck/generation.hpp", request_.project / "ck/common.hpp",
                request_.project / "ck/gemm.hpp", request_.project / "ck/conv.hpp"});
    std::error_code ignored;
    if (!request_.check_only && fs::exists(object, ignored) &&
        fs::last_write_time(object, ignored) >= changed)
      return {kernel.name, true, ""};
    std::vector<std::string> command = command_for(source);
    if (!request_.check_only) command.insert(command.end(), {"-o", object.string()});
    const fs::path log = folder_ / (kernel.name + ".log");
    const int status = run_program(command, log);
    if (status == 0) {
      fs::remove(log, ignored);
      return {kernel.name, true, ""};
    }
    fs::remove(object, ignored);
    return {kernel.name, false, status < 0 ? "the compiler was ended by a signal" : complaint(log)};
  }

  void link(BuildResult& result) {
    std::vector<GeneratedKernel> held;
    for (std::size_t i = 0; i < result.kernels.size(); ++i) {
      if (result.kernels[i].ok) held.push_back(project_.kernels[i]);
    }
    if (held.empty()) return;
    const fs::path table = folder_ / "library.cpp", library = folder_ / (project_.name + ".so");
    write_file_atomically(table, library_source(held));
    std::vector<std::string> command = command_for(table);
    std::erase(command, "-c");
    command.insert(command.end(), {"-shared", "-x", "none"});  // objects are no sources
    for (const GeneratedKernel& kernel : held) command.push_back(object_of(kernel.name).string());
    command.insert(command.end(), {"-o", library.string()});
    const fs::path log = folder_ / "link.log";
    if (run_program(command, log) != 0)
      fail(Errc::device_failure, "linking {}: {}", library.string(), complaint(log));
    result.library = library;
    result.index = write_library_index(request_.project, library, held);
  }

  const BuildRequest& request_;
  Project project_;
  fs::path folder_;
};

}  // namespace

BuildResult build_project(const BuildRequest& request) { return Builder(request).run(); }

}  // namespace kscout
