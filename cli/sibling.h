#pragma once
/// \file
/// Starts kscout-lab in the place of this program; what other programs are started with.
///
///     return start_sibling(argv);
#include <string>
#include <string_view>

namespace kscout::cli {

/// KSCOUT_PYTHON, else python3.
std::string active_python();

/// A word of a command line as a shell takes it: quoted where that is needed.
std::string shell_word(std::string_view text);

/// Replaces this process by kscout-lab beside it, with the same arguments. Where the loader would not find
/// Arrow's and LightGBM's libraries, those of the active Python's wheels are taken: of KSCOUT_PYTHON, else of
/// python3. Returns only when that fails, after one message on stderr: the exit code.
int start_sibling(char** argv);

}  // namespace kscout::cli
