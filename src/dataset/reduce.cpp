#include "dataset/reduce.h"

#include <algorithm>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/hash.h"
#include "core/numbers.h"
#include "dataset/operations.h"
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

ConfigsOfRules::ConfigsOfRules(std::span<const Problem> problems, const ConfigSpace& space,
                               const Device& device, const std::string& rules)
    : problems_(signatures_of(problems)) {
  for (const Signature& signature : problems_.signatures) {
    const Family family = enumerate({.provider = std::string(space.provider),
                                     .signature = signature,
                                     .device = device,
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
  const ConfigsOfRules wanted(table.problems, *table.configs.front().space, table.device, rules);
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

namespace {

void shorten_by_status(Measurement& measured, int digits) {
  shorten(measured, measured.status == Status::pruned_early ? digits - 1 : digits);
}

void coarsen(Measurement& m, int digits) {
  if (m.status != Status::pruned_early) return;
  m.time_us = with_digits(m.time_us, digits);
  m.spread = m.error = m.setup_us = Measurement::unknown;
  m.noisy = false;
}

}  // namespace

MeasurementTable with_time_digits(const MeasurementTable& table, int digits) {
  MeasurementTable out = table;
  for (auto& row : out.rows) shorten_by_status(row.measured, digits);
  return out;
}

MeasurementTable coarsen_pruned_early(const MeasurementTable& table, int digits) {
  if (digits < 1)
    fail(Errc::invalid_argument, "times of rows pruned early with {} digits: give at least 1", digits);
  MeasurementTable out = table;
  for (auto& row : out.rows) coarsen(row.measured, digits);
  return out;
}

void shorten(Measurement& measured, int time_digits) {
  measured.time_us = with_digits(measured.time_us, time_digits);
  measured.spread = with_digits(measured.spread, kDoubtDigits);
  measured.error = with_digits(measured.error, kDoubtDigits);
  measured.setup_us = with_digits(measured.setup_us, time_digits);
}

RuleSetRows reduce(MeasurementTable table, const Reduction& reduction) {
  RuleSetRows reduced;
  if (reduction.final_rows) table = final_table(table);
  if (!reduction.rules.empty()) {
    reduced = rows_of_rule_set(table, reduction.rules);
    table = std::move(reduced.table);
  }
  if (reduction.timed) table = timed_rows(table);
  if (reduction.pruned_early_one_in > 1) table = sample_pruned_early(table, reduction.pruned_early_one_in);
  if (reduction.digits > 0) table = with_time_digits(table, reduction.digits);
  if (reduction.pruned_early_digits > 0) table = coarsen_pruned_early(table, reduction.pruned_early_digits);
  reduced.table = std::move(table);
  return reduced;
}

RowReducer::RowReducer(const MeasurementTable& table, const Provider& provider, const Reduction& reduction)
    : table_(table), provider_(provider), reduction_(reduction) {}

std::uint32_t RowReducer::signature_of_problem(std::uint32_t problem) {
  while (signature_of_problem_.size() <= problem) {
    const Signature signature = signature_of(table_.problems[signature_of_problem_.size()]);
    const auto found = std::ranges::find(signatures_, signature);
    signature_of_problem_.push_back(static_cast<std::uint32_t>(found - signatures_.begin()));
    if (found == signatures_.end()) signatures_.push_back(signature);
  }
  return signature_of_problem_[problem];
}

bool RowReducer::in_rules(const MeasurementTable::Row& row) {
  const std::uint32_t signature = signature_of_problem(row.problem);
  const KernelConfig& config = table_.configs[row.config];
  while (rules_.size() < signatures_.size()) {
    const auto first =
        std::ranges::find(signature_of_problem_, rules_.size()) - signature_of_problem_.begin();
    rules_.emplace_back(std::span(&table_.problems[static_cast<std::size_t>(first)], 1), *config.space,
                        table_.device, reduction_.rules);
  }
  if (!rules_[signature].hold(0, config)) return false;
  kept_kernels_.insert((std::uint64_t{signature} << 32) | row.config);
  return true;
}

bool RowReducer::sampled(const MeasurementTable::Row& row) {
  const std::uint32_t signature = signature_of_problem(row.problem);
  const auto [at, is_new] = names_.try_emplace((std::uint64_t{signature} << 32) | row.config);
  if (is_new) at->second = provider_.print(signatures_[signature], table_.configs[row.config]);
  const std::uint32_t before = crc32_of(needed_text(table_.problems[row.problem]) + ",");
  return crc32_of(at->second, before) % reduction_.pruned_early_one_in == 0;
}

void RowReducer::pass_on(MeasurementTable::Row row, const Kept& kept) {
  if (!reduction_.rules.empty() && !in_rules(row)) return;
  if (reduction_.timed && !was_timed(row.measured)) return;
  if (reduction_.pruned_early_one_in > 1 && row.measured.status == Status::pruned_early && !sampled(row))
    return;
  if (reduction_.digits > 0) shorten_by_status(row.measured, reduction_.digits);
  if (reduction_.pruned_early_digits > 0) coarsen(row.measured, reduction_.pruned_early_digits);
  kept(row);
}

void RowReducer::add(const MeasurementTable::Row& row, const Kept& kept) {
  if (!reduction_.final_rows) return pass_on(row, kept);
  // Passes of a (problem, config) follow each other.
  if (waiting_ && (waiting_->problem != row.problem || waiting_->config != row.config))
    pass_on(*waiting_, kept);
  waiting_ = row;
}

void RowReducer::finish(const Kept& kept) {
  if (waiting_) pass_on(*waiting_, kept);
  waiting_.reset();
}

std::size_t RowReducer::unmeasured() const {
  std::size_t kernels = 0;
  for (const ConfigsOfRules& rules : rules_) kernels += rules.size();
  return kernels - kept_kernels_.size();
}

}  // namespace kscout
