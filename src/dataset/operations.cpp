#include "dataset/operations.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/numbers.h"
#include "dataset/columns.h"
#include "dataset/possible_time.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

constexpr std::size_t kExamples = 3;  ///< named per finding

struct Key {
  Problem problem;
  KernelConfig config;
  std::int32_t pass;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const std::uint64_t problem = std::hash<Problem>{}(key.problem);
    return mix_hash(mix_hash(problem, std::hash<KernelConfig>{}(key.config)),
                    static_cast<std::uint64_t>(key.pass));
  }
};

Key key_of(const MeasurementTable& table, const MeasurementTable::Row& row) {
  return {table.problems[row.problem], table.configs[row.config], row.measured.pass};
}

/// Collects findings of one kind: how many, and the first few by name.
class Collected {
 public:
  void add(std::string example) {
    if (count_++ < kExamples) examples_.push_back(std::move(example));
  }
  void report(std::vector<Finding>& findings, bool error, std::string_view what) const {
    if (count_ == 0) return;
    findings.push_back({error, fmt::format("{} {}: {}{}", count_, what, fmt::join(examples_, "; "),
                                           count_ > examples_.size() ? "; ..." : "")});
  }

 private:
  std::size_t count_ = 0;
  std::vector<std::string> examples_;
};

/// The final rows problem by problem, without a copy of all rows. Keeps a reference to the table.
class FinalRows {
 public:
  explicit FinalRows(const MeasurementTable& table);
  std::size_t problems() const noexcept { return first_.size() - 1; }
  /// Those of a problem, ordered by config.
  std::vector<FinalRow> of(std::size_t problem) const;

 private:
  const MeasurementTable& table_;
  std::vector<std::size_t> first_;   ///< of each problem in rows_, and the end
  std::vector<std::uint32_t> rows_;  ///< positions in the table
};

FinalRows::FinalRows(const MeasurementTable& table) : table_(table), first_(table.problems.size() + 1) {
  for (const auto& row : table.rows) ++first_[row.problem + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  rows_.resize(table.rows.size());
  std::vector<std::size_t> next = first_;
  for (std::uint32_t r = 0; r < rows_.size(); ++r) rows_[next[table.rows[r].problem]++] = r;
  std::size_t end = 0;  // of the final rows so far
  for (std::size_t p = 0; p < problems(); ++p) {
    const std::span all(rows_.data() + first_[p], first_[p + 1] - first_[p]);
    std::ranges::stable_sort(all, {}, [&](std::uint32_t r) {
      return std::tuple(table.rows[r].config, -table.rows[r].measured.pass);
    });
    first_[p] = end;
    for (const std::uint32_t r : all) {
      if (end == first_[p] || table.rows[rows_[end - 1]].config != table.rows[r].config) rows_[end++] = r;
    }
  }
  first_.back() = end;
  rows_.resize(end);
}

std::vector<FinalRow> FinalRows::of(std::size_t problem) const {
  std::vector<FinalRow> rows;
  for (std::size_t i = first_[problem]; i < first_[problem + 1]; ++i)
    rows.push_back({table_.rows[rows_[i]].config, table_.rows[rows_[i]].measured});
  return rows;
}

}  // namespace

std::vector<std::vector<FinalRow>> final_rows(const MeasurementTable& table) {
  const FinalRows final(table);
  std::vector<std::vector<FinalRow>> rows;
  for (std::size_t p = 0; p < final.problems(); ++p) rows.push_back(final.of(p));
  return rows;
}

MeasurementTable final_table(const MeasurementTable& table) {
  MeasurementTable out{table.device, table.problems, table.configs, {}, table.metadata};
  const FinalRows final(table);
  for (std::uint32_t p = 0; p < final.problems(); ++p) {
    for (const FinalRow& row : final.of(p)) out.rows.push_back({p, row.config, row.measured});
  }
  return out;
}

std::optional<FinalRow> oracle_of(std::span<const FinalRow> rows) {
  std::optional<FinalRow> best;
  for (const FinalRow& row : rows) {
    if (row.measured.status != Status::ok) continue;
    if (!best || row.measured.time_us < best->measured.time_us) best = row;
  }
  return best;
}

double share_of_oracle(const Measurement& measured, const Measurement& oracle) noexcept {
  return was_timed(measured) ? std::min(1.0, oracle.time_us / measured.time_us) : 0;
}

