#pragma once
/// \file
/// Finds the program that a command starts, and checks that the loader preloads a library into it.
///
///     const std::filesystem::path file = find_program("python3");
///     check_preloadable(file);        // throws unsupported for a static or setuid program
#include <filesystem>
#include <string>

namespace kscout::cli {

/// The file that execvp() starts: the name itself when it has a slash, else the first executable file of that
/// name on PATH. Throws not_found; unsupported for a file that may not be executed.
std::filesystem::path find_program(const std::string& name);

/// Throws unsupported for a program that the loader starts without LD_PRELOAD: one that is linked statically,
/// for another kind of processor or another C library, or that gains rights (setuid, setgid, capabilities).
/// For a script the interpreter of its first line is checked.
void check_preloadable(const std::filesystem::path& program);

}  // namespace kscout::cli
