#pragma once
/// \file
/// Sets up the verb `features`.
#include <cstdint>
#include <string>
#include <vector>

#include "op/operation.h"

namespace CLI {
class App;
}

namespace kscout::cli {

/// What `features --data` writes.
struct MatrixRequest {
  std::vector<std::string> data;  ///< datasets
  std::string out, schema;        ///< file; empty: the schema that models are trained with
  std::uint32_t folds = 5;
  SplitBy fold_by = SplitBy::sizes;
};
/// Writes the matrix that a training reads.
using WriteMatrix = void (*)(const MatrixRequest& request);

/// The `write` of kscout-lab.
void write_matrix(const MatrixRequest& request);

/// Without `write`, --data starts kscout-lab.
void setup_features(CLI::App& verb, WriteMatrix write);

}  // namespace kscout::cli
