#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/error.h>

#include "core/build_info.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "core/log.h"
#include "core/names.h"
#include "core/printable.h"
#include "core/thread_limit.h"
#include "manual.h"
#include "outputs.h"
#include "safe_streams.h"
#include "sibling.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

int exit_code(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
      return 2;
    case Errc::unsupported:
      return 3;
    case Errc::not_found:
    case Errc::corrupt_data:
    case Errc::device_failure:
      return 4;
  }
  return 4;
}

/// Whether the output format is JSON: then errors are printed as JSON, too.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--format=json" ||
        (word == "--format" && i + 1 < argc && argv[i + 1] == std::string_view("json")))
      return true;
  }
  return false;
}

bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

/// Prints on stderr why the verb failed: one line for people, or {"error": code, "message": ...} with
/// --format json.
void report(std::string_view code, std::string_view message, bool json) {
  std::string line = fmt::format("kscout: {}\n", shortened(message));
  if (json) {
    const Json object = {{"error", code}, {"message", shortened(message)}};
    line = object.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  }
  std::fputs(line.c_str(), stderr);  // fmt would throw if stderr is closed
}

const VerbInfo* find_verb(std::string_view name) {
  const auto found = std::ranges::find(kVerbs, name, &VerbInfo::name);
  return found == std::end(kVerbs) ? nullptr : found;
}

/// Throws when the first word is not a verb.
void refuse_unknown_verb(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-' || find_verb(argv[1])) return;
  std::vector<std::string_view> names;
  for (const auto& verb : kVerbs) names.push_back(verb.name);
  throw Error(Errc::invalid_argument, unknown_name_message("verb", argv[1], names));
}

/// Whether the command line is only checked, as the test of the documented commands requests.
bool parse_only() {
  const char* const asked = std::getenv("KSCOUT_PARSE_ONLY");
  return asked && std::string_view(asked) == "1";
}

/// Rejects values that CLI11 accepts: "nan" and "inf" as numbers (its ranges let NaN pass), and "-1" or too
/// large numbers, which become the largest count. Also rejects empty values, such as an unset shell variable
/// gives, which would count as a missing option.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    for (const std::string& value : option->results()) {
      if (value.empty())
        fail(Errc::invalid_argument, "{} '': is empty; give a value, or leave it out", option->get_name());
      if (type.starts_with("FLOAT") && !std::isfinite(std::strtod(value.c_str(), nullptr)))
        fail(Errc::invalid_argument, "{} {}: give a finite number", option->get_name(), value);
      if (type.starts_with("UINT") && value.starts_with("-"))
        fail(Errc::invalid_argument, "{} {}: give a whole number of at least 0", option->get_name(), value);
      errno = 0;
      if (type.starts_with("UINT")) (void)std::strtoull(value.c_str(), nullptr, 0);
      if (type.starts_with("INT")) (void)std::strtoll(value.c_str(), nullptr, 0);
      if (errno == ERANGE)
        fail(Errc::invalid_argument, "{} {}: is too large; 64 bits must hold it", option->get_name(), value);
    }
  }
  for (const CLI::App* part : app.get_subcommands()) check_values(*part);
}

/// Adds all verbs; those of the other program get no options here.
void add_verbs(CLI::App& app, std::span<const VerbSetup> verbs) {
  // Without -h, which newer releases of CLI11 hold for the same as --h, the height of a convolution.
  app.set_help_flag("--help", "print this help, and end");
  app.set_version_flag("--version", [] { return "kscout " + build_line(); });
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  for (const auto& info : kVerbs) {
    CLI::App* verb = app.add_subcommand(std::string(info.name), std::string(info.summary));
    const auto found = std::ranges::find(verbs, info.name, &VerbSetup::name);
    if (found != verbs.end()) found->setup(*verb);
  }
  add_help_verb(*app.get_subcommand("help"), app, [verbs](std::string_view name) {
    return name == "help" || name == "completion" ||
           std::ranges::find(verbs, name, &VerbSetup::name) != verbs.end();
  });
  add_completion_verb(*app.get_subcommand("completion"));
}

constexpr const char* kSummary = "KernelScout: picks the fastest kernel without running any";

/// Whether this is `kscout completion --candidates WORD...`, which the scripts call. The words are an
/// unfinished command line, so the parser must not see them.
bool asks_for_candidates(int argc, char** argv) {
  return argc > 2 && argv[1] == std::string_view("completion") && argv[2] == std::string_view("--candidates");
}
int print_candidates(Program program, std::span<const VerbSetup> verbs, int argc, char** argv) {
  const std::vector<std::string> words(argv + 3, argv + argc);
  const VerbInfo* const verb = words.size() > 1 ? find_verb(words.front()) : nullptr;
  if (program == Program::kscout && verb && verb->program == Program::lab) start_sibling(argv);
  CLI::App app{kSummary, "kscout"};
  add_verbs(app, verbs);
  for (const std::string& word : completions(app, words)) fmt::print("{}\n", word);
  return 0;
}

