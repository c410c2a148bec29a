#pragma once
/// \file
/// Files that a verb writes, named by its options, and standard output.
///
///     add_out_option(verb, "--out", options->out, "write the evaluation as JSON");
///     write_out(options.out, text);  // a file, a device, a pipe, or standard output for "-"
///
/// Where an option says "-", the verb's own report goes to stderr: standard output holds the file and nothing
/// else.
#include <string>
#include <string_view>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kscout::cli {

/// Adds an option that names a file to write.
CLI::Option* add_out_option(CLI::App& verb, const std::string& name, std::string& file,
                            const std::string& help);

/// The file that an option's value names; empty when it names something else, such as a problem set.
using FileOfValue = std::string (*)(const std::string& value);

/// Marks an option that names files to read, in a verb that writes others: none of them may be overwritten.
/// Without `file_of` every value is a file. --rules needs no mark.
CLI::Option* reads_file(CLI::Option* option, FileOfValue file_of = nullptr);

/// Checks the options that were given before any work: the folders exist, no two options name one file, none
/// names a file that the verb reads. Throws invalid_argument; not_found or device_failure for a folder.
void prepare_outputs(const CLI::App& program);

/// Writes a file that an option of add_out_option names; "-" is standard output. Throws device_failure.
void write_out(const std::string& file, std::string_view bytes);

/// Opens standard streams that the caller closed, so that no file takes their place.
void open_standard_streams();

/// Gives standard output back to the report; for whoever starts another program.
void release_stdout();

/// Throws device_failure when something that was printed did not arrive.
void check_stdout();

}  // namespace kscout::cli
