#include "sibling.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <kscout/error.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/process.h"
#include "core/split.h"
#include "outputs.h"

namespace kscout::cli {

namespace {

/// Libraries that the loader does not find for a program, according to the program's own list
/// (LD_TRACE_LOADED_OBJECTS).
std::vector<std::string> missing_libraries(const std::filesystem::path& program) {
  constexpr double kMaxSeconds = 20;
  setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
  const ProgramResult listed = kscout::run_program({program.string()}, kMaxSeconds);
  unsetenv("LD_TRACE_LOADED_OBJECTS");
  std::vector<std::string> missing;
  for (const std::string_view line : parts_in(listed.output, "\n")) {
    const std::size_t name = line.find_first_not_of(" \t"), arrow = line.find(" => not found");
    if (arrow != std::string::npos && name < arrow) missing.emplace_back(line.substr(name, arrow - name));
  }
  return missing;
}

/// Folders in which a Python keeps the libraries of its wheels; empty when it has none, or cannot be started.
std::vector<std::string> folders_of_wheels(const std::string& python) {
  constexpr double kMaxSeconds = 20;
  const std::string code =
      "from importlib.util import find_spec\n"
      "for name, part in (('pyarrow', ''), ('lightgbm', '/lib')):\n"
      "  spec = find_spec(name)\n"
      "  if spec and spec.submodule_search_locations: print(spec.submodule_search_locations[0] + part)\n";
  try {
    const std::string output = kscout::run_program({python, "-c", code}, kMaxSeconds).output;
    const auto lines = parts_in(output, "\n");
    return {lines.begin(), lines.end()};
  } catch (const Error&) {  // no such program
    return {};
  }
}

void search_first(const std::vector<std::string>& folders) {
  std::string path = fmt::format("{}", fmt::join(folders, ":"));
  if (const char* const before = std::getenv("LD_LIBRARY_PATH"); before && *before)
    path += std::string(":") + before;
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
}

std::string active_python() {
  const char* const named = std::getenv("KSCOUT_PYTHON");
  return named && *named ? named : "python3";
}

}  // namespace

std::string shell_word(std::string_view text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || std::strchr("/._-+=:,@", c); };
  if (!text.empty() && std::ranges::all_of(text, plain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + '\'';
}

void start_sibling(char** argv) {
  release_stdout();
  const auto sibling = program_file().parent_path() / "kscout-lab";
  if (is_absent(sibling)) {
    fail(Errc::not_found, "verb '{}' needs {}, which is not there; build with -DKSCOUT_LAB=ON", argv[1],
         sibling.string());
  }
  if (!missing_libraries(sibling).empty()) {
    const std::string python = active_python();
    if (const auto folders = folders_of_wheels(python); !folders.empty()) search_first(folders);
    if (const auto missing = missing_libraries(sibling); !missing.empty()) {
      throw MissingPackage(fmt::format(
          "verb '{}' needs {}, which neither this installation nor {} has; install the wheels it was "
          "built for with {} -m pip install {} (libgomp.so.1: Debian's libgomp1), or name another Python "
          "in KSCOUT_PYTHON",
          argv[1], fmt::join(missing, ", "), python, python, KSCOUT_LAB_WHEELS));
    }
  }
  execv(sibling.c_str(), argv);
  fail(Errc::not_found, "verb '{}' needs {}: {}", argv[1], sibling.string(), std::strerror(errno));
}

}  // namespace kscout::cli
