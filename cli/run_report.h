#pragma once
/// \file
/// Prints the results of `kscout run`.
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "run/runner.h"
#include "table.h"

namespace kscout::cli {

/// Prints the rows of one problem, or of a list of problems. Times of crashed configs are unknown.
class RunTable {
 public:
  void add(const Problem& problem, std::span<const RanConfig> all) {
    const double baseline = all.back().run_us();
    for (const RanConfig& one : all) {
      const double us = one.run_us();
      const double speedup = all.size() > 1 ? baseline / us : Choice::unknown;
      const std::string_view verified = one.timed_out   ? "timeout"
                                        : one.crashed() ? "crashed"
                                        : one.wrong()   ? "wrong"
                                                        : "ok";
      rows_.push_back({text(print(problem)), text(one.name), text(one.source[0] ? one.source : "named"),
                       text(std::string(verified)), number(us, 5),
                       number(one.crashed() ? Choice::unknown : 100 * one.time.spread, 2),
                       number(static_cast<std::int64_t>(one.crashed() ? 0 : one.time.count)),
                       number(flop_count(problem) / us / 1e3, 5), number(speedup, 3),
                       number(one.predicted_us, 5), text(one.backend->name()), flag(one.padded),
                       text(one.as_asked ? "as asked" : one.as_run),
                       number(one.crashed() ? Choice::unknown : one.copies_us, 4),
                       number(one.crashed() ? Choice::unknown : one.setup_us, 4), text("")});
      packs_ = packs_ || !std::isnan(one.setup_us);
      as_asked_ = as_asked_ && !one.padded && one.as_asked;
      one_backend_ = one_backend_ && one.backend == all.front().backend;
    }
    const double speedup = baseline / all.front().run_us();
    if (all.size() > 1 && std::isfinite(speedup)) log_speedups_.push_back(std::log(speedup));
  }
  void add_uncovered(const Problem& problem, std::string_view reason, Format format) {
    ++uncovered_;
    if (format == Format::text) return fmt::print("{}\nnot run: {}\n", print(problem), reason);
    std::vector<Cell> cells(kColumns.size(), number(Choice::unknown));
    cells.front() = text(print(problem));
    cells.back() = text(reason);
    rows_.push_back(std::move(cells));
  }
  std::size_t uncovered() const noexcept { return uncovered_; }
  std::size_t compared() const noexcept { return log_speedups_.size(); }
  /// Geometric mean over problems of the first config's speed divided by the last one's, where both are
  /// known; NaN with one config.
  double mean_speedup() const {
    double sum = 0;
    for (const double one : log_speedups_) sum += one;
    return log_speedups_.empty() ? Choice::unknown
                                 : std::exp(sum / static_cast<double>(log_speedups_.size()));
  }

  /// Prints the columns with content for people, and all columns for programs. Then clears the rows.
  void print_rows(Format format) {
    std::vector<std::size_t> columns;
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const std::string_view name = kColumns[c];
      const bool of_form = name == "padded" || name == "as_run" || name == "copies_us";
      const bool idle = name == "problem" || name == "reason" || (name == "backend" && one_backend_) ||
                        (name == "setup_us" && !packs_) || (of_form && as_asked_);
      if (format != Format::text || !idle) columns.push_back(c);
    }
    std::vector<std::string> names;
    for (const std::size_t c : columns) names.emplace_back(kColumns[c]);
    Table table(std::move(names));
    for (const auto& row : rows_) {
      std::vector<Cell> cells;
      for (const std::size_t c : columns) cells.push_back(row[c]);
      table.add_row(std::move(cells));
    }
    table.print(format);
    rows_.clear();
    as_asked_ = true;
    one_backend_ = true;
    packs_ = false;
  }

 private:
  static constexpr std::array<std::string_view, 16> kColumns = {
      "problem", "config",       "chosen_by", "verified", "time_us", "spread_percent", "repeats",  "gflops",
      "speedup", "predicted_us", "backend",   "padded",   "as_run",  "copies_us",      "setup_us", "reason"};
  std::vector<std::vector<Cell>> rows_;
  std::vector<double> log_speedups_;
  std::size_t uncovered_ = 0;
  bool as_asked_ = true, one_backend_ = true, packs_ = false;
};

}  // namespace kscout::cli
