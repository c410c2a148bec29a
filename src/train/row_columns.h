#pragma once
/// \file
/// Writes one row per row of a training set as Parquet, in row groups of whole problems.
///
///     write_rows(file, set, [&](RowColumns& columns) {
///       columns.add("time_us", "us", "measured time", [&](std::size_t r) { return set.rows[r].time_us; });
///     });
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/files.h"
#include "dataset/columns.h"
#include "dataset/parquet.h"
#include "train/training_set.h"

namespace kscout {

/// Collects the columns of a row group, which has the rows of some problems.
class RowColumns {
 public:
  RowColumns(const TrainingSet& set, std::size_t first_problem, std::size_t end_problem)
      : first_problem_(first_problem),
        end_problem_(end_problem),
        first_(set.first_row[first_problem]),
        end_(set.first_row[end_problem]) {
    block_.rows = end_ - first_;
  }

  std::size_t first_problem() const noexcept { return first_problem_; }
  std::size_t end_problem() const noexcept { return end_problem_; }
  std::size_t first_row() const noexcept { return first_; }

  /// Adds one value per row: `value(row)` returns a double, an integer, a bool or a text.
  template <class F>
  void add(std::string name, std::string_view unit, std::string_view help, F&& value) {
    using V = std::remove_cvref_t<decltype(value(std::size_t{0}))>;
    ColumnSpec spec{std::move(name), std::string(unit), std::string(help)};
    ColumnValues values;
    if constexpr (std::is_same_v<V, std::string>) {
      append_words(values, value);
    } else if constexpr (std::is_floating_point_v<V>) {
      spec.type = ColumnType::float64;
      spec.nullable = true;
      for (std::size_t r = first_; r < end_; ++r) values.number.push_back(value(r));
    } else {
      spec.type = std::is_same_v<V, bool> ? ColumnType::boolean : ColumnType::int64;
      for (std::size_t r = first_; r < end_; ++r) values.whole.push_back(std::int64_t{value(r)});
    }
    specs_.push_back(std::move(spec));
    block_.columns.push_back(std::move(values));
  }

  const std::vector<ColumnSpec>& specs() const noexcept { return specs_; }
  Block take() { return std::move(block_); }

 private:
  template <class F>
  void append_words(ColumnValues& values, F& value) {
    std::unordered_map<std::string, std::int32_t> known;
    for (std::size_t r = first_; r < end_; ++r) {
      const auto [at, is_new] = known.try_emplace(value(r), static_cast<std::int32_t>(known.size()));
      if (is_new) values.words.push_back(at->first);
      values.index.push_back(at->second);
    }
  }

  std::size_t first_problem_, end_problem_, first_, end_;
  std::vector<ColumnSpec> specs_;
  Block block_;
};

/// `add` gives each row group all columns. Sets of up to 1,000,000 rows are one group, which is smaller;
/// larger ones have groups of about 250,000 rows. Throws device_failure.
template <class F>
void write_rows(const std::filesystem::path& file, const TrainingSet& set, F&& add) {
  constexpr std::size_t kGroupRows = 250'000;
  const std::size_t group_rows = set.row_count() <= 4 * kGroupRows ? set.row_count() : kGroupRows;
  AtomicFile out(file);
  std::optional<ParquetWriter> writer;
  for (std::size_t first = 0, end = 0; first < set.problems.size(); first = end) {
    while (end < set.problems.size() && set.first_row[end] - set.first_row[first] < group_rows) ++end;
    RowColumns columns(set, first, end);
    add(columns);
    if (!writer) writer.emplace(columns.specs(), [&](std::string_view bytes) { out.write(bytes); });
    writer->add(columns.take());
  }
  writer->finish({});
  out.commit();
}

}  // namespace kscout
