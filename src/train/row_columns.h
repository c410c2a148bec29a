#pragma once
/// \file
/// Collects columns with one value per row, and writes them as Parquet.
///
///     RowColumns columns(set.row_count());
///     columns.add("time_us", "us", "measured time", [&](std::size_t r) { return set.rows[r].time_us; });
///     write_file_atomically(file, columns.parquet());
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataset/columns.h"
#include "dataset/parquet.h"

namespace kscout {

/// Collects the columns of a Parquet file whose rows are those of a training set.
class RowColumns {
 public:
  explicit RowColumns(std::size_t rows) { block_.rows = rows; }

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
      for (std::size_t r = 0; r < block_.rows; ++r) values.number.push_back(value(r));
    } else {
      spec.type = std::is_same_v<V, bool> ? ColumnType::boolean : ColumnType::int64;
      for (std::size_t r = 0; r < block_.rows; ++r) values.whole.push_back(std::int64_t{value(r)});
    }
    specs_.push_back(std::move(spec));
    block_.columns.push_back(std::move(values));
  }

  std::string parquet() const { return parquet_bytes(specs_, block_, {}); }

 private:
  template <class F>
  void append_words(ColumnValues& values, F& value) {
    std::unordered_map<std::string, std::int32_t> known;
    for (std::size_t r = 0; r < block_.rows; ++r) {
      const auto [at, is_new] = known.try_emplace(value(r), static_cast<std::int32_t>(known.size()));
      if (is_new) values.words.push_back(at->first);
      values.index.push_back(at->second);
    }
  }

  std::vector<ColumnSpec> specs_;
  Block block_;
};

}  // namespace kscout
