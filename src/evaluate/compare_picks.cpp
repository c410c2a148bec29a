#include "evaluate/compare_picks.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <kscout/provider.h>

#include "core/csv.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/numbers.h"

namespace kscout {

namespace {

/// The columns of a file, by meaning.
struct PickColumns {
  std::vector<std::size_t> problem;  ///< columns that identify the problem together
  std::size_t config = 0, efficiency = 0;
  bool may_be_old = false;  ///< efficiencies are fractions if no value is above 1; else percent
  std::optional<std::size_t> rank;
};

PickColumns pick_columns(const CsvSheet& sheet, const std::string& source) {
  const auto problem = sheet.column("problem"), config = sheet.column("config"), pick = sheet.column("pick");
  const auto efficiency = sheet.column("efficiency"), percent = sheet.column("efficiency_pct");
  const auto selected = sheet.column("ml_selected_kernel"), ml = sheet.column("ml_kernel");
  const auto all_before = [&](std::size_t end) {
    std::vector<std::size_t> columns;
    for (std::size_t c = 0; c < end; ++c) columns.push_back(c);
    return columns;
  };
  const bool ours = sheet.column("pick_coarse") || sheet.column("coarse");
  if (problem && pick && efficiency) return {{*problem}, *pick, *efficiency, !ours, std::nullopt};
  if (problem && config && efficiency) return {{*problem}, *config, *efficiency, !ours, sheet.column("rank")};
  if (selected && percent && sheet.column("oracle_best_tflops"))
    return {all_before(*sheet.column("oracle_best_tflops")), *selected, *percent, false, std::nullopt};
  if (ml && efficiency && sheet.column("oracle_kernel"))
    return {all_before(*sheet.column("oracle_kernel")), *ml, *efficiency, false, std::nullopt};
  fail(Errc::corrupt_data,
       "{}: no table of picks: it needs columns problem, pick and efficiency (kscout validate --out), or "
       "those of the "
       "public CK Tile tools",
       source);
}

std::unordered_map<std::string, const EvaluatedPick*> by_problem(const std::vector<EvaluatedPick>& picks,
                                                                 std::string_view list) {
  std::unordered_map<std::string, const EvaluatedPick*> found;
  for (const EvaluatedPick& pick : picks) {
    if (!found.emplace(pick.problem, &pick).second)
      fail(Errc::invalid_argument, "problem {} is listed twice among the {} picks", pick.problem, list);
  }
  return found;
}

/// Requires a change above -limit; where gains are limited too, within +-limit.
Criterion within(std::string what, double change, double limit, std::string_view unit, bool both_ways) {
  return {std::move(what), change, fmt::format("{}{} {}", both_ways ? "within +-" : ">= -", limit, unit),
          change >= -limit && (!both_ways || change <= limit)};
}

}  // namespace

std::vector<EvaluatedPick> evaluated_picks(const Evaluation& evaluation) {
  std::vector<EvaluatedPick> picks;
  for (const ProblemResult& result : evaluation.results) {
    picks.push_back(
        {print(result.problem),
         result.picks.empty() ? "" : config_name(signature_of(result.problem), result.picks.front().config),
         result.efficiency()});
  }
  return picks;
}

std::vector<EvaluatedPick> read_picks(const std::filesystem::path& file) {
  const CsvSheet sheet = read_csv(read_file(file), file.string());
  const PickColumns columns = pick_columns(sheet, file.string());
  std::vector<EvaluatedPick> picks;
  for (std::size_t r = 0; r < sheet.rows.size(); ++r) {
    const auto& row = sheet.rows[r];
    if (columns.rank && row[*columns.rank] != "1") continue;
    EvaluatedPick pick;
    for (const std::size_t column : columns.problem)
      pick.problem += (pick.problem.empty() ? "" : ",") + row[column];
    pick.config = row[columns.config];
    const std::string& text = row[columns.efficiency];
    pick.efficiency = number_in<double>(text).value_or(-1);
    if (!(pick.efficiency >= 0))
      fail(Errc::corrupt_data, "{}: row {}: '{}' is no efficiency", file.string(), r + 1, text);
    picks.push_back(std::move(pick));
  }
  const bool fractions = columns.may_be_old &&
                         std::ranges::all_of(picks, [](const EvaluatedPick& p) { return p.efficiency <= 1; });
  if (!fractions) {
    for (EvaluatedPick& pick : picks) pick.efficiency /= 100;
  }
  return picks;
}

PickComparison compare_picks(const std::vector<EvaluatedPick>& before,
                             const std::vector<EvaluatedPick>& after, const AcceptanceLimits& limits) {
  const auto old_picks = by_problem(before, "old"), new_picks = by_problem(after, "new");
  PickComparison c;
  std::vector<double> was, is;
  for (const EvaluatedPick& pick : before) {
    const auto found = new_picks.find(pick.problem);
    if (found == new_picks.end()) {
      ++c.only_old;
      continue;
    }
    const EvaluatedPick& now = *found->second;
    was.push_back(pick.efficiency);
    is.push_back(now.efficiency);
    c.agreeing += pick.config == now.config;
    const double points = 100 * (now.efficiency - pick.efficiency);
    ++(std::fabs(points) < limits.same_points ? c.same : points > 0 ? c.improved : c.degraded);
    if (points < c.worst_points) {
      c.worst_points = points;
      c.worst_problem = pick.problem;
    }
  }
  c.problems = was.size();
  c.only_new = after.size() - c.problems;
  if (c.problems == 0) {
    fail(Errc::invalid_argument, "nothing to compare: none of {} and {} problems is in both", before.size(),
         after.size());
  }
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  c.mean = {mean(was), mean(is)};
  c.median = {quantile(was, 0.5), quantile(is, 0.5)};
  c.p10 = {quantile(was, 0.1), quantile(is, 0.1)};
  const double p10_change = c.p10.before > 0 ? 100 * (c.p10.after / c.p10.before - 1) : c.p10.points();
  c.criteria = {
      within("change of the mean", c.mean.points(), limits.mean_points, "points", limits.both_ways),
      within("change of the median", c.median.points(), limits.median_points, "points", limits.both_ways),
      within("change of P10", p10_change, limits.p10_percent, "% of the old P10", limits.both_ways),
      {"largest loss of a problem", c.worst_points, fmt::format(">= -{} points", limits.drop_points),
       c.worst_points >= -limits.drop_points}};
  return c;
}

}  // namespace kscout
