#include "outputs.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/links.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStdout = "-";

/// The options of all verbs that name a file to write.
std::vector<const CLI::Option*>& out_options() {
  static std::vector<const CLI::Option*> options;
  return options;
}

/// An option that names files to read.
struct InOption {
  const CLI::Option* option;
  FileOfValue file_of;
};
/// The options of all verbs that name files to read.
std::vector<InOption>& in_options() {
  static std::vector<InOption> options;
  return options;
}

int reserved_stdout = -1;    ///< the original standard output, while stdout is redirected to stderr
std::string name_of_stdout;  ///< the option's value for standard output: "-", or its file

/// Reserves standard output for the file "-": the verb's own prints go to stderr.
void reserve_stdout() {
  std::fflush(stdout);
  reserved_stdout = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (reserved_stdout < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    fail(Errc::device_failure, "standard output cannot be used: {}", std::strerror(errno));
  }
}

/// An option with its values on the command line, of any parsed verb or part of a verb.
struct Given {
  const CLI::Option* option;
  std::string value;
};
void add_given(const CLI::App& app, std::vector<Given>& given) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) given.push_back({option, value});
  }
  for (const CLI::App* part : app.get_subcommands()) add_given(*part, given);
}

/// Whether a name means standard output: "-", or the regular file that it is redirected to. Replacing that
/// file would lose the report.
bool is_stdout(const std::string& file) {
  if (file == kStdout) return true;
  struct stat named {
  }, output{};
  return stat(file.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &output) == 0 && S_ISREG(named.st_mode) &&
         named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

/// Whether two names are the same regular file. Using a terminal or a pipe twice is harmless.
bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code absent;
  return fs::is_regular_file(a, absent) && fs::equivalent(a, b, absent);
}

void check_folder(const Given& out) {
  std::error_code error;
  if (fs::is_directory(out.value, error)) {
    fail(Errc::invalid_argument, "{} {}: is a folder that exists; name another", out.option->get_name(),
         out.value);
  }
  if (fs::exists(out.value, error)) return;
  const fs::path parent = resolve_links(out.value).parent_path(), folder = parent.empty() ? "." : parent;
  if (!fs::is_directory(folder, error)) {
    fail(Errc::not_found, "{} {}: there is no folder '{}'; make it first", out.option->get_name(), out.value,
         folder.string());
  }
  if (access(folder.c_str(), W_OK) != 0) {
    fail(Errc::device_failure, "{} {}: no file can be made in '{}': {}", out.option->get_name(), out.value,
         folder.string(), std::strerror(errno));
  }
}

/// The file that an option reads; empty when its value names none.
std::string read_by(const Given& one) {
  constexpr std::string_view kRules = ".toml";  // --rules NAME, or FILE.toml[:SET]
  if (one.option->get_name() == "--rules") {
    const std::size_t at = one.value.find(kRules);
    return at == std::string::npos ? std::string() : one.value.substr(0, at + kRules.size());
  }
  const auto in = std::ranges::find(in_options(), one.option, &InOption::option);
  if (in == in_options().end()) return {};
  return in->file_of ? in->file_of(one.value) : one.value;
}

/// Rejects one file for two options: the written file would replace the one that is read.
void check_other(const Given& out, const Given& other, bool other_is_written) {
  if (other_is_written) {
    std::error_code ignored;
    const auto whole = [&](const Given& one) {
      return fs::weakly_canonical(fs::absolute(one.value), ignored);
    };
    if (!is_same_file(out.value, other.value) && whole(out) != whole(other)) return;
    if (out.value != kStdout && fs::exists(out.value) && !fs::is_regular_file(out.value)) return;
    fail(Errc::invalid_argument, "{} and {} both name {}; give each a file of its own",
         out.option->get_name(), other.option->get_name(),
         out.value == kStdout ? "standard output" : fmt::format("'{}'", out.value));
  }
  if (is_same_file(out.value, read_by(other))) {
    fail(Errc::invalid_argument,
         "{} {}: is the file that {} reads and would be overwritten; write to another",
         out.option->get_name(), out.value,
         other.option->get_positional() ? "the command" : other.option->get_name());
  }
}

}  // namespace

CLI::Option* add_out_option(CLI::App& verb, const std::string& name, std::string& file,
                            const std::string& help) {
  CLI::Option* const option = verb.add_option(name, file, help + " (-: standard output)");
  out_options().push_back(option);
  return option;
}

CLI::Option* reads_file(CLI::Option* option, FileOfValue file_of) {
  in_options().push_back({option, file_of});
  return option;
}

void prepare_outputs(const CLI::App& program) {
  std::vector<Given> given, outs;
  add_given(program, given);
  const auto is_written = [](const Given& one) {
    return std::ranges::find(out_options(), one.option) != out_options().end();
  };
  for (const Given& out : given) {
    if (!is_written(out)) continue;
    for (const Given& other : given) {
      if (other.option == out.option) continue;
      check_other(out, other, is_written(other));
    }
    if (out.value != kStdout) check_folder(out);
  }
  for (const Given& one : given) {
    if (!is_written(one) || !is_stdout(one.value)) continue;
    name_of_stdout = one.value;
    return reserve_stdout();
  }
}

void write_out(const std::string& file, std::string_view bytes) {
  if (reserved_stdout < 0 || file != name_of_stdout) return write_file_atomically(file, bytes);
  write_bytes(reserved_stdout, bytes, "standard output");
}

void write_new_folder(const std::string& folder,
                      const std::vector<std::pair<std::string, std::string>>& files) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error))
    fail(Errc::invalid_argument, "{}: holds other files; name a new folder", folder);
  fs::create_directories(folder, error);
  if (error) fail(Errc::device_failure, "{}: the folder cannot be made: {}", folder, error.message());
  for (const auto& [name, bytes] : files) write_file_atomically(fs::path(folder) / name, bytes);
}

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // Opens the lowest free descriptor, which is this stream's. Results written to it fail, as they must;
    // messages are dropped.
    if (open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

void release_stdout() {
  if (reserved_stdout < 0) return;
  std::fflush(stdout);
  dup2(reserved_stdout, STDOUT_FILENO);
  close(reserved_stdout);
  reserved_stdout = -1;
}

void check_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  fail(Errc::device_failure, "standard output cannot be written{}{}", errno ? ": " : "",
       errno ? std::strerror(errno) : "");
}

}  // namespace kscout::cli
