#include "train/training_matrix.h"

#include <set>
#include <string>
#include <vector>

#include <kscout/provider.h>

#include "core/fail.h"
#include "train/cross_validate.h"
#include "train/row_columns.h"

namespace kscout {

void write_training_matrix(const std::filesystem::path& file, const TrainingSet& set, const Schema& schema,
                           const MatrixFolds& folds) {
  std::vector<std::uint32_t> problem_of, rows_per_problem;
  for (std::uint32_t p = 0; p < set.problems.size(); ++p) {
    rows_per_problem.push_back(set.first_row[p + 1] - set.first_row[p]);
    problem_of.insert(problem_of.end(), rows_per_problem.back(), p);
  }
  const auto fold_of = group_k_fold(set.problems, rows_per_problem, folds.folds, folds.by);
  std::vector<std::string> texts;
  for (Problem problem : set.problems) {
    problem.set_weight(1);
    texts.push_back(print(problem));
  }
  std::vector<std::vector<float>> labels;
  for (std::size_t t = 0; t < EnumWords<Target>::words.size(); ++t)
    labels.push_back(labels_of(set, static_cast<Target>(t)));
  const std::vector<float> weights = weights_of(set, TrainParameters{}.near_best_weight);
  write_rows(file, set, [&](RowColumns& columns) {
    std::set<std::string> names;
    const auto add = [&](const std::string& name, std::string_view unit, std::string_view help,
                         auto&& value) {
      if (!names.insert(name).second)
        fail(Errc::invalid_argument, "feature '{}' has the name of another column; rename it in the schema",
             name);
      columns.add(name, unit, help, value);
    };
    add("problem", "1", "one-line form", [&](std::size_t r) { return texts[problem_of[r]]; });
    add("config", "1", "the kernel's name", [&](std::size_t r) {
      const KernelConfig& config = set.configs[set.rows[r].config];
      return provider(config.space->provider).print(signature_of(set.problems[problem_of[r]]), config);
    });
    add("fold", "1", "fold of cross-validation that holds the problem out",
        [&](std::size_t r) { return std::int64_t{fold_of[problem_of[r]]}; });
    add("time_us", "us", "measured time", [&](std::size_t r) { return set.rows[r].time_us; });
    add("tflops", "TFLOPS", "measured speed; 0: the run failed",
        [&](std::size_t r) { return set.tflops(set.problem_of(r), r); });
    add("raced", "1", "pruned early: the time is coarse",
        [&](std::size_t r) { return set.rows[r].pruned_early != 0; });
    add("calls", "calls", "the problem's weight",
        [&](std::size_t r) { return set.problems[problem_of[r]].weight(); });
    add("row_weight", "1", "weight in the training", [&](std::size_t r) { return double{weights[r]}; });
    for (std::size_t t = 0; t < EnumWords<Target>::words.size(); ++t) {
      add(fmt::format("label_{}", word(static_cast<Target>(t))), "1", "what a model of this target learns",
          [&](std::size_t r) { return double{labels[t][r]}; });
    }
    std::vector<double> matrix;
    for (std::size_t p = columns.first_problem(); p < columns.end_problem(); ++p) {
      const std::vector<double> values = set.features_of(p);
      matrix.insert(matrix.end(), values.begin(), values.end());
    }
    for (std::size_t f = 0; f < set.features; ++f) {
      const Feature& feature = schema.features()[f];
      add(feature.id, feature.unit, feature.meaning,
          [&](std::size_t r) { return matrix[(r - columns.first_row()) * set.features + f]; });
    }
  });
}

}  // namespace kscout
