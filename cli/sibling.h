#pragma once
/// \file
/// Starts kscout-lab in the place of this program.
///
///     return start_sibling(argv);

namespace kscout::cli {

/// Replaces this process by kscout-lab beside it, with the same arguments. Where the loader would not find
/// Arrow's and LightGBM's libraries, those of the active Python's wheels are taken: of KSCOUT_PYTHON, else of
/// python3. Returns only when that fails, after one message on stderr: the exit code.
int start_sibling(char** argv);

}  // namespace kscout::cli
