#pragma once
/// \file
/// Reduces a table to the rows and digits that training needs: about a tenth of the file size for an equally
/// good model.
///
///     RuleSetRows reduced = rows_of_rule_set(merge(sweeps, Keep::mean), "pruned");
///     const MeasurementTable sample = sample_pruned_early(timed_rows(std::move(reduced.table)), 10);
///     write_dataset("train.parquet", with_time_digits(sample, 4));
///
/// Problems and configs without remaining rows are left out, too.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

#include "dataset/columns.h"

namespace kscout {

/// A rule set's configs on a device for each signature of problems; `rules` as in FamilyRequest. Throws
/// what enumerate() throws.
class ConfigsOfRules {
 public:
  ConfigsOfRules(std::span<const Problem> problems, const ConfigSpace& space, const Device& device,
                 const std::string& rules);

  /// Whether the rule set has the config for a problem, by its position.
  bool hold(std::uint32_t problem, const KernelConfig& config) const {
    return configs_[problems_.of_problem[problem]].contains(config);
  }
  std::size_t size() const;

 private:
  ProblemSignatures problems_;
  std::vector<std::unordered_set<KernelConfig>> configs_;  ///< by signature
};

struct RuleSetRows {
  MeasurementTable table;
  std::size_t unmeasured = 0;  ///< kernels of the set without a row, over all signatures
};
/// Keeps the rows whose config belongs to the rule set for their problem's signature; `rules` as in
/// FamilyRequest. The metadata then name that rule set for all rows. Throws what enumerate() throws, and
/// invalid_argument when no row is left.
RuleSetRows rows_of_rule_set(const MeasurementTable& table, const std::string& rules);

/// Keeps the rows that have a time: status ok or raced.
MeasurementTable timed_rows(const MeasurementTable& table);

/// Keeps one in `one_in` of the rows with status raced, and all others. A row stays where the CRC-32 (zlib's)
/// of "256,512,64,rcr,native_gemm_..." is a multiple of `one_in`: the sizes that a problem needs, its layout
/// and the kernel's name. The choice depends on the row alone, so reducing again, or before or after merging,
/// keeps the same rows. Throws invalid_argument for 0.
MeasurementTable sample_pruned_early(const MeasurementTable& table, std::uint32_t one_in);

/// Rounds times to `digits` significant digits, one less for rows with status raced, which are coarse. Rounds
/// spreads and errors to two digits.
MeasurementTable with_time_digits(const MeasurementTable& table, int digits);

/// Reduces rows with status raced to status, pass, repeats and the time with `digits` significant digits;
/// evaluation, replays and further merging read only these. Drops spread, error and the mark `noisy`. Throws
/// invalid_argument for less than one digit.
MeasurementTable coarsen_pruned_early(const MeasurementTable& table, int digits);

/// Applies with_time_digits to one row.
void shorten(Measurement& measured, int time_digits);

/// Which rows and digits stay; by default all of them.
struct Reduction {
  bool final_rows = false;                ///< final_table()
  std::string rules = {};                 ///< rows_of_rule_set(); empty: any config
  bool timed = false;                     ///< timed_rows()
  std::uint32_t pruned_early_one_in = 1;  ///< sample_pruned_early()
  int digits = 0;                         ///< with_time_digits(); 0: unchanged
  int pruned_early_digits = 0;            ///< coarsen_pruned_early(); 0: unchanged
};
/// Applies all parts of a reduction, in the order of its fields. RuleSetRows::unmeasured is 0 without rules.
RuleSetRows reduce(MeasurementTable table, const Reduction& reduction);

/// Applies a reduction row by row to a table that grows while it is read. Its rows come in file order.
class RowReducer {
 public:
  /// `table`: problems, configs and device of the rows; outlives this object.
  RowReducer(const MeasurementTable& table, const Provider& provider, const Reduction& reduction);

  using Kept = std::function<void(const MeasurementTable::Row&)>;
  /// Calls `kept` with the row, changed as the reduction says, or not at all. With `final_rows`, a row may be
  /// passed on by a later call.
  void add(const MeasurementTable::Row& row, const Kept& kept);
  void finish(const Kept& kept);
  std::size_t unmeasured() const;  ///< RuleSetRows::unmeasured

 private:
  void pass_on(MeasurementTable::Row row, const Kept& kept);
  bool in_rules(const MeasurementTable::Row& row);
  bool sampled(const MeasurementTable::Row& row);
  std::uint32_t signature_of_problem(std::uint32_t problem);

  const MeasurementTable& table_;
  const Provider& provider_;
  Reduction reduction_;
  std::vector<Signature> signatures_;
  std::vector<std::uint32_t> signature_of_problem_;
  std::vector<ConfigsOfRules> rules_;                     ///< by signature
  std::unordered_set<std::uint64_t> kept_kernels_;        ///< (signature, config)
  std::unordered_map<std::uint64_t, std::string> names_;  ///< of (signature, config)
  std::optional<MeasurementTable::Row> waiting_;          ///< a later pass may replace it
};

}  // namespace kscout
