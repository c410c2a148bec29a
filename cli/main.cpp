#include <array>

#include "verbs.h"

namespace kscout::cli {
namespace {
// (name, setup) of the verbs that live here, in the order of kVerbs.
constexpr std::array<VerbSetup, 0> kSetups = {};
}  // namespace
}  // namespace kscout::cli

int main(int argc, char** argv) {
  return kscout::cli::run_program(kscout::cli::Program::kscout, kscout::cli::kSetups, argc, argv);
}
