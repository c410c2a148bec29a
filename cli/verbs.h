#pragma once
/// \file
/// Lists the verbs of the program and declares how they run: one table, one setup function each.
///
/// A verb's file defines `void setup_NAME(CLI::App& verb)`: it adds the verb's options and a callback that
/// does the work. Results go to stdout, messages to stderr. The callback throws Error for failures and
/// CheckFailed for exit code 1.
#include <span>
#include <string_view>

namespace CLI {
class App;
}

namespace kscout::cli {

/// The program that contains a verb: `kscout` itself, or `kscout-lab` (Arrow, LightGBM), which is
/// started on demand.
enum class Program { kscout, lab };

struct VerbInfo {
  std::string_view name;
  std::string_view summary;
  Program program;
};

/// Every verb, in the order of a typical workflow.
inline constexpr VerbInfo kVerbs[] = {
    {"tune", "do everything for this machine: sweep a family, train, evaluate and install a model",
     Program::lab},
    {"kernels", "list, count, filter, export the configs of a family", Program::kscout},
    {"audit", "run a vendor library's own suggestions; report wrong results", Program::kscout},
    {"problems", "list, generate, describe problem sets", Program::kscout},
    {"sweep", "measure configs on problems", Program::kscout},
    {"import", "import measurements of other tools into a dataset", Program::lab},
    {"dataset", "describe, check, merge, diff, export measurements in Parquet", Program::lab},
    {"prune", "find the smallest rule set that keeps a share of the best measured speed", Program::lab},
    {"features", "show the feature catalogue, or one row; write the matrix that training reads",
     Program::kscout},
    {"train", "train a model from datasets", Program::lab},
    {"evaluate", "evaluate a model against the oracle of a dataset", Program::lab},
    {"report", "write a page with plots of a model, a dataset or a sweep", Program::lab},
    {"check", "time recorded problems; say whether a model still holds on this machine", Program::kscout},
    {"validate", "validate a model on an oracle table, this machine, or its training shapes", Program::lab},
    {"compare", "compare two models or tables of picks, with acceptance criteria", Program::lab},
    {"predict", "rank the configs of a problem or a file of problems", Program::kscout},
    {"search", "find the best config of a problem, by timing few or by a model", Program::kscout},
    {"classes", "find the configs of a weight that give equal bits whatever M is", Program::kscout},
    {"run", "select, execute, verify and time problems", Program::kscout},
    {"exec", "start a program; keep wrong results from it, run its products faster", Program::kscout},
    {"generate", "generate and build sources of kernel libraries", Program::kscout},
    {"export", "export a model as a C++ header, a lookup table, LightGBM text or JSON", Program::kscout},
    {"db", "list, export, import, prune the decisions that applications found by timing", Program::kscout},
    {"hardware", "show the detected devices and the device presets", Program::kscout},
    {"help", "show the help or the man page of a verb", Program::kscout},
    {"completion", "print a completion script for bash, zsh or fish", Program::kscout},
};

/// A verb and its setup function.
struct VerbSetup {
  std::string_view name;
  void (*setup)(CLI::App& verb);
};

/// Parses the command line, runs the verb, turns exceptions into messages and exit codes (0 done, 1 check
/// failed, 2 wrong arguments, 3 unsupported here, 4 file or device failure). With KSCOUT_PARSE_ONLY=1 in the
/// environment the verb does nothing: exit code 0 or 2 reports whether the command line is valid.
int run_program(Program program, std::span<const VerbSetup> verbs, int argc, char** argv);

/// Thrown by a verb whose check or criterion failed: exit code 1. The results are already on stdout.
struct CheckFailed {};

/// Thrown by a verb of kscout when a request needs kscout-lab, which then runs the same command.
struct NeedsLab {};

}  // namespace kscout::cli
