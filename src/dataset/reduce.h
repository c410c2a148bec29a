#pragma once
/// \file
/// What of a table is kept for training: files of a tenth of the size that teach a model as much.
///
///     RuleSetRows reduced = rows_of_rule_set(merge(sweeps, Keep::mean), "pruned");
///     write_dataset("train.parquet", with_time_digits(sample_pruned_early(timed_rows(std::move(reduced.table)), 10), 4));
///
/// Problems and configs that no row is left of are left out, too.
#include <cstdint>
#include <string>

#include <kscout/measurement.h>

namespace kscout {

struct RuleSetRows {
  MeasurementTable table;
  std::size_t unmeasured = 0;  ///< kernels of the set, over all signatures, that no row is of
};
/// The rows whose config the rule set holds for their problem's signature; `rules` as in FamilyRequest. The
/// metadata say afterwards that all was measured under that set. Throws what enumerate() throws, and
/// invalid_argument when no row is left.
RuleSetRows rows_of_rule_set(const MeasurementTable& table, const std::string& rules);

/// The rows that have a time: status ok or raced.
MeasurementTable timed_rows(const MeasurementTable& table);

/// All rows but those with status raced, of which one in `one_in` stays: where the CRC-32 (zlib's) of the
/// sizes that a problem needs, its layout and the kernel's name, "256,512,64,rcr,native_gemm_...", is a
/// multiple of it. Neither other rows nor their order matter: reduced again, or before and after merging, the
/// same rows stay. Throws invalid_argument for 0.
MeasurementTable sample_pruned_early(const MeasurementTable& table, std::uint32_t one_in);

/// Times with so many significant digits, those of rows with status raced, which are coarse, with one less;
/// spreads and errors with the two that mean something.
MeasurementTable with_time_digits(const MeasurementTable& table, int digits);

/// Rows with status raced keep status, pass, repeats and the time with so many significant digits: what
/// evaluation, replays and further merging read of them. Spread, error and the mark `noisy` of a config that
/// cannot win are dropped. Throws invalid_argument for less than one digit.
MeasurementTable coarsen_pruned_early(const MeasurementTable& table, int digits);

/// with_time_digits of one row.
void shorten(Measurement& measured, int time_digits);

}  // namespace kscout
