#pragma once
/// \file
/// Keeps texts from elsewhere from controlling the terminal: files, kernel libraries and command lines may
/// hold escape sequences.
///
///     print_safely();                        // at the start of a program
///     fmt::print("{}\n", text_of_a_file);    // prints "\u001b[2J" in place of a cleared screen
#include <string_view>

namespace kscout::cli {

/// From now on, all that goes to stdout and stderr passes printable() (core/printable.h). Files, also "-" of
/// --out, and programs that this one starts are not affected.
void print_safely();

/// Writes control sequences of our own to stderr.
void write_control(std::string_view sequence);

}  // namespace kscout::cli
