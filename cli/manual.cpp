#include "manual.h"

#include <algorithm>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/version.h>

#include "core/fail.h"
#include "core/names.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

using Words = std::vector<std::string>;

std::map<const CLI::Option*, Words>& offered_words() {
  static std::map<const CLI::Option*, Words> words;
  return words;
}

/// The options that --help shows, or the positional arguments.
std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  return app.get_options([positional](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == positional;
  });
}

Words long_names(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : shown_options(app, false)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Words part_names(const CLI::App& app) {
  Words names;
  for (const CLI::App* part : app.get_subcommands({})) names.push_back(part->get_name());
  return names;
}

const CLI::App* part_of(const CLI::App& app, const std::string& name) {
  const auto parts = app.get_subcommands([&](const CLI::App* part) { return part->get_name() == name; });
  return parts.empty() ? nullptr : parts.front();
}

const CLI::Option* option_of(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options()) {
    if (name.starts_with("--") && option->check_lname(name.substr(2))) return option;
  }
  return nullptr;
}

/// A verb or part of a verb, with its full name.
struct Place {
  const CLI::App* app;
  std::string name;
};
Place place_of(const CLI::App& program, std::span<const std::string> words) {
  Place place{&program, program.get_name()};
  for (const std::string& word : words) {
    const CLI::App* const part = part_of(*place.app, word);
    if (!part) break;
    place = {part, place.name + " " + word};
  }
  return place;
}

/// The last verb or part on the command line.
Place parsed_place(const CLI::App& program) {
  Place place{&program, program.get_name()};
  for (auto parts = program.get_subcommands(); !parts.empty(); parts = place.app->get_subcommands())
    place = {parts.front(), place.name + " " + parts.front()->get_name()};
  return place;
}

// ----------------------------------------------------------------------------------------- man pages

/// Escapes text for roff: hyphens stay hyphens, and no line starts a roff request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\e";
    if (c == '-') out += "\\-";
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c != '\\' && c != '-') out += c;
  }
  return out;
}

void append_options(std::string& page, const CLI::App& app) {
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : shown_options(app, positional)) {
      std::string head = "\\fB" + roff(option->get_name(positional, !positional)) + "\\fR";
      if (option->get_items_expected_max() > 0) {
        if (!positional) head += " \\fI" + roff(option->get_type_name()) + "\\fR";
        if (!option->get_default_str().empty()) head += roff(" [" + option->get_default_str() + "]");
      }
      if (option->get_required()) head += " (required)";
      page += fmt::format(".TP\n{}\n{}\n", head, roff(option->get_description()));
    }
  }
}

std::string synopsis(const CLI::App& app, const std::string& name) {
  std::string line = fmt::format(".B {}\n", roff(name));
  if (!shown_options(app, false).empty()) line += "[OPTIONS]\n";
  for (const CLI::Option* option : shown_options(app, true)) {
    const std::string shown = option->get_name(true);
    line += roff(option->get_required() ? shown : "[" + shown + "]") + "\n";
  }
  return line;
}

}  // namespace

std::string man_page(const CLI::App& program, const CLI::App* verb) {
  const CLI::App& app = verb ? *verb : program;
  const std::string title = program.get_name() + (verb ? "-" + verb->get_name() : "");
  const std::string command = program.get_name() + (verb ? " " + verb->get_name() : "");
  std::string upper = title;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string page =
      fmt::format(".TH \"{}\" 1 \"\" \"KernelScout {}\" \"KernelScout\"\n", roff(upper), KSCOUT_VERSION);
  page += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", roff(title), roff(app.get_description()));
  const auto parts = app.get_subcommands({});
  if (parts.empty()) {
    page += synopsis(app, command);
  } else if (!verb) {
    page += fmt::format(".B {}\nVERB [OPTIONS]\n", roff(command));
  } else {
    const char* before = "";
    for (const CLI::App* part : parts) {
      page += before + synopsis(*part, command + " " + part->get_name());
      before = ".br\n";
    }
  }
  if (!verb) {
    page += ".SH VERBS\n";
    for (const CLI::App* part : parts) {
      page += fmt::format(".TP\n\\fB{}\\fR\n{} (see {}\\-{}(1))\n", roff(part->get_name()),
                          roff(part->get_description()), roff(title), roff(part->get_name()));
    }
  }
  page += ".SH OPTIONS\n";
  append_options(page, app);
  if (verb) {
    for (const CLI::App* part : parts) {
      page += fmt::format(".SS {} {}\n{}\n", roff(command), roff(part->get_name()),
                          roff(part->get_description()));
      append_options(page, *part);
    }
  }
  if (!app.get_footer().empty()) page += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", roff(app.get_footer()));
  return page;
}

void offer_words(const CLI::Option* option, std::span<const std::string_view> words) {
  offered_words()[option] = Words(words.begin(), words.end());
}

// ----------------------------------------------------------------------------------------- completion

std::vector<std::string> completions(const CLI::App& program, std::span<const std::string> words) {
  if (words.empty()) return {};
  const std::string& typed = words.back();
  const auto before = words.first(words.size() - 1);
  const Place place = place_of(program, before);
  Words found;
  const CLI::Option* const asked = before.empty() ? nullptr : option_of(*place.app, before.back());
  if (asked && asked->get_items_expected_max() > 0) {
    if (const auto known = offered_words().find(asked); known != offered_words().end()) found = known->second;
  } else if (typed.starts_with("-")) {
    found = long_names(*place.app);
  } else {
    found = part_names(*place.app);
    for (const CLI::Option* option : shown_options(*place.app, true)) {
      if (const auto known = offered_words().find(option); known != offered_words().end())
        found.insert(found.end(), known->second.begin(), known->second.end());
    }
  }
  std::erase_if(found, [&](const std::string& word) { return !word.starts_with(typed); });
  return found;
}

