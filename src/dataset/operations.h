#pragma once
/// \file
/// What one asks of a table of measurements: its best configs, its anomalies, two tables together.
///
///     for (const BestOf& best : best_configs(table)) ...          // the oracle of each problem
///     const MeasurementTable all = merge({{a, b}}, Keep::best);
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kscout/measurement.h>

#include "problems/problem_sets.h"

namespace kscout {

/// What counts of one (problem, config): the row of the highest pass.
struct FinalRow {
  std::uint32_t config;
  Measurement measured;
};

/// Per problem its rows, ordered by config; a config measured in both passes stands with the second.
std::vector<std::vector<FinalRow>> final_rows(const MeasurementTable& table);

/// The table with only those rows, equal to whatever asks final_rows.
MeasurementTable final_table(const MeasurementTable& table);

/// The fastest of some rows with status ok, the first of equals; nothing when none is ok.
std::optional<FinalRow> oracle_of(std::span<const FinalRow> rows);

/// Speed of a row over that of the oracle of its problem, at most 1; 0 when it was not timed.
double share_of_oracle(const Measurement& measured, const Measurement& oracle) noexcept;

/// True when the time of a row deserves less trust than that of the oracle of its problem: it was given up
/// early, has no second pass where the oracle has one, or less than half of the oracle's samples. A
/// disturbance of the machine that the oracle's time does not show may be all of the difference.
bool measured_less_precisely(const Measurement& measured, const Measurement& oracle) noexcept;

/// True when two times cannot be told apart: they differ by less than twice the larger of both spreads, or by
/// less than kMinNoise.
bool within_noise(const Measurement& a, const Measurement& b) noexcept;
inline constexpr double kMinNoise = 0.01;  ///< of the time: repeats of one sweep rarely agree better

/// How often one config is the oracle.
struct BestShare {
  std::uint32_t config;
  std::size_t problems;
  double share;  ///< of the problems that have an oracle
};

struct Description {
  std::array<std::size_t, EnumWords<Status>::words.size()> rows_by_status{};
  std::size_t rows = 0, second_pass = 0, noisy = 0;
  std::size_t problems = 0, problems_without_oracle = 0, sizes = 0, configs = 0;
  double configs_per_problem = 0;  ///< mean number measured
  double median_spread = 0;        ///< of rows with status ok
  std::vector<BestShare> best;     ///< most frequent first
};
Description describe(const MeasurementTable& table);

struct Finding {
  bool error;  ///< the table cannot be trusted as it is; otherwise worth a look
  std::string what;
};
/// What reading cannot refuse row by row: problems without a usable row, speeds above the device's peak, rows
/// that failed, passes that contradict each other.
std::vector<Finding> find_anomalies(const MeasurementTable& table);

/// Which of two measurements of one (problem, config, pass) stays.
enum class Keep : std::uint8_t { error, best, first, last, mean, median };
template <>
struct EnumWords<Keep> {
  static constexpr std::string_view what = "choice";
  static constexpr std::array<std::string_view, 6> words = {"error", "best", "first",
                                                            "last",  "mean", "median"};
};
/// All rows of tables of one device, provider and op; beside a table of a joint provider those of its members
/// become its own. Rows that are equal in every value count once (but for Keep::median). The device is that
/// of the first; those of the others may differ from it as device_difference allows, or, with
/// `mixed_devices`, in anything. Throws invalid_argument: different devices, naming the facts, or
/// (Keep::error) a key measured twice, naming it. Keep::best makes oracles optimistic: repeated luck wins.
/// Keep::mean takes the geometric mean of times, weighted by repeats, after each later table's times of a
/// problem were brought to the level of the first (median ratio): what several sweeps agree on, whatever
/// state the machine was in. Keep::median takes the median instead (of an even number the geometric mean of
/// the middle two): what three and more sweeps agree on although one was disturbed.
MeasurementTable merge(std::span<const MeasurementTable> tables, Keep keep, bool mixed_devices = false);

/// The problems of the table that `keep` admits, with their rows.
MeasurementTable table_of_problems(const MeasurementTable& table,
                                   const std::function<bool(const Problem&)>& keep);

/// The measured problems in two parts that share no group (problems/problem_sets.h): held out are the groups
/// whose group_fraction is below the share. Problems without rows are in neither.
struct TableParts {
  MeasurementTable training, held_out;
};
TableParts split_table(const MeasurementTable& table, double held_out_share, std::uint64_t seed,
                       SplitBy by = SplitBy::sizes);

struct Difference {
  Problem problem;
  KernelConfig config;
  std::int32_t pass;
  std::optional<Measurement> a, b;
  /// time of b over time of a; NaN unless both have one.
  double ratio() const noexcept;
};
/// Keys in either table whose status differs, that one lacks, or whose times differ; largest change first.
struct Comparison {
  std::size_t only_a = 0, only_b = 0, both = 0, status_changed = 0;
  double ratio_p10 = 0, ratio_p50 = 0, ratio_p90 = 0;  ///< time of b over a, rows with status ok in both
  std::vector<Difference> differences;
};
Comparison compare(const MeasurementTable& a, const MeasurementTable& b);

}  // namespace kscout
