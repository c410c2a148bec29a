#pragma once
/// \file
/// Reports what `kscout tune` did.
#include <string>

#include "tune/tune.h"

namespace kscout::cli {

/// Prints a dozen lines for people; the last is the command that prints the rest.
void print_tuned(const TunedOp& done, const TuneRequest& request);
/// The evaluation, and whether the model was installed, as JSON.
std::string tuned_json(const TunedOp& done);

}  // namespace kscout::cli
