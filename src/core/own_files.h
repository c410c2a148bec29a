#pragma once
/// \file
/// Finds the files that this code runs from, so that other files of the installation can be looked up beside
/// them.
///
///     const std::filesystem::path worker = program_file().parent_path() / "kscout-worker";
#include <filesystem>

namespace kscout {

/// The running program; empty when the system does not tell.
std::filesystem::path program_file();

/// The file that holds this code: a shared library (libkscout.so, the Python extension), else the program.
/// Links are resolved; empty when the file is gone.
std::filesystem::path library_file();

}  // namespace kscout
