#pragma once
/// \file
/// Sets up the verb `problems`.
#include <string>
#include <vector>

#include "op/conv/conv_sets.h"

namespace CLI {
class App;
}

namespace kscout::cli {

/// Reads oof_predictions.parquet of a model of convolutions.
using ReadEfficiencies = std::vector<ShapeEfficiency> (*)(const std::string& file);

/// `read` reads the efficiencies that --top-up needs. Without it, --top-up starts kscout-lab.
void setup_problems(CLI::App& verb, ReadEfficiencies read);

}  // namespace kscout::cli
