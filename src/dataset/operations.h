#pragma once
/// \file
/// Analyses tables of measurements: best configs, anomalies, comparison and merging of tables.
///
///     for (const BestOf& best : best_configs(table)) ...          // the oracle of each problem
///     const MeasurementTable all = merge({{a, b}}, Keep::best);
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/measurement.h>

#include "op/problem_sets.h"

namespace kscout {

/// The row of the highest pass of one (problem, config).
struct FinalRow {
  std::uint32_t config;
  Measurement measured;
};

/// The final rows of each problem, ordered by config: a config measured in both passes has its pass-2 row.
std::vector<std::vector<FinalRow>> final_rows(const MeasurementTable& table);

/// The table without the rows that final_rows() drops; final_rows() gives the same result for both tables.
MeasurementTable final_table(const MeasurementTable& table);

/// The fastest of the rows with status ok, the first of equal ones; nothing when none is ok.
std::optional<FinalRow> oracle_of(std::span<const FinalRow> rows);

/// Speed of a row divided by that of its problem's oracle, at most 1; 0 when the row was not timed.
double share_of_oracle(const Measurement& measured, const Measurement& oracle) noexcept;

/// True when the time of a row is less trustworthy than that of its problem's oracle: the row was pruned
/// early, lacks a pass 2 that the oracle has, or has less than half of the oracle's samples. The difference
/// between both times may then come from a disturbance of the machine alone.
bool measured_less_precisely(const Measurement& measured, const Measurement& oracle) noexcept;

/// True when two times do not differ significantly: their difference is below twice the larger spread or
/// below kMinNoise.
bool within_noise(const Measurement& a, const Measurement& b) noexcept;
/// Fraction of the time: repeats within one sweep rarely agree better.
inline constexpr double kMinNoise = 0.01;

/// Number of problems for which one config is the oracle.
struct BestShare {
  std::uint32_t config;
  std::size_t problems;
  double share;  ///< of the problems that have an oracle
};

struct Description {
  std::array<std::size_t, EnumWords<Status>::words.size()> rows_by_status{};
  std::size_t rows = 0, second_pass = 0, noisy = 0;
  std::size_t problems = 0, problems_without_oracle = 0, sizes = 0, configs = 0;
  double configs_per_problem = 0;  ///< mean number of measured configs
  double median_spread = 0;        ///< of rows with status ok
  std::vector<BestShare> best;     ///< most frequent first
};
Description describe(const MeasurementTable& table);

/// Describes a table row by row. The rows of a (problem, config) follow each other, the first pass first.
class Describer {
 public:
  void add(const MeasurementTable::Row& row);
  /// `places`: of each config in family order, which decides between equal configs. `median_spread`: of the
  /// rows with status ok.
  Description finish(const MeasurementTable& table, std::span<const std::uint32_t> places,
                     double median_spread);

 private:
  struct Best {
    std::uint32_t config;
    double time_us;
  };
  /// Adds the final row of a (problem, config).
  void add_final();

  Description sums_;
  std::size_t pairs_ = 0;
  std::optional<MeasurementTable::Row> last_;
  std::vector<std::vector<Best>> best_;  ///< per problem: the fastest configs, all of the same time
};

struct Finding {
  bool error;  ///< the table cannot be trusted as it is; false: worth a check
  std::string what;
};
/// Finds what reading cannot reject row by row: problems without a usable row, speeds above the device's
/// peak, failed rows, passes that contradict each other.
std::vector<Finding> find_anomalies(const MeasurementTable& table);

/// Which of two measurements of one (problem, config, pass) is kept.
enum class Keep : std::uint8_t { error, best, first, last, mean, median };
template <>
struct EnumWords<Keep> {
  static constexpr std::string_view what = "choice";
  static constexpr std::array<std::string_view, 6> words = {"error", "best", "first",
                                                            "last",  "mean", "median"};
};
/// Merges all rows of tables of one device, provider and op. Beside a table of a joint provider, rows of its
/// members become rows of the joint provider. Rows that are equal in every value count once (except with
/// Keep::median). The result has the first table's device; the devices of other tables may differ as
/// device_difference allows, or in anything with `mixed_devices`. Throws invalid_argument for different
/// devices, naming the facts, or (Keep::error) for a key measured twice, naming it.
///
/// Keep::best makes oracles optimistic, because repeated measuring favours lucky times. Keep::mean takes the
/// geometric mean of times, weighted by repeats. Before that, it divides each later table's times of a
/// problem by their median ratio to the first table's, which removes differences in the state of the machine
/// between sweeps. Keep::median takes the median instead (for an even number, the geometric mean of the
/// middle two), which is robust against one disturbed sweep among three or more.
MeasurementTable merge(std::span<const MeasurementTable> tables, Keep keep, bool mixed_devices = false);

/// Chooses between or averages two rows of the same (problem, config, pass); the result is in `known`.
/// `table` names the row in errors. Throws invalid_argument (Keep::error).
void keep_one(Keep keep, const MeasurementTable& table, MeasurementTable::Row& known,
              const Measurement& other);

constexpr bool is_average(Keep keep) noexcept { return keep == Keep::mean || keep == Keep::median; }

/// What Keep::median makes of the measurements of one (problem, config, pass), of which there is at least
/// one.
Measurement median_of(std::span<const Measurement> all);

/// The space that holds the configs of all tables; for a joint provider and its members, the joint space.
/// Null when no table has configs. Throws invalid_argument when there is none.
const ConfigSpace* common_space(std::span<const MeasurementTable> tables);

/// The config in terms of the space: itself, or its counterpart in a joint space when its provider is a
/// member.
std::optional<KernelConfig> in_space(const KernelConfig& config, const ConfigSpace& space);

/// The position of `value` in `values`, to which a new value is appended. `ids` has the positions of all
/// values.
template <class T>
std::uint32_t id_of(const T& value, std::vector<T>& values, std::unordered_map<T, std::uint32_t>& ids) {
  const auto [at, is_new] = ids.try_emplace(value, static_cast<std::uint32_t>(values.size()));
  if (is_new) values.push_back(value);
  return at->second;
}

/// Throws invalid_argument when the devices of merged tables differ.
void check_same_device(const Device& first, const Device& other);

/// Makes the configs of a joint provider's members, beside a table of the joint provider, configs of that.
/// False, and no change, when the tables have several providers or ops that no joint provider holds.
bool in_one_space(std::span<MeasurementTable> tables);

/// The problems of the table for which `keep` returns true, with their rows.
MeasurementTable table_of_problems(const MeasurementTable& table,
                                   const std::function<bool(const Problem&)>& keep);

/// Splits the measured problems into two parts that share no group (problems/problem_sets.h). Groups whose
/// group_fraction is below the share are held out. Problems without rows are in neither part.
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
  /// Time of b divided by time of a; NaN unless both have a time.
  double ratio() const noexcept;
};
/// Keys whose status differs, whose times differ, or that one table lacks; largest change first.
struct Comparison {
  std::size_t only_a = 0, only_b = 0, both = 0, status_changed = 0;
  double ratio_p10 = 0, ratio_p50 = 0, ratio_p90 = 0;  ///< time of b / a, for rows with status ok in both
  std::vector<Difference> differences;
};
Comparison compare(const MeasurementTable& a, const MeasurementTable& b);

}  // namespace kscout
