#pragma once
/// \file
/// Declares the verb that replaces kscout by another program with a library under it.
namespace CLI {
class App;
}

namespace kscout::cli {

/// Keeps the words behind `-- PROGRAM` of verb exec, and returns the number of words before them, which the
/// parser gets. Otherwise returns argc.
int take_program_arguments(int argc, char** argv);

void setup_exec(CLI::App& verb);

}  // namespace kscout::cli
