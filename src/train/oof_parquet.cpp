#include <algorithm>
#include <optional>
#include <unordered_map>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "dataset/columns.h"
#include "dataset/parquet.h"
#include "train/train.h"

namespace kscout {

namespace {

void require(const arrow::Status& status, const std::filesystem::path& file) {
  if (!status.ok()) fail(Errc::device_failure, "{}: {}", file.string(), status.ToString());
}

/// Columns of a table during writing.
class OofColumns {
 public:
  explicit OofColumns(const std::filesystem::path& file) : file_(file) {}

  /// Adds one value per row: `value(row)` returns a double, an integer, a bool or a text.
  template <class F>
  void add(std::string name, std::size_t rows, F&& value) {
    using V = std::remove_cvref_t<decltype(value(std::size_t{0}))>;
    if constexpr (std::is_same_v<V, bool>) {
      fill<arrow::BooleanBuilder>(std::move(name), rows, value);
    } else if constexpr (std::is_floating_point_v<V>) {
      fill<arrow::DoubleBuilder>(std::move(name), rows, value);
    } else if constexpr (std::is_integral_v<V>) {
      fill<arrow::Int64Builder>(std::move(name), rows, value);
    } else {
      fill<arrow::StringBuilder>(std::move(name), rows, value);
    }
  }

  std::shared_ptr<arrow::Table> table() { return arrow::Table::Make(arrow::schema(fields_), arrays_); }

 private:
  template <class Builder, class F>
  void fill(std::string name, std::size_t rows, F& value) {
    Builder builder;
    for (std::size_t r = 0; r < rows; ++r) require(builder.Append(value(r)), file_);
    std::shared_ptr<arrow::Array> array;
    require(builder.Finish(&array), file_);
    fields_.push_back(arrow::field(std::move(name), array->type()));
    arrays_.push_back(std::move(array));
  }

  const std::filesystem::path& file_;
  arrow::FieldVector fields_;
  std::vector<std::shared_ptr<arrow::Array>> arrays_;
};

}  // namespace

void write_oof_parquet(const std::filesystem::path& file, const TrainingResult& result) {
  const TrainingSet& set = result.set;
  std::vector<std::uint32_t> problem_of(set.row_count());
  for (std::size_t r = 0; r < problem_of.size(); ++r)
    problem_of[r] = static_cast<std::uint32_t>(set.problem_of(r));
  const auto problem = [&](std::size_t r) -> const Problem& { return set.problems[problem_of[r]]; };
  const Provider& names = provider(result.model.provider());

  OofColumns columns(file);
  set.problems.front().visit([&]<class P>(const P&) {
    for_each_field<P>([&](const auto& field) {
      columns.add(std::string(field.name), set.row_count(), [&](std::size_t r) {
        const auto& value = problem(r).template as<P>().*field.member;
        using V = std::remove_cvref_t<decltype(value)>;
        if constexpr (WordEnum<V>) {
          return std::string(word(value));
        } else {
          return V(value);
        }
      });
    });
  });
  columns.add("config", set.row_count(), [&](std::size_t r) {
    return names.print(signature_of(problem(r)), set.configs[set.rows[r].config]);
  });
  columns.add("fold", set.row_count(),
              [&](std::size_t r) { return std::int64_t{result.fold_of[problem_of[r]]}; });
  columns.add("time_us", set.row_count(), [&](std::size_t r) { return set.rows[r].time_us; });
  columns.add("tflops", set.row_count(), [&](std::size_t r) { return set.rows[r].tflops; });
  columns.add("raced", set.row_count(), [&](std::size_t r) { return set.rows[r].pruned_early; });
  for (const TrainedTarget& target : result.targets) {
    columns.add(fmt::format("oof_pred_{}", word(target.target)), set.row_count(),
                [&](std::size_t r) { return target.validation.out_of_fold[r]; });
  }

  auto stream = arrow::io::FileOutputStream::Open(file.string());
  require(stream.status(), file);
  const auto properties =
      parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
  require(parquet::arrow::WriteTable(*columns.table(), arrow::default_memory_pool(), *stream, 1 << 20,
                                     properties),
          file);
  require((*stream)->Close(), file);
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
  std::vector<std::optional<std::size_t>> fields;  // positions of a convolution's fields
  bool lower_is_better = false;
  std::unordered_map<ConvProblem, BestSeen> seen;
  std::vector<ConvProblem> order;
  const auto position = [&](std::string_view name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      fail(Errc::corrupt_data, "{}: column '{}' is missing; it is no oof_predictions.parquet of convolutions",
           file.string(), name);
    return static_cast<std::size_t>(found - names.begin());
  };
  read_parquet_as_text(
      file.string(), file.filename().string(),
      [&](const ParquetHeader& header) {
        names = header.names;
        time = position("time_us");
        for_each_field<ConvProblem>([&](const auto& field) {
          const bool lacks =
              is_later_column(field.name) && std::ranges::find(names, field.name) == names.end();
          fields.push_back(lacks ? std::nullopt : std::optional(position(field.name)));
        });
        const auto of = std::ranges::find_if(names, [](const auto& n) { return n.starts_with("oof_pred_"); });
        prediction =
            of == names.end() ? position("oof_pred_relative") : static_cast<std::size_t>(of - names.begin());
        lower_is_better = names[prediction] == "oof_pred_latency";
        return std::vector<bool>(names.size(), true);
      },
      [&](const std::vector<std::string_view>& cells) {
        ConvProblem problem;
        auto at = fields.begin();
        for_each_field<ConvProblem>([&](const auto& field) {
          using V = typename std::remove_cvref_t<decltype(field)>::value;
          if (const auto position_of = *at++)
            problem.*field.member = parse_field<V>(field.name, cells[*position_of]);
        });
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
  for (const ConvProblem& problem : order) {
    const BestSeen& best = seen.at(problem);
    result.push_back({problem, best.best_us / best.picked_us});
  }
  return result;
}

}  // namespace kscout
