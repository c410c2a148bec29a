#include <algorithm>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/error.h>

#include "core/build_info.h"
#include "core/json_fields.h"
#include "core/names.h"
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

/// Whether the caller is a program: then failures are told in JSON, too.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--format=json" ||
        (word == "--format" && i + 1 < argc && argv[i + 1] == std::string_view("json")))
      return true;
  }
  return false;
}

/// Says on stderr why the verb failed: a line for people, or {"error": code, "message": ...} beside --format
/// json.
void report(Errc code, std::string_view message, bool json) {
  if (!json) {
    fmt::print(stderr, "kscout: {}\n", message);
    return;
  }
  const Json object = {{"error", word(code)}, {"message", message}};
  fmt::print(stderr, "{}\n", object.dump(-1, ' ', false, Json::error_handler_t::replace));
}

const VerbInfo* find_verb(std::string_view name) {
  const auto found = std::ranges::find(kVerbs, name, &VerbInfo::name);
  return found == std::end(kVerbs) ? nullptr : found;
}

/// The message for a first word that is no verb, or nothing.
bool refuse_unknown_verb(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-' || find_verb(argv[1])) return false;
  std::vector<std::string_view> names;
  for (const auto& verb : kVerbs) names.push_back(verb.name);
  fmt::print(stderr, "kscout: {}\n", unknown_name_message("verb", argv[1], names));
  return true;
}

/// Whether the command line is only checked. The test of the documented commands asks for it.
bool parse_only() {
  const char* const asked = std::getenv("KSCOUT_PARSE_ONLY");
  return asked && std::string_view(asked) == "1";
}

int parse_and_run(std::span<const VerbSetup> verbs, int argc, char** argv) {
  CLI::App app{"KernelScout: picks the fastest kernel without running any", "kscout"};
  app.set_version_flag("--version", [] { return "kscout " + build_line(); });
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  for (const auto& info : kVerbs) {
    CLI::App* verb = app.add_subcommand(std::string(info.name), std::string(info.summary));
    const auto found = std::ranges::find(verbs, info.name, &VerbSetup::name);
    if (found != verbs.end()) found->setup(*verb);
  }
  // Called when all of the line is parsed and checked, before the verb's own callback.
  if (parse_only()) app.parse_complete_callback([] { throw CLI::Success(); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0 && wants_json(argc, argv)) {
      report(Errc::invalid_argument, error.what(), true);
      return 2;
    }
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace

int run_program(Program program, std::span<const VerbSetup> verbs, int argc, char** argv) {
  try {
    if (refuse_unknown_verb(argc, argv)) return 2;
    const VerbInfo* verb = argc > 1 ? find_verb(argv[1]) : nullptr;
    if (program == Program::kscout && verb && verb->program == Program::lab) return start_sibling(argv);
    return parse_and_run(verbs, argc, argv);
  } catch (const CheckFailed&) {
    return 1;
  } catch (const NeedsLab&) {
    return start_sibling(argv);
  } catch (const Error& error) {
    report(error.code(), error.what(), wants_json(argc, argv));
    return exit_code(error.code());
  } catch (const std::exception& error) {
    report(Errc::device_failure, error.what(), wants_json(argc, argv));
    return 4;
  }
}

}  // namespace kscout::cli
