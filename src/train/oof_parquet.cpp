#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "dataset/parquet.h"
#include "op/operation.h"
#include "train/row_columns.h"
#include "train/train.h"

namespace kscout {

namespace {

void add_columns(RowColumns& columns, const TrainingResult& result) {
  const TrainingSet& set = result.set;
  std::vector<std::uint32_t> problem_of;  // of each row of the group
  for (std::size_t p = columns.first_problem(); p < columns.end_problem(); ++p)
    problem_of.insert(problem_of.end(), set.first_row[p + 1] - set.first_row[p],
                      static_cast<std::uint32_t>(p));
  const auto position = [&](std::size_t r) { return problem_of[r - columns.first_row()]; };
  const auto problem = [&](std::size_t r) -> const Problem& { return set.problems[position(r)]; };
  const Provider& names = provider(result.model.provider());
  const auto fields = set.problems.front().space().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const ProblemField& field = fields[i];
    const auto add = [&](auto&& value) {
      columns.add(std::string(field.name), field.unit, field.help, value);
    };
    switch (field.type) {
      case FieldType::word:
      case FieldType::list:
        add([&](std::size_t r) { return value_text(problem(r), i); });
        break;
      case FieldType::flag:
        add([&](std::size_t r) { return problem(r)[i] != 0; });
        break;
      case FieldType::real:
        add([&](std::size_t r) { return number_of(field, problem(r)[i]); });
        break;
      case FieldType::whole:
        add([&](std::size_t r) { return problem(r)[i]; });
        break;
    }
  }
  columns.add("config", "1", "the kernel's name", [&](std::size_t r) {
    return names.print(signature_of(problem(r)), set.configs[set.rows[r].config]);
  });
  columns.add("fold", "1", "fold of cross-validation that held the problem out",
              [&](std::size_t r) { return std::int64_t{result.fold_of[position(r)]}; });
  columns.add("time_us", "us", "measured time", [&](std::size_t r) { return set.rows[r].time_us; });
  columns.add("tflops", "TFLOPS", "measured speed",
              [&](std::size_t r) { return set.tflops(set.problem_of(r), r); });
  columns.add("raced", "1", "pruned early: the time is coarse",
              [&](std::size_t r) { return set.rows[r].pruned_early != 0; });
  for (const TrainedTarget& target : result.targets) {
    columns.add(fmt::format("oof_pred_{}", word(target.target)), "1",
                "prediction by a model that did not see the problem",
                [&](std::size_t r) { return target.validation.out_of_fold[r]; });
  }
}

}  // namespace

void write_oof_parquet(const std::filesystem::path& file, const TrainingResult& result) {
  write_rows(file, result.set, [&](RowColumns& columns) { add_columns(columns, result); });
}

namespace {

/// The best results of a problem among the rows read so far.
struct BestSeen {
  double predicted = 0, picked_us = 0, best_us = 0;
};

}  // namespace

std::vector<ShapeEfficiency> oof_efficiencies(const std::filesystem::path& file) {
  std::vector<std::string> names;
  std::size_t time = 0, prediction = 0;
  const ProblemSpace& space = problem_space(Op::conv_fwd);
  std::vector<std::optional<std::size_t>> columns;  // of the problem's fields
  bool lower_is_better = false;
  std::unordered_map<Problem, BestSeen> seen;
  std::vector<Problem> order;
  const auto position = [&](std::string_view name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      fail(Errc::corrupt_data, "{}: column '{}' is missing; it is no oof_predictions.parquet of {}",
           file.string(), name, operation(Op::conv_fwd).plural);
    return static_cast<std::size_t>(found - names.begin());
  };
  read_parquet_as_text(
      file.string(), file.filename().string(),
      [&](const ParquetHeader& header) {
        names = header.names;
        time = position("time_us");
        for (const ProblemField& field : space.fields) {
          const bool lacks =
              is_later_column(field.name) && std::ranges::find(names, field.name) == names.end();
          columns.push_back(lacks ? std::nullopt : std::optional(position(field.name)));
        }
        const auto of = std::ranges::find_if(names, [](const auto& n) { return n.starts_with("oof_pred_"); });
        prediction =
            of == names.end() ? position("oof_pred_relative") : static_cast<std::size_t>(of - names.begin());
        lower_is_better = names[prediction] == "oof_pred_latency";
        return std::vector<bool>(names.size(), true);
      },
      [&](const std::vector<std::string_view>& cells) {
        const auto op = static_cast<Op>(parse_value(space.fields[0], cells[*columns[0]]));
        Problem problem = operation(op).make(op);
        for (std::size_t i = 1; i < columns.size(); ++i) {
          if (columns[i]) problem.set(i, parse_value(space.fields[i], cells[*columns[i]]));
        }
        const auto us = parse_field<double>("time_us", cells[time]);
        const double sign = lower_is_better ? -1 : 1;
        const double predicted = sign * parse_field<double>("prediction", cells[prediction]);
        const auto [place, is_new] = seen.try_emplace(problem, BestSeen{predicted, us, us});
        if (is_new) order.push_back(problem);
        BestSeen& best = place->second;
        if (predicted > best.predicted) best.predicted = predicted, best.picked_us = us;
        best.best_us = std::min(best.best_us, us);
      });
  std::vector<ShapeEfficiency> result;
  for (const Problem& problem : order) {
    const BestSeen& best = seen.at(problem);
    result.push_back({problem.conv(), best.best_us / best.picked_us});
  }
  return result;
}

}  // namespace kscout
