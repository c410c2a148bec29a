#pragma once
/// \file
/// Sets up the verb `problems`, and reads its sources other than one set or one list.
#include <optional>
#include <string>
#include <vector>

#include "op/conv/conv_sets.h"
#include "op/problem_sets.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kscout::cli {

/// Reads oof_predictions.parquet of a model of convolutions.
using ReadEfficiencies = std::vector<ShapeEfficiency> (*)(const std::string& file);

/// `read` reads the efficiencies that --top-up needs. Without it, --top-up starts kscout-lab.
void setup_problems(CLI::App& verb, ReadEfficiencies read);

/// Problems to choose from and print.
struct ProblemList {
  std::string option, source;  ///< "--file", "shapes.txt"
  ProblemsByOperation problems;
  bool complete = false;  ///< --op and --count have no further effect
};

/// The options for logs, for files of other tools, and for what is derived from several sets or a model.
class ProblemSources {
 public:
  /// Adds --op to --density. The sources exclude each other and `set` and `file`; a log excludes `dtype`.
  void add_to(CLI::App& verb, ProblemSetRequest& request, CLI::Option* set, CLI::Option* file,
              CLI::Option* dtype);
  /// The problems of the source that was given; nothing without one. Reports on stderr what is left out.
  std::optional<ProblemList> list(const ProblemSetRequest& request, ReadEfficiencies read) const;

 private:
  const CLI::Option* dtype_ = nullptr;
  std::string miopen_, tunableop_, top_up_;  ///< files
  std::vector<std::string> logs_;            ///< files
  std::vector<std::string> merge_;           ///< files and sets
  TopUpRequest wanted_;
  double below_percent_ = 90;
};

/// Throws invalid_argument for the value of --op where the operation has no such direction.
void check_op(const Operation& of, std::optional<Op> op);

/// Reads a set or a file of problems of one operation.
std::vector<Problem> problems_of_source(const Operation& of, const std::string& source, DType dtype);

}  // namespace kscout::cli
