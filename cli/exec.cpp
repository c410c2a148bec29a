#include "exec.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/owners.h"
#include "op/problem_sets.h"
#include "options.h"
#include "outputs.h"
#include "preloadable.h"
#include "select/class_table.h"
#include "select/decision_db.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryName = "libkscout_preload.so";

constexpr double kMinGain = 2;  // percent

/// The words behind the program, which are the program's own: no parser sees them.
char** program_arguments = nullptr;

struct ExecOptions {
  std::string program, record, report;
  bool no_serve = false, refine = false, guard = false, no_guard = false;
  std::string policy = "best", classes;
  std::optional<double> min_gain;  ///< percent
  std::uint64_t check_results = 0;

  bool serves() const noexcept { return !no_serve && !guard; }
  bool guards() const noexcept { return guard || !(no_serve || no_guard); }
};

/// Beside this program (a build, a wheel), or in ../lib/kscout (an installation).
fs::path preloaded_library() {
  const fs::path folder = program_file().parent_path();
  for (const fs::path& place : {folder / kLibraryName, folder.parent_path() / "lib/kscout" / kLibraryName}) {
    if (is_absent(place)) continue;
    if (place.string().find_first_of(" :") != std::string::npos) {
      fail(Errc::unsupported,
           "{}: LD_PRELOAD separates files by spaces and colons; move KernelScout to a folder without them",
           place.string());
    }
    return place;
  }
  fail(Errc::not_found, "{} is neither in {} nor in ../lib/kscout; install KernelScout again", kLibraryName,
       folder.string());
}

/// Replaces `file` by one with `text`, to which processes append, and passes its name on. A pipe or a device
/// stays as it is.
void start_file(const std::string& file, const char* setting, std::string_view text) {
  if (file.empty()) {
    unsetenv(setting);
    return;
  }
  std::error_code error;
  if (!fs::exists(file, error) || fs::is_regular_file(file, error)) write_file_atomically(file, text);
  setenv(setting, fs::absolute(file).c_str(), 1);
}

void check_files(const ExecOptions& options) {
  const char* const mode = options.guard ? "--guard" : "--no-serve";
  for (const auto& [option, given] : {std::pair{"--no-serve", options.guard && options.no_serve},
                                      {"--no-guard", options.no_guard && !options.serves()},
                                      {"--refine", options.refine && !options.serves()},
                                      {"--min-gain", options.min_gain && options.guard}}) {
    if (given) fail(Errc::invalid_argument, "{} has no effect with {}; leave one of them out", option, mode);
  }
  if (options.no_serve && options.record.empty() && options.report.empty() && options.check_results == 0)
    fail(Errc::invalid_argument,
         "nothing to do with --no-serve; give --record FILE, --report FILE or --check-results N");
  if (const char* const config = std::getenv("CUBLAS_WORKSPACE_CONFIG");
      options.refine && config && *config) {
    fail(Errc::invalid_argument,
         "--refine: CUBLAS_WORKSPACE_CONFIG={} asks for equal results in every run, and a choice by time is "
         "not; "
         "refine without it first, then run with it",
         config);
  }
  const bool invariant = is_batch_invariant(options.policy);
  check_classes_option({.batch_invariant = invariant}, options.classes);
  if (invariant && (options.refine || !options.serves()))
    fail(Errc::invalid_argument, "--policy batch-invariant has no effect with {}; leave one of them out",
         options.refine ? "--refine: what kscout classes timed is used" : mode);
  if (!(options.min_gain.value_or(0) >= 0))
    fail(Errc::invalid_argument, "--min-gain {}: a percentage of at least 0", *options.min_gain);
  if (invariant && options.min_gain)
    fail(Errc::invalid_argument,
         "--min-gain has no effect with --policy batch-invariant, which serves all products of its weights; "
         "leave one of them out");
  if (options.record == "-")
    fail(Errc::invalid_argument, "--record -: counts are updated while the program runs, so name a file");
  std::error_code error;
  for (const auto& [option, file] : {std::pair{"--record", &options.record}, {"--report", &options.report}}) {
    if (fs::is_directory(*file, error))
      fail(Errc::invalid_argument, "{} {}: is a folder; name a file", option, *file);
  }
  if (fs::exists(options.record, error) && !fs::is_regular_file(options.record, error))
    fail(Errc::invalid_argument, "--record {}: counts are updated in place, so name a regular file",
         options.record);
  if (!options.record.empty() && !options.report.empty() &&
      fs::weakly_canonical(fs::absolute(options.record)) ==
          fs::weakly_canonical(fs::absolute(options.report)))
    fail(Errc::invalid_argument, "--record and --report both name '{}'; give each a file of its own",
         options.record);
}

/// A file of decisions that cannot be used is reported before the program starts.
void start_refinement() {
  const char* const named = std::getenv("KSCOUT_DB");
  const fs::path given = named && *named ? named : default_decision_db();
  refuse_if_others_write(given);
  const fs::path file = given.empty() ? given : fs::absolute(given);
  DecisionDb(file).check_writable();
  setenv("KSCOUT_DB", file.c_str(), 1);  // the program may change its folder
  setenv("KSCOUT_PRELOAD_REFINE", "1", 1);
}

/// Names the file of classes by its whole path, because the program may change its folder. Refuses a file
/// without classes before the program starts.
void start_policy(const ExecOptions& options) {
  unsetenv("KSCOUT_PRELOAD_POLICY");
  if (!is_batch_invariant(options.policy)) return;
  const fs::path given = class_file(options.classes);
  const fs::path file = given.empty() ? given : fs::absolute(given);
  if (read_classes(file).empty())
    fail(Errc::not_found, "--policy batch-invariant: {} has no classes; measure them with kscout classes",
         file.string());
  setenv("KSCOUT_CLASSES", file.c_str(), 1);
  setenv("KSCOUT_PRELOAD_POLICY", "batch-invariant", 1);
}