bool measured_less_precisely(const Measurement& measured, const Measurement& oracle) noexcept {
  if (!was_timed(measured)) return false;
  return measured.status != Status::ok || measured.pass < oracle.pass ||
         2 * measured.repeats < oracle.repeats;
}

bool within_noise(const Measurement& a, const Measurement& b) noexcept {
  const auto spread = [](const Measurement& m) { return std::isnan(m.spread) ? 0.0 : m.spread; };
  const double noise = std::max(kMinNoise, 2 * std::max(spread(a), spread(b)));
  return std::fabs(a.time_us - b.time_us) <= noise * std::min(a.time_us, b.time_us);
}

void Describer::add(const MeasurementTable::Row& row) {
  ++sums_.rows;
  ++sums_.rows_by_status[static_cast<std::size_t>(row.measured.status)];
  sums_.second_pass += row.measured.pass == 2;
  sums_.noisy += row.measured.noisy;
  if (last_ && (last_->problem != row.problem || last_->config != row.config)) add_final();
  last_ = row;
}

void Describer::add_final() {
  ++pairs_;
  if (last_->measured.status != Status::ok) return;
  if (best_.size() <= last_->problem) best_.resize(last_->problem + 1);
  auto& best = best_[last_->problem];
  const double time_us = last_->measured.time_us;
  if (!best.empty() && time_us < best.front().time_us) best.clear();
  if (best.empty() || time_us == best.front().time_us) best.push_back({last_->config, time_us});
}

Description Describer::finish(const MeasurementTable& table, std::span<const std::uint32_t> places,
                              double median_spread) {
  if (last_) add_final();
  Description d = std::move(sums_);
  d.problems = table.problems.size();
  d.configs = table.configs.size();
  d.median_spread = median_spread;
  std::set<ProblemSizes> sizes;
  for (const auto& p : table.problems) sizes.insert(sizes_of(p));
  d.sizes = sizes.size();
  std::vector<std::size_t> wins(table.configs.size());
  d.problems_without_oracle = d.problems;
  for (const auto& best : best_) {
    if (best.empty()) continue;
    ++wins[std::ranges::min(best, {}, [&](const Best& one) { return places[one.config]; }).config];
    --d.problems_without_oracle;
  }
  const std::size_t evaluated = d.problems - d.problems_without_oracle;
  d.configs_per_problem = d.problems ? static_cast<double>(pairs_) / static_cast<double>(d.problems) : 0;
  for (std::uint32_t c = 0; c < wins.size(); ++c) {
    if (wins[c])
      d.best.push_back({c, wins[c], static_cast<double>(wins[c]) / static_cast<double>(evaluated)});
  }
  std::ranges::sort(d.best, {}, [&](const BestShare& one) {
    return std::pair(-static_cast<std::int64_t>(one.problems), places[one.config]);
  });
  return d;
}

Description describe(const MeasurementTable& table) {
  std::vector<const MeasurementTable::Row*> order;
  std::vector<double> spreads;
  for (const auto& row : table.rows) {
    order.push_back(&row);
    if (row.measured.status == Status::ok && !std::isnan(row.measured.spread))
      spreads.push_back(row.measured.spread);
  }
  std::ranges::sort(order, {}, [](const MeasurementTable::Row* row) {
    return std::tuple(row->problem, row->config, row->measured.pass);
  });
  Describer describer;
  for (const auto* const row : order) describer.add(*row);
  std::vector<std::uint32_t> places(table.configs.size());
  std::iota(places.begin(), places.end(), 0U);
  return describer.finish(table, places, quantile(std::move(spreads), 0.5));
}

