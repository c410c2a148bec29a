#pragma once
/// \file
/// Generates help, man pages, command-line completion, and suggestions for mistyped options from the options
/// of the verbs.
///
///     add_help_verb(*app.get_subcommand("help"), app, has_options);
///     for (const std::string& word : completions(app, {"run", "--back"})) std::puts(word.c_str());
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kscout::cli {

/// Sets the words that completion offers for an option.
void offer_words(const CLI::Option* option, std::span<const std::string_view> words);

/// Whether this program has the options of a verb; otherwise kscout-lab has them.
using HasOptions = std::function<bool(std::string_view verb)>;

/// Adds `kscout help [--man] [VERB]`, which throws NeedsLab for a verb of kscout-lab.
void add_help_verb(CLI::App& verb, const CLI::App& program, HasOptions has_options);
/// Adds `kscout completion bash`, which prints a script. The script calls the program with --candidates and
/// the words so far.
void add_completion_verb(CLI::App& verb);

/// Returns the words that complete the last of `words` (which may be empty): verbs, parts of verbs, options,
/// values. Returns none where a file or a free value is expected.
std::vector<std::string> completions(const CLI::App& program, std::span<const std::string> words);

/// "unknown option '--fromat' of kscout run; did you mean '--format'?", for the first word that the parser
/// rejected; empty when there is none.
std::string unknown_option_message(const CLI::App& program);

/// "unknown part 'mrege' of kscout dataset; did you mean 'merge'?"; empty when all `words` are known.
std::string unknown_part_message(const CLI::App& program, std::span<const std::string> words);

/// The man page of the program, or of a verb, as roff.
std::string man_page(const CLI::App& program, const CLI::App* verb);

}  // namespace kscout::cli
