#include "dataset/reduce.h"

#include <algorithm>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/hash.h"
#include "core/numbers.h"
#include "family/family_file.h"
#include "op/operation.h"

namespace kscout {

namespace {

/// Drops the values that no row uses and renumbers `index`, the member of a row that refers to them.
template <class T>
void drop_unused(std::vector<T>& values, std::vector<MeasurementTable::Row>& rows,
                 std::uint32_t MeasurementTable::Row::*index) {
  std::vector<bool> used(values.size());
  for (const auto& row : rows) used[row.*index] = true;
  std::vector<T> kept;
  std::vector<std::uint32_t> moved(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    moved[i] = static_cast<std::uint32_t>(kept.size());
    if (used[i]) kept.push_back(std::move(values[i]));
  }
  values = std::move(kept);
  for (auto& row : rows) row.*index = moved[row.*index];
}

/// The rows for which `keep(position)` holds.
template <class Keep>
MeasurementTable kept_rows(const MeasurementTable& table, Keep&& keep) {
  MeasurementTable out = table;
  out.rows.clear();
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (keep(r)) out.rows.push_back(table.rows[r]);
  }
  drop_unused(out.problems, out.rows, &MeasurementTable::Row::problem);
  drop_unused(out.configs, out.rows, &MeasurementTable::Row::config);
  return out;
}

/// "256,512,64,rcr"
std::string needed_text(const Problem& problem) {
  const Operation& of = operation(problem.op());
  std::string text;
  for (const std::string_view name : of.needed_sizes) text += std::to_string(problem[name]) + ",";
  text += word(signature_of(problem).layout);
  return text;
}

}  // namespace

ConfigsOfRules::ConfigsOfRules(const MeasurementTable& table, const std::string& rules)
    : problems_(signatures_of(table.problems)) {
  for (const Signature& signature : problems_.signatures) {
    const Family family = enumerate({.provider = std::string(table.configs.front().space->provider),
                                     .signature = signature,
                                     .device = table.device,
                                     .rules = rules,
                                     .filter = {}});
    auto& configs = configs_.emplace_back();
    for (std::size_t i = 0; i < family.configs.size(); ++i) configs.insert(family.configs[i]);
  }
}

std::size_t ConfigsOfRules::size() const {
  std::size_t kernels = 0;
  for (const auto& configs : configs_) kernels += configs.size();
  return kernels;
}

RuleSetRows rows_of_rule_set(const MeasurementTable& table, const std::string& rules) {
  if (table.rows.empty())
    fail(Errc::invalid_argument, "the table has no rows to reduce to rule set '{}'", rules);
  const ConfigsOfRules wanted(table, rules);
  RuleSetRows reduced{kept_rows(table, [&](std::size_t r) {
    const auto& row = table.rows[r];
    return wanted.hold(row.problem, table.configs[row.config]);
  })};
  if (reduced.table.rows.empty())
    fail(Errc::invalid_argument, "no config of rule set '{}' was measured; give the set of the sweep", rules);
  reduced.table.metadata["rules"] = rules_name(rules);
  const Provider& own = provider(table.configs.front().space->provider);
  reduced.unmeasured = wanted.size() - kernel_names(reduced.table, own).words.size();
  return reduced;
}

MeasurementTable timed_rows(const MeasurementTable& table) {
  return kept_rows(table, [&](std::size_t r) { return was_timed(table.rows[r].measured); });
}

MeasurementTable sample_pruned_early(const MeasurementTable& table, std::uint32_t one_in) {
  if (one_in == 0) fail(Errc::invalid_argument, "one row pruned early in 0: give at least 1");
  if (table.rows.empty()) return table;
  std::vector<std::uint32_t> before_name;
  for (const Problem& problem : table.problems) before_name.push_back(crc32_of(needed_text(problem) + ","));
  const ColumnValues names = kernel_names(table, provider(table.configs.front().space->provider));
  return kept_rows(table, [&](std::size_t r) {
    const auto& row = table.rows[r];
    if (row.measured.status != Status::pruned_early) return true;
    const std::string& name = names.words[static_cast<std::size_t>(names.index[r])];
    return crc32_of(name, before_name[row.problem]) % one_in == 0;
  });
}

MeasurementTable with_time_digits(const MeasurementTable& table, int digits) {
  MeasurementTable out = table;
  for (auto& row : out.rows)
    shorten(row.measured, row.measured.status == Status::pruned_early ? digits - 1 : digits);
  return out;
}

MeasurementTable coarsen_pruned_early(const MeasurementTable& table, int digits) {
  if (digits < 1)
    fail(Errc::invalid_argument, "times of rows pruned early with {} digits: give at least 1", digits);
  MeasurementTable out = table;
  for (auto& row : out.rows) {
    Measurement& m = row.measured;
    if (m.status != Status::pruned_early) continue;
    m.time_us = with_digits(m.time_us, digits);
    m.spread = m.error = m.setup_us = Measurement::unknown;
    m.noisy = false;
  }
  return out;
}

void shorten(Measurement& measured, int time_digits) {
  measured.time_us = with_digits(measured.time_us, time_digits);
  measured.spread = with_digits(measured.spread, kDoubtDigits);
  measured.error = with_digits(measured.error, kDoubtDigits);
  measured.setup_us = with_digits(measured.setup_us, time_digits);
}

}  // namespace kscout
