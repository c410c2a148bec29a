#pragma once
/// \file
/// Handles the output files that a verb's options name, and standard output.
///
///     add_out_option(verb, "--out", options->out, "write the evaluation as JSON");
///     write_out(options.out, text);  // a file, a device, a pipe, or standard output for "-"
///
/// When an option's value is "-", the verb's own report goes to stderr, so standard output holds only the
/// file.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kscout::cli {

/// Adds an option that names a file to write.
CLI::Option* add_out_option(CLI::App& verb, const std::string& name, std::string& file,
                            const std::string& help);

/// Returns the file that an option's value names; empty when the value means something else, such as a
/// problem set.
using FileOfValue = std::string (*)(const std::string& value);

/// Marks an option that names files to read, in a verb that also writes files: they must not be overwritten.
/// Without `file_of` every value is a file. --rules needs no mark.
CLI::Option* reads_file(CLI::Option* option, FileOfValue file_of = nullptr);

/// Checks the given options before any work: folders exist, no two options name one file, no written file is
/// also read. Throws invalid_argument; not_found or device_failure for a folder.
void prepare_outputs(const CLI::App& program);

/// Writes the file that an option of add_out_option() names; "-" is standard output. Throws device_failure.
void write_out(const std::string& file, std::string_view bytes);

/// Writes files into a new or empty folder. Throws invalid_argument when the folder has content,
/// device_failure.
void write_new_folder(const std::string& folder,
                      const std::vector<std::pair<std::string, std::string>>& files);

/// Opens standard streams that the caller closed, so that no file gets their descriptor numbers.
void open_standard_streams();

/// Restores standard output; call it before starting another program.
void release_stdout();

/// Throws device_failure when printed output could not be written.
void check_stdout();

}  // namespace kscout::cli
