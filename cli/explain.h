#pragma once
/// \file
/// Prints the explanation of `kscout predict --explain`, and reads the measurements for it.
#include <string>
#include <utility>
#include <vector>

#include <kscout/family.h>
#include <kscout/measurement.h>
#include <kscout/selector.h>

#include "table.h"

namespace CLI {
class App;
}

namespace kscout::cli {

/// Measurements of one problem: the final row of each config.
struct MeasuredRows {
  std::vector<std::pair<KernelConfig, Measurement>> rows;
  /// Time of the fastest ok row; NaN when there is none.
  double best_us() const noexcept;
  const Measurement* of(const KernelConfig& config) const noexcept;
};
/// Reads the rows of one problem from a dataset.
using ReadMeasuredRows = MeasuredRows (*)(const std::string& file, const Problem& problem);

/// The `read` of kscout-lab: calls read_dataset.
MeasuredRows read_measured_rows(const std::string& file, const Problem& problem);

/// Sets up the verb; without `read`, --data starts kscout-lab.
void setup_predict(CLI::App& verb, ReadMeasuredRows read);

struct ExplainRequest {
  Problem problem;
  std::vector<KernelConfig> asked = {};  ///< configs to explain besides the first ones
  std::size_t top = 5;
  By by = By::best;
  int threads = 0;                  ///< the selector's thread limit; 0: none
  MeasuredRows measured_rows = {};  ///< empty: nothing was measured
  bool has_measured = false;        ///< --data was given
};

/// Prints why `selector` ranks the configs in this order. Without a model, the candidates are the family that
/// `family` requests. Formats: text, json.
void print_explanation(const Selector& selector, const FamilyRequest& family, const ExplainRequest& request,
                       Format format);

}  // namespace kscout::cli
