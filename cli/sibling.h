#pragma once
/// \file
/// Replaces this program by kscout-lab, and helps to start other programs.
///
///     return start_sibling(argv);
#include <string>
#include <string_view>

namespace kscout::cli {

/// The interpreter named by KSCOUT_PYTHON, else python3.
std::string active_python();

/// Quotes a word for a shell where needed.
std::string shell_word(std::string_view text);

/// Replaces this process by kscout-lab in the same folder, with the same arguments. Where the loader would
/// not find the libraries of Arrow and LightGBM, those in the wheels of active_python() are used. Returns
/// only on failure: the exit code, after one message on stderr.
int start_sibling(char** argv);

}  // namespace kscout::cli