/// For how many cycles threads of OpenBLAS wait actively after a product: 2 to this power. They take the CPUs
/// of the served product that follows (docs/bench/exec_cpu.md).
constexpr const char* kThreadTimeout = "18";

void run(const ExecOptions& options) {
  check_files(options);
  const fs::path program = find_program(options.program);
  check_preloadable(program);
  std::string preload = preloaded_library().string();
  if (const char* const before = std::getenv("LD_PRELOAD"); before && *before)
    preload += std::string(":") + before;
  setenv("LD_PRELOAD", preload.c_str(), 1);
  if (options.guards()) {
    setenv("KSCOUT_PRELOAD_GUARD", "1", 1);
  } else {
    unsetenv("KSCOUT_PRELOAD_GUARD");
  }
  if (!options.serves()) {
    unsetenv("KSCOUT_PRELOAD_SERVE");
  } else {
    setenv("KSCOUT_PRELOAD_SERVE", "1", 1);
    setenv("OPENBLAS_THREAD_TIMEOUT", kThreadTimeout, 0);
    setenv("KSCOUT_PRELOAD_MIN_GAIN", fmt::format("{}", options.min_gain.value_or(kMinGain)).c_str(), 1);
  }
  if (options.check_results > 0) {
    setenv("KSCOUT_PRELOAD_CHECK_RESULTS", std::to_string(options.check_results).c_str(), 1);
  } else {
    unsetenv("KSCOUT_PRELOAD_CHECK_RESULTS");
  }
  start_policy(options);
  if (options.refine) {
    start_refinement();
  } else {
    unsetenv("KSCOUT_PRELOAD_REFINE");
  }
  start_file(options.record, "KSCOUT_PRELOAD_RECORD", std::string(kRecordHeader) + "\n");
  if (options.report == "-") {
    setenv("KSCOUT_PRELOAD_REPORT", "-", 1);
  } else {
    start_file(options.report, "KSCOUT_PRELOAD_REPORT", "");
  }
  setenv("KSCOUT_PRELOAD_PROCESS", std::to_string(getpid()).c_str(), 1);
  std::string name = options.program;
  std::vector<char*> words{name.data()};
  for (char** word = program_arguments; word && *word; ++word) words.push_back(*word);
  words.push_back(nullptr);
  execvp(name.c_str(), words.data());
  fail(Errc::not_found, "{}: cannot be started: {}", program.string(), std::strerror(errno));
}

}  // namespace

int take_program_arguments(int argc, char** argv) {
  if (argc < 2 || argv[1] != std::string_view("exec")) return argc;
  for (int i = 2; i + 1 < argc; ++i) {
    if (argv[i] != std::string_view("--")) continue;
    program_arguments = argv + i + 2;
    return i + 2;
  }
  return argc;
}

void setup_exec(CLI::App& verb) {
  const auto options = std::make_shared<ExecOptions>();
  verb.add_option("program", options->program, "the program, after --; the words behind it are its arguments")
      ->required();
  verb.add_option("--record", options->record,
                  "write each distinct GEMM with its number of calls, as CSV for problems, sweep, predict");
  verb.add_option("--report", options->report,
                  "write what was seen and served, when each process ends (-: standard error)");
  verb.add_option(
      "--min-gain", options->min_gain,
      "serve a GEMM where a model expects the library's own choice to take this many percent longer");
  verb.add_flag("--refine", options->refine,
                "time each pick against the library's own kernel on the first calls of its GEMM, keep the\n"
                "faster, and store it for later processes (kscout db, KSCOUT_DB)");
  add_policy_option(verb, [options](const std::string& policy) {
    is_batch_invariant(policy);
    options->policy = policy;
  });
  add_classes_option(verb, options->classes);
  verb.add_flag(
      "--guard", options->guard,
      "only keep wrong results of the library from the program: every other call goes to the library");
  verb.add_flag("--no-guard", options->no_guard, "do not examine whether the library's results are right");
  verb.add_option("--check-results", options->check_results,
                  "compare the result of one GEMM in N on a GPU with sums in float64, and say what is wrong")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 53));
  verb.add_flag("--no-serve", options->no_serve, "only record: every call goes to the library");
  verb.callback([options] { run(*options); });
  verb.footer(
      "Puts a library under the program that takes its GEMMs from cuBLAS and cuBLASLt: those for which a\n"
      "model knows a faster kernel run on it, all others go on to the library. Where the library is about "
      "to\n"
      "compute a GEMM wrong, another of its kernels computes it.\n"
      "The program replaces kscout: process id, signals and exit status are the program's. Its children are\n"
      "served, too (docs/exec.md).\n\n"
      "examples\n"
      "  kscout exec -- python3 train.py\n"
      "  kscout exec --report - -- ./my_program\n"
      "  kscout exec --guard -- python3 train.py\n"
      "  kscout exec --refine -- python3 train.py\n"
      "  kscout exec --no-serve --record shapes.csv -- python3 train.py --epochs 1\n"
      "  kscout problems --file shapes.csv --describe\n\n"
      "exit status: the program's; before it starts: 2 wrong arguments, 3 nothing can be preloaded, 4 no "
      "such\n"
      "program, file failure");
}

}  // namespace kscout::cli