// ----------------------------------------------------------------------------------------- suggestions

std::string unknown_option_message(const CLI::App& program) {
  const auto extras = program.remaining(true);
  if (extras.empty()) return {};
  const Place place = parsed_place(program);
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (word == "--")
    return fmt::format("nothing follows '--' after {}; write the words behind it", place.name);
  if (!word.starts_with("-")) return fmt::format("unexpected word '{}' after {}", word, place.name);
  const Words names = long_names(*place.app);
  std::string message = fmt::format("unknown option '{}' of {}", word, place.name);
  // One hyphen in place of two is a common mistake: '-format'. Other tools write '--model_dir'.
  std::string spelled = word.starts_with("--") ? word : "-" + word;
  std::ranges::replace(spelled, '_', '-');
  auto near = nearest_word(spelled, views(names));
  constexpr std::size_t kShortestStem = 4;  // '--op'
  for (const std::string& name : names) {
    if (!near && name.size() >= kShortestStem && spelled.starts_with(name)) near = name;
  }
  if (near) message += fmt::format("; did you mean '{}'?", *near);
  return message + fmt::format(" (all: {} --help)", place.name);
}

std::string unknown_part_message(const CLI::App& program, std::span<const std::string> words) {
  const Place place = place_of(program, words);
  const auto depth = static_cast<std::size_t>(std::ranges::count(place.name, ' '));
  const Words names = part_names(*place.app);
  if (depth == 0 || depth >= words.size() || names.empty() || words[depth].starts_with("-")) return {};
  return unknown_name_message("part of " + place.name, words[depth], views(names));
}

// ----------------------------------------------------------------------------------------- verbs

namespace {

struct HelpOptions {
  Words words;
  bool man = false;
};

void print_help(const HelpOptions& options, const CLI::App& program, const HasOptions& has_options) {
  if (options.words.empty()) {
    fmt::print("{}", options.man ? man_page(program, nullptr) : program.help());
    return;
  }
  if (!part_of(program, options.words.front())) {
    const Words names = part_names(program);
    throw Error(Errc::invalid_argument, unknown_name_message("verb", options.words.front(), views(names)));
  }
  if (!has_options(options.words.front())) throw NeedsLab{};
  if (const std::string message = unknown_part_message(program, options.words); !message.empty())
    fail(Errc::invalid_argument, "{}", message);
  const Place place = place_of(program, options.words);
  if (options.man && options.words.size() > 1)
    fail(Errc::invalid_argument, "--man: the page of '{}' holds all its parts; leave '{}' out",
         options.words[0], options.words[1]);
  if (options.man) {
    fmt::print("{}", man_page(program, place.app));
  } else {
    fmt::print("{}", place.app->help(place.name.substr(0, place.name.rfind(' '))));
  }
}

constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

constexpr std::string_view kScripts[] = {
    R"(# Completion of kscout for bash. Load it with: source <(kscout completion bash)
_kscout() {
  local IFS=$'\n'
  local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  COMPREPLY=($("${COMP_WORDS[0]}" completion --candidates "${words[@]}" 2>/dev/null))
}
complete -o bashdefault -o default -F _kscout kscout
)",
    R"(#compdef kscout
# Completion of kscout for zsh: a file _kscout in a folder of $fpath, or: source <(kscout completion zsh)
_kscout() {
  local -a found
  found=("${(@f)$("${words[1]}" completion --candidates "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then
    compadd -- "${found[@]}"
  else
    _files
  fi
}
if [[ "${funcstack[1]}" == _kscout ]]; then
  _kscout "$@"
else
  compdef _kscout kscout
fi
)",
    R"(# Completion of kscout for fish. Load it with: kscout completion fish | source
function __kscout_candidates
  set -l typed (commandline -opc)
  set -l current (commandline -ct)
  kscout completion --candidates $typed[2..-1] "$current" 2>/dev/null
end
complete -c kscout -a '(__kscout_candidates)'
)"};

}  // namespace

void add_help_verb(CLI::App& verb, const CLI::App& program, HasOptions has_options) {
  const auto options = std::make_shared<HelpOptions>();
  CLI::Option* const words =
      verb.add_option("verb", options->words, "the verb, and a part of it (dataset merge)");
  const Words names = part_names(program);
  offer_words(words, views(names));
  verb.add_flag("--man", options->man, "the man page, as roff");
  verb.footer(
      "examples\n"
      "  kscout help run\n"
      "  kscout help dataset merge\n"
      "  kscout help --man sweep | man -l -\n\n"
      "exit status: 0 done, 2 wrong arguments, 4 the verb needs kscout-lab, which is not there");
  verb.callback([options, &program, has_options] { print_help(*options, program, has_options); });
}

void add_completion_verb(CLI::App& verb) {
  const auto shell = std::make_shared<std::string>();
  CLI::Option* const option = verb.add_option("shell", *shell, "bash|zsh|fish")->required();
  option->check([](const std::string& text) {
    index_of_word("shell", text, kShells);
    return std::string();
  });
  offer_words(option, kShells);
  verb.footer(
      "The script asks the program what may stand at the cursor, so it never needs to be written again.\n\n"
      "examples\n"
      "  source <(kscout completion bash)\n"
      "  kscout completion zsh > ~/.zfunc/_kscout\n"
      "  kscout completion fish > ~/.config/fish/completions/kscout.fish\n\n"
      "exit status: 0 done, 2 wrong arguments");
  verb.callback([shell] { fmt::print("{}", kScripts[index_of_word("shell", *shell, kShells)]); });
}

}  // namespace kscout::cli
