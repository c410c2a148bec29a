#include "generate/build.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "core/fail.h"
#include "core/files.h"
#include "core/log.h"
#include "core/owners.h"
#include "core/process.h"
#include "core/split.h"
#include "generate/project.h"

namespace kscout {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWheel = "cutlass_library/source/include";  // inside the wheel

/// Subfolders of a root that may contain the headers.
std::vector<fs::path> places_below(const fs::path& root) {
  std::vector<fs::path> places = {root / "include", root, root / "source/include", root / kWheel};
  std::error_code error;
  for (const auto& python : fs::directory_iterator(root / "lib", error)) {
    if (python.path().filename().string().starts_with("python"))
      places.push_back(python.path() / "site-packages" / kWheel);
  }
  return places;
}

}  // namespace

fs::path find_cutlass(const std::string& root) {
  std::vector<fs::path> roots;
  if (!root.empty()) {
    roots = {root};
  } else {
    for (const char* const variable : {"CUTLASS_PATH", "VIRTUAL_ENV"}) {
      if (const std::string value = environment(variable); !value.empty()) roots.emplace_back(value);
    }
    roots.emplace_back("/usr");
  }
  std::string looked;
  for (const fs::path& one : roots) {
    for (const fs::path& place : places_below(one)) {
      if (!is_absent(place / "cutlass/version.h")) return place;
    }
    looked += (looked.empty() ? "" : ", ") + one.string();
  }
  fail(Errc::not_found,
       "CUTLASS is not below {}: name a checkout with --cutlass-root, or install the wheel nvidia-cutlass "
       "(pip install --no-deps nvidia-cutlass)",
       looked);
}

namespace {

namespace fs = std::filesystem;

/// The first line of a compiler's output that contains `word`. Without such a line: its first line if
/// `else_first`, otherwise nothing.
std::string line_with(const fs::path& log, std::string_view word, bool else_first) {
  const std::string text = read_file(log);
  const auto lines = parts_in(text, "\n");
  for (const std::string_view line : lines) {
    if (line.find(word) != std::string_view::npos) return std::string(line);
  }
  return std::string(else_first && !lines.empty() ? lines.front() : std::string_view());
}

std::string complaint(const fs::path& log) {
  const std::string line = line_with(log, "error", true);
  return line.empty() ? "failed without a word" : line;
}

fs::file_time_type time_of(const fs::path& file) {
  std::error_code ignored;
  return fs::last_write_time(file, ignored);
}

/// A source and the result of its compilation.
struct Unit {
  std::string file;
  BuiltKernel result;  ///< shared by the kernels in it, except for the name
};

class Builder {
 public:
  explicit Builder(const BuildRequest& request)
      : request_(request),
        project_(read_project(request.project)),
        emitter_(emitter_of(project_.provider)),
        device_(find_device(project_.device)),
        folder_(request.project / "build") {
    make_own_folders(folder_);
    for (const auto& [file, from] : emitter_.shared)
      shared_changed_ = std::max(shared_changed_, time_of(request.project / file));
    std::set<std::string> seen;
    for (const GeneratedKernel& kernel : project_.kernels) {
      if (seen.insert(kernel.file).second) units_.push_back({kernel.file, {}});
    }
  }

  BuildResult run() {
    const auto start = std::chrono::steady_clock::now();
    compile_all();
    BuildResult result;
    std::map<std::string_view, const BuiltKernel*> by_file;
    for (const Unit& unit : units_) by_file[unit.file] = &unit.result;
    std::set<std::string_view> seen;
    std::vector<GeneratedKernel> held;
    for (const GeneratedKernel& kernel : project_.kernels) {
      const BuiltKernel& built = *by_file.at(kernel.file);
      if (seen.insert(kernel.kernel).second)
        result.kernels.push_back({kernel.kernel, built.ok, built.message});
      if (built.ok) held.push_back(kernel);
    }
    if (!request_.check_only && !held.empty()) link(held, result);
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

 private:
  fs::path built_file(const std::string& source, std::string_view ending) const {
    return folder_ / (fs::path(source).stem().string() + std::string(ending));
  }

  std::vector<std::string> command_for(const fs::path& source) const {
    std::vector<std::string> command{request_.compiler.empty() ? std::string(emitter_.compiler)
                                                               : request_.compiler};
    command.insert(command.end(), request_.flags.begin(), request_.flags.end());
    for (std::string& flag : emitter_.compile_flags(device_)) command.push_back(std::move(flag));
    for (const std::string word : {"-std=c++20", "-O3", "-I"}) command.push_back(word);
    command.push_back(request_.project.string());
    command.push_back("-I");
    command.push_back((request_.project / "include").string());
    if (request_.check_only) command.push_back("-fsyntax-only");
    command.push_back("-c");
    command.push_back(source.string());
    return command;
  }

  void compile_all() {
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> failures(std::max<std::size_t>(1, request_.jobs));
    const auto work = [&](std::exception_ptr& failure) {
      try {
        for (std::size_t i = next++; i < units_.size(); i = next++) compile(units_[i]);
      } catch (...) {
        failure = std::current_exception();
        next = units_.size();
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

  void compile(Unit& unit) const {
    const fs::path source = request_.project / unit.file, object = built_file(unit.file, ".o"),
                   log = built_file(unit.file, ".log");
    std::error_code ignored;
    unit.result.ok = true;
    if (!request_.check_only && fs::exists(object, ignored) &&
        time_of(object) >= std::max(time_of(source), shared_changed_))
      return;
    std::vector<std::string> command = command_for(source);
    if (!request_.check_only) command.insert(command.end(), {"-o", object.string()});
    const ProgramResult ran = run_logged(command, log);
    if (ran.ended_well()) {
      if (!emitter_.warning.empty()) unit.result.message = line_with(log, emitter_.warning, false);
      if (unit.result.message.empty()) fs::remove(log, ignored);
      return;
    }
    fs::remove(object, ignored);
    unit.result = {"", false, ran.signal != 0 ? "the compiler was ended by a signal" : complaint(log)};
  }

  void link(const std::vector<GeneratedKernel>& held, BuildResult& result) {
    const fs::path table = folder_ / "library.cpp", library = folder_ / (project_.name + ".so");
    write_file_atomically(table, library_source(held, emitter_.backend));
    std::vector<std::string> command = command_for(table);
    std::erase(command, "-c");
    command.insert(command.end(), emitter_.link_flags.begin(), emitter_.link_flags.end());
    for (const Unit& unit : units_) {
      if (unit.result.ok) command.push_back(built_file(unit.file, ".o").string());
    }
    command.insert(command.end(), {"-o", library.string()});
    const fs::path log = folder_ / "link.log";
    if (!run_logged(command, log).ended_well())
      fail(Errc::device_failure, "linking {}: {}", library.string(), complaint(log));
    keep_others_out(library);
    result.library = library;
    result.index = write_library_index(request_.project, library, held);
  }

  const BuildRequest& request_;
  Project project_;
  const Emitter& emitter_;
  Device device_;
  fs::path folder_;
  fs::file_time_type shared_changed_ = fs::file_time_type::min();
  std::vector<Unit> units_;
};

}  // namespace

BuildResult build_project(const BuildRequest& request) { return Builder(request).run(); }

}  // namespace kscout
