#pragma once
/// \file
/// Holds what evaluation and training read of measurements, in 24 bytes a row.
///
///     const CompactTable table = read_compact(files);          // row group by row group
///     for (std::size_t p = 0; p < table.problems.size(); ++p)
///       table.for_each_final(p, [&](std::uint32_t config, const Measurement& measured) {...});
///
/// A MeasurementTable takes 64 bytes a row. Rows here have status, cache, pass, time, repeats and the mark
/// `noisy`; those with status ok also a spread, in 8 more bytes, and those with a set-up time 16 bytes for
/// it. Errors and workspaces are left out.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kscout/measurement.h>

#include "dataset/dataset.h"
#include "dataset/operations.h"

namespace kscout {

class CompactTable {
 public:
  /// Rows are numbered in 32 bits, configs in 24 bits.
  static constexpr std::size_t max_rows = std::size_t{1} << 32;
  static constexpr std::uint32_t max_configs = std::uint32_t{1} << 24;

  CompactTable() = default;
  /// Implicit: a function that takes a CompactTable takes any table. Throws invalid_argument for more than
  /// max_rows rows or max_configs configs.
  CompactTable(const MeasurementTable& table);  // NOLINT(google-explicit-constructor)

  // As in MeasurementTable.
  Device device;
  std::vector<Problem> problems;
  std::vector<KernelConfig> configs;
  std::map<std::string, std::string> metadata;

  std::size_t row_count() const noexcept { return rows_.size(); }

  /// Calls `use(config, measurement, number)` for each row of a problem by ascending config, the later pass
  /// first. `number` tells which of two rows came first.
  template <class Use>
  void for_each_row(std::size_t problem, Use&& use) const {
    for (std::size_t r = first_[problem]; r < first_[problem + 1]; ++r)
      use(rows_[r].config, at(rows_[r]), rows_[r].number);
  }
  /// Calls `use(config, measurement)` for the final rows: those of the highest pass of each config.
  template <class Use>
  void for_each_final(std::size_t problem, Use&& use) const {
    for (std::size_t r = first_[problem]; r < first_[problem + 1]; ++r) {
      if (r == first_[problem] || rows_[r - 1].config != rows_[r].config) use(rows_[r].config, at(rows_[r]));
    }
  }
  /// As final_rows(MeasurementTable) has them.
  std::vector<FinalRow> final_rows(std::size_t problem) const;
  /// The final row of a config; nothing when it has none.
  std::optional<Measurement> final_row(std::size_t problem, std::uint32_t config) const;

  /// Calls `use(problem, config, setup_us)` for each row with a set-up time, in any order.
  template <class Use>
  void for_each_setup(Use&& use) const {
    for (const Setup& setup : setups_) use(setup.problem, setup.config, setup.setup_us);
  }

  /// Drops the rows for which `keep(problem, config)` is false.
  void keep_rows(const std::function<bool(std::uint32_t problem, std::uint32_t config)>& keep);
  /// Drops the other problems and their rows.
  void keep_problems(const std::function<bool(const Problem&)>& keep);
  /// The problems for which `keep` returns true, with their rows.
  CompactTable of_problems(const std::function<bool(const Problem&)>& keep) const;

 private:
  friend class CompactReader;

  struct Row {
    double time_us;
    std::uint32_t problem;
    std::uint32_t config : 24;
    std::uint32_t status : 4;
    std::uint32_t pass : 2;
    std::uint32_t cache : 1;
    std::uint32_t noisy : 1;
    std::int32_t repeats;
    std::uint32_t number;  ///< in the order in which rows were added
  };
  static_assert(sizeof(Row) == 24);
  /// 64 bits of a set of numbers, and how many members come before them.
  struct Word {
    std::uint64_t bits = 0;
    std::uint64_t before = 0;
  };
  struct Setup {
    std::uint32_t problem, config;
    double setup_us;
  };

  Measurement at(const Row& row) const noexcept {
    Measurement measured;
    measured.status = static_cast<Status>(row.status);
    measured.cache = static_cast<CacheState>(row.cache);
    measured.pass = static_cast<std::int32_t>(row.pass);
    measured.time_us = row.time_us;
    measured.repeats = row.repeats;
    measured.noisy = row.noisy != 0;
    if (measured.status == Status::ok) measured.spread = spreads_[spread_of(row.number)];
    return measured;
  }
  /// The position in spreads_ of the row with this number, whose status is ok.
  std::size_t spread_of(std::uint32_t number) const noexcept {
    const Word& word = with_spread_[number / 64];
    return word.before +
           static_cast<std::size_t>(std::popcount(word.bits & ((std::uint64_t{1} << number % 64) - 1)));
  }
  void add(const MeasurementTable::Row& row);
  /// Sorts the rows by problem, config and pass. False when one is there twice.
  bool sort_rows();
  void find_first_rows();

  std::vector<Row> rows_;           ///< by problem, config and falling pass
  std::vector<std::size_t> first_;  ///< of each problem, and the end
  std::vector<double> spreads_;     ///< of the rows with status ok, by number
  std::vector<Word> with_spread_;   ///< of the numbers of these rows
  std::vector<Setup> setups_;
};

/// As in_one_space() of measurement tables.
bool in_one_space(std::span<CompactTable> tables);

/// The tables without problems and rows.
std::vector<MeasurementTable> heads_of(std::span<const CompactTable> tables);

/// Reads datasets row group by row group: the table of read_dataset() of one file, or of merge() of several
/// with Keep::error, and the errors of these functions. Reads files as a whole that are CSV, or that have a
/// (problem, config, pass) more than once.
CompactTable read_compact(std::span<const std::string> files, const DatasetOptions& options = {});

}  // namespace kscout
