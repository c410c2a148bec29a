#pragma once
/// \file
/// What the program tells about itself, all from the options of its verbs: help, man pages, completion of
/// command lines, suggestions for mistyped options.
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

/// The words that an option takes, for completion.
void offer_words(const CLI::Option* option, std::span<const std::string_view> words);

/// Whether this program knows the options of a verb; else its sibling does.
using HasOptions = std::function<bool(std::string_view verb)>;

/// `kscout help [--man] [VERB]`: throws NeedsLab for a verb of the sibling.
void add_help_verb(CLI::App& verb, const CLI::App& program, HasOptions has_options);
/// `kscout completion bash`: a script that asks the program, by --candidates and the words so far.
void add_completion_verb(CLI::App& verb);

/// Words that may stand where the last of `words` is being typed (empty: nothing of it yet), those that begin
/// with it: verbs, parts of verbs, options, values. Empty where a file or a free value is expected.
std::vector<std::string> completions(const CLI::App& program, std::span<const std::string> words);

/// "unknown option '--fromat' of kscout run; did you mean '--format'?" for the first word that the parser did
/// not take; empty when it took all.
std::string unknown_option_message(const CLI::App& program);

/// "unknown part 'mrege' of kscout dataset; did you mean 'merge'?"; empty when `words` name none.
std::string unknown_part_message(const CLI::App& program, std::span<const std::string> words);

/// The man page of the program, or of a verb, as roff.
std::string man_page(const CLI::App& program, const CLI::App* verb);

}  // namespace kscout::cli
