#pragma once
/// \file
/// Reports what `kscout tune` did.
#include <filesystem>
#include <string>

#include "tune/tune.h"

namespace kscout::cli {

/// Writes the report of the new model into its folder, and returns its path. Empty, after a message, when it
/// cannot be written: the model is whole without it.
std::filesystem::path write_tune_report(const TunedOp& done);
/// Prints a dozen lines for people; the last is the command that prints the rest. `report`: of
/// write_tune_report().
void print_tuned(const TunedOp& done, const TuneRequest& request, const std::filesystem::path& report);
/// Warns on standard error when the machine was busy while this tune measured.
void warn_of_load(const TunedOp& done);
/// The evaluation, and whether the model was installed, as JSON.
std::string tuned_json(const TunedOp& done, const std::filesystem::path& report);

}  // namespace kscout::cli