std::vector<Finding> find_anomalies(const MeasurementTable& table) {
  std::vector<Finding> findings;
  Collected useless, too_fast, failed, contradicting, noisy;
  const Provider* const of =
      table.configs.empty() ? nullptr : &provider(table.configs.front().space->provider);
  const auto rows = final_rows(table);
  for (std::size_t p = 0; p < rows.size(); ++p) {
    if (!oracle_of(rows[p])) useless.add(print(table.problems[p]));
  }
  std::unordered_map<std::uint64_t, double> first_pass;
  for (const auto& row : table.rows) {
    const Problem& problem = table.problems[row.problem];
    const Measurement& m = row.measured;
    const auto named = [&] {
      return fmt::format("{} with {} ({:.4g} us)", print(problem), config_text(table.configs[row.config]),
                         m.time_us);
    };
    if (was_timed(m)) {
      if (const std::string why = impossible_time(problem, m.time_us, table.device, *of); !why.empty())
        too_fast.add(
            fmt::format("{} with {}: {}", print(problem), config_text(table.configs[row.config]), why));
    }
    if (m.status == Status::wrong || m.status == Status::crashed || m.status == Status::timeout) {
      failed.add(named() + " " + std::string(word(m.status)));
    }
    if (m.noisy) noisy.add(named());
    if (m.status != Status::ok) continue;
    const std::uint64_t pair = (std::uint64_t{row.problem} << 32) | row.config;
    const auto [other, is_new] = first_pass.try_emplace(pair, m.time_us);
    if (!is_new && std::max(m.time_us / other->second, other->second / m.time_us) > 1.5)
      contradicting.add(named());
  }
  useless.report(findings, true, "problems have no row with status ok");
  too_fast.report(findings, true, "rows are faster than the device's peak");
  failed.report(findings, false, "rows failed");
  contradicting.report(findings, false, "configs differ by more than 1.5 times between the passes");
  noisy.report(findings, false, "rows are noisy");
  return findings;
}

double Difference::ratio() const noexcept { return a && b ? b->time_us / a->time_us : Measurement::unknown; }

Comparison compare(const MeasurementTable& a, const MeasurementTable& b) {
  Comparison result;
  std::unordered_map<Key, const Measurement*, KeyHash> of_b;
  for (const auto& row : b.rows) of_b.emplace(key_of(b, row), &row.measured);
  std::vector<double> ratios;
  for (const auto& row : a.rows) {
    const Key key = key_of(a, row);
    const auto found = of_b.find(key);
    Difference difference{key.problem, key.config, key.pass, row.measured, {}};
    if (found == of_b.end()) {
      ++result.only_a;
    } else {
      ++result.both;
      difference.b = *found->second;
      const bool both_ok = row.measured.status == Status::ok && difference.b->status == Status::ok;
      if (both_ok) ratios.push_back(difference.ratio());
      result.status_changed += row.measured.status != difference.b->status;
      const bool same = row.measured == *difference.b;
      of_b.erase(found);
      if (same) continue;
    }
    result.differences.push_back(std::move(difference));
  }
  for (const auto& row : b.rows) {
    const Key key = key_of(b, row);
    if (!of_b.contains(key)) continue;
    ++result.only_b;
    result.differences.push_back({key.problem, key.config, key.pass, {}, row.measured});
  }
  result.ratio_p10 = quantile(ratios, 0.1);
  result.ratio_p50 = quantile(ratios, 0.5);
  result.ratio_p90 = quantile(std::move(ratios), 0.9);
  std::ranges::stable_sort(result.differences, std::greater<>{}, [](const Difference& d) {
    const double ratio = d.ratio();
    return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : std::fabs(std::log(ratio));
  });
  return result;
}

namespace {

/// New positions of the problems to keep, -1 for the others; keeps the former.
std::vector<std::int64_t> keep_those(std::vector<Problem>& problems,
                                     const std::function<bool(const Problem&)>& keep) {
  std::vector<std::int64_t> moved(problems.size(), -1);
  std::size_t kept = 0;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    if (!keep(problems[p])) continue;
    moved[p] = static_cast<std::int64_t>(kept);
    if (kept != p) problems[kept] = std::move(problems[p]);
    ++kept;
  }
  problems.erase(problems.begin() + static_cast<std::ptrdiff_t>(kept), problems.end());
  return moved;
}

}  // namespace

MeasurementTable table_of_problems(const MeasurementTable& table,
                                   const std::function<bool(const Problem&)>& keep) {
  MeasurementTable part{table.device, table.problems, table.configs, {}, table.metadata};
  const auto moved = keep_those(part.problems, keep);
  for (auto row : table.rows) {
    if (moved[row.problem] < 0) continue;
    row.problem = static_cast<std::uint32_t>(moved[row.problem]);
    part.rows.push_back(row);
  }
  return part;
}

TableParts split_table(const MeasurementTable& table, double held_out_share, std::uint64_t seed, SplitBy by) {
  std::unordered_set<Problem> measured;
  for (const auto& row : table.rows) measured.insert(table.problems[row.problem]);
  const auto part = [&](bool held_out) {
    return table_of_problems(table, [&](const Problem& problem) {
      return measured.contains(problem) && (group_fraction(problem, seed, by) < held_out_share) == held_out;
    });
  };
  return {part(false), part(true)};
}

}  // namespace kscout
