#include "train/oof_parquet.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>

#include <kscout/provider.h>

#include "core/fail.h"

namespace kscout {

namespace {

void require(const arrow::Status& status, const std::filesystem::path& file) {
  if (!status.ok()) fail(Errc::device_failure, "{}: {}", file.string(), status.ToString());
}

/// Columns of a table as they are filled.
class Columns {
 public:
  explicit Columns(const std::filesystem::path& file) : file_(file) {}

  /// One value per row: `value(row)` gives a double, an integer, a bool or a text.
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

  Columns columns(file);
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
  columns.add("raced", set.row_count(), [&](std::size_t r) { return set.rows[r].raced; });
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

}  // namespace kscout
