// What a dataset says of one problem: needs Arrow, so only kscout-lab has it.
#include <algorithm>

#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "explain.h"

namespace kscout::cli {

Truth read_truth(const std::string& file, const Problem& problem) {
  const MeasurementTable one =
      table_of_problems(read_dataset(file), [&](const Problem& measured) { return measured == problem; });
  Truth truth;
  for (const auto& rows : counted_rows(one)) {
    for (const CountedRow& row : rows) truth.rows.emplace_back(one.configs[row.config], row.measured);
  }
  return truth;
}

}  // namespace kscout::cli
