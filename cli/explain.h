#pragma once
/// \file
/// What `kscout predict --explain` prints, and where it finds out what was measured.
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

/// What was measured of one problem: each config's row that counts.
struct MeasuredRows {
  std::vector<std::pair<KernelConfig, Measurement>> rows;
  /// Time of the fastest that ended well; NaN when none did.
  double best_us() const noexcept;
  const Measurement* of(const KernelConfig& config) const noexcept;
};
/// Reads a dataset and keeps what it says of one problem.
using ReadMeasuredRows = MeasuredRows (*)(const std::string& file, const Problem& problem);

/// In kscout-lab: read_dataset.
MeasuredRows read_measured_rows(const std::string& file, const Problem& problem);

/// The verb; without `read`, --data starts kscout-lab.
void setup_predict(CLI::App& verb, ReadMeasuredRows read);

struct ExplainRequest {
  Problem problem;
  std::vector<KernelConfig> asked = {};  ///< configs whose place in the ranking is wanted
  std::size_t top = 5;
  By by = By::best;
  int threads = 0;                  ///< the limit that the selector was made with; 0: none of its own
  MeasuredRows measured_rows = {};  ///< no rows: nothing was measured
  bool has_measured = false;        ///< --data was given
};

/// Prints why `selector` ranks as it does; `family` asks for what it chooses from when no model answers.
/// Formats: text, json.
void print_explanation(const Selector& selector, const FamilyRequest& family, const ExplainRequest& request,
                       Format format);

}  // namespace kscout::cli