int parse_and_run(std::span<const VerbSetup> verbs, int argc, char** argv) {
  CLI::App app{kSummary, "kscout"};
  add_verbs(app, verbs);
  std::vector<std::string> words(argv + 1, argv + argc);
  // Of the words before the program of `kscout exec`.
  std::replace(words.begin(), std::find(words.begin(), words.end(), "--"), std::string("-h"),
               std::string("--help"));
  if (const std::string message = unknown_part_message(app, words); !message.empty()) {
    throw Error(Errc::invalid_argument, message);
  }
  // Runs after the whole line was parsed and checked, before the verb's own callback.
  app.parse_complete_callback([&app] {
    check_values(app);
    if (parse_only()) throw CLI::Success();
    prepare_outputs(app);
  });
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    // When an option is missing, report unknown words first: a mistyped option may be the cause.
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if (extra || dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
      if (const std::string message = unknown_option_message(app); !message.empty())
        throw Error(Errc::invalid_argument, message);
    }
    if (error.get_exit_code() != 0 && wants_json(argc, argv)) {
      report(word(Errc::invalid_argument), error.what(), true);
      return 2;
    }
    std::ostringstream out, messages;
    const bool done = app.exit(error, out, messages) == 0;
    fmt::print("{}", out.str());
    fmt::print(stderr, "{}", shortened(messages.str()));
    return done ? 0 : 2;
  }
  return 0;
}

/// Requires valid UTF-8 in arguments: they go into JSON and into metadata of datasets and models.
void check_arguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (is_utf8(argv[i])) continue;
    fail(Errc::invalid_argument, "argument {} is no UTF-8: '{}'; rename the file or use a link to it", i,
         argv[i]);
  }
}

/// Runs the verb in this program, or replaces this process by kscout-lab.
int run_here_or_in_lab(Program program, std::span<const VerbSetup> verbs, int argc, char** argv) {
  try {
    if (asks_for_candidates(argc, argv)) return print_candidates(program, verbs, argc, argv);
    refuse_unknown_verb(argc, argv);
    const VerbInfo* verb = argc > 1 ? find_verb(argv[1]) : nullptr;
    if (program == Program::kscout && verb && verb->program == Program::lab) start_sibling(argv);
    return parse_and_run(verbs, argc, argv);
  } catch (const NeedsLab&) {
    start_sibling(argv);
  }
}

/// Runs the verb and returns the exit code; results may still be in the buffer of standard output.
int run_verb(Program program, std::span<const VerbSetup> verbs, int argc, char** argv) {
  try {
    check_arguments(argc, argv);
    return run_here_or_in_lab(program, verbs, argc, argv);
  } catch (const CheckFailed&) {
    return 1;
  } catch (const MissingPackage& error) {
    report("missing_package", error.what(), wants_json(argc, argv));
    return exit_code(error.code());
  } catch (const Error& error) {
    report(word(error.code()), error.what(), wants_json(argc, argv));
    return exit_code(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string file = error.path1().string();
    report(word(Errc::device_failure), file.empty() ? error.what() : file + ": " + error.code().message(),
           wants_json(argc, argv));
    return 4;
  } catch (const std::bad_alloc&) {
    const double allowed = memory_quota(read_text_file);
    report(
        word(Errc::device_failure),
        fmt::format("not enough memory{}; {}",
                    std::isinf(allowed) ? "" : fmt::format(": this process may use {:.3g} GB", allowed / 1e9),
                    "raise the limit (ulimit -v, the cgroup's), or give a smaller problem, family or file"),
        wants_json(argc, argv));
    return 4;
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) return 4;  // the error about standard output was printed already
    report(word(Errc::device_failure), error.what(), wants_json(argc, argv));
    return 4;
  }
}

}  // namespace

int run_program(Program program, std::span<const VerbSetup> verbs, int argc, char** argv) {
  open_standard_streams();
  print_safely();
  const int code = run_verb(program, verbs, argc, argv);
  try {
    check_stdout();
  } catch (const Error& error) {
    report(word(error.code()), error.what(), wants_json(argc, argv));
    return exit_code(error.code());
  }
  return code == 0 && Log::lost_lines() ? exit_code(Errc::device_failure) : code;  // its warning was printed
}

}  // namespace kscout::cli
