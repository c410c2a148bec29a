// Writes the matrix that a training reads: `kscout features --data`.
#include "feature_matrix.h"

#include <fmt/format.h>

#include "core/fail.h"
#include "dataset/compact_table.h"
#include "train/families.h"
#include "train/training_matrix.h"

namespace kscout::cli {

void write_matrix(const MatrixRequest& request) {
  std::vector<CompactTable> tables;
  for (const std::string& file : request.data) tables.push_back(read_compact({{file}}));
  if (!in_one_space(tables))
    fail(Errc::invalid_argument,
         "--data: the datasets have kernels of several providers; write one file for each");
  const CompactTable& first = tables.front();
  if (first.problems.empty() || first.configs.empty())
    fail(Errc::invalid_argument, "--data {}: holds no measurement", request.data.front());
  const Op op = first.problems.front().op();
  const Schema schema =
      Schema::named(
          !request.schema.empty()
              ? request.schema
              : std::string(default_schema(op, first.configs.front().space->provider, first.device.kind)))
          .for_op(op);
  const TrainingSet set = make_training_set(tables, families_of(tables), schema);
  write_training_matrix(request.out, set, schema, {.folds = request.folds, .by = request.fold_by});
  fmt::print(stderr, "{}: {} rows of {} problems, {} features of schema {}\n", request.out, set.row_count(),
             set.problems.size(), schema.size(), schema.data().name);
}

}  // namespace kscout::cli
