// Gathers what a report shows of a sweep: progress, rate, failures, noise and clocks, beside the choices
// among its results.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/numbers.h"
#include "dataset/operations.h"
#include "report/report.h"
#include "report/report_json.h"
#include "sweep/journal.h"

namespace kscout {

namespace {

/// Points of a curve over the rows or the clocks of a sweep.
constexpr std::size_t kCurvePoints = 120;
/// Upper limits of the classes of noise, in percent; the last class has none.
constexpr double kNoiseLimits[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 20};

/// Fewer samples have no spread.
constexpr std::int32_t kMinSamples = 3;

/// A row's problem and config, and the command that runs both.
Json example_json(const SweepPlan& plan, const JournalRow& row) {
  const Problem& problem = plan.problems[row.key.problem];
  const KernelConfig& config = plan.configs[row.key.config];
  const std::string name = provider(config.space->provider).print(signature_of(problem), config);
  const bool library = plan.backend.starts_with(kLibraryPrefix);
  std::string command = fmt::format("kscout run {} --config {}", print(problem), name);
  if (library)
    command += fmt::format(" --library {}", plan.rules);
  else if (plan.backend != "cpu")
    command += fmt::format(" --backend {}", plan.backend);
  return {{"problem", print(problem)}, {"config", name}, {"command", command}};
}

Json statuses_json(const SweepStatus& status) {
  Json rows = Json::array();
  for (std::size_t s = 0; s < status.by_status.size(); ++s) {
    if (status.by_status[s] > 0)
      rows.push_back({{"status", status_meaning(static_cast<Status>(s))}, {"rows", status.by_status[s]}});
  }
  return rows;
}

/// Why rows failed, most frequent first, each with its first row.
Json failures_json(const SweepState& state) {
  std::map<std::string, std::pair<std::size_t, const JournalRow*>> reasons;
  for (const JournalRow& row : state.rows) {
    if (row.reason < 0) continue;
    auto& [count, first] =
        reasons[general_reason(row.measured.status, state.reasons[static_cast<std::size_t>(row.reason)])];
    if (count++ == 0) first = &row;
  }
  std::vector<std::pair<std::string, std::pair<std::size_t, const JournalRow*>>> order(reasons.begin(),
                                                                                       reasons.end());
  std::ranges::stable_sort(order, std::ranges::greater{}, [](const auto& one) { return one.second.first; });
  Json failures = Json::array();
  for (const auto& [reason, rows] : order) {
    Json json = {{"rows", rows.first}, {"reason", reason}};
    json.update(example_json(state.plan, *rows.second));
    failures.push_back(std::move(json));
  }
  return failures;
}

/// Numbers of rows by noise, for both passes, each class with its noisiest row. Rows of few samples are left
/// out.
Json noise_json(const SweepState& state) {
  struct Class {
    std::size_t rows = 0;
    const JournalRow* noisiest = nullptr;
  };
  constexpr std::size_t kClasses = std::size(kNoiseLimits) + 1;
  std::map<std::int32_t, std::vector<Class>> passes;
  for (const JournalRow& row : state.rows) {
    if (row.measured.status != Status::ok || !(row.measured.repeats >= kMinSamples)) continue;
    auto& classes = passes.try_emplace(row.key.pass, kClasses).first->second;
    const auto limit = std::ranges::lower_bound(kNoiseLimits, 100 * row.measured.spread);
    Class& of = classes[static_cast<std::size_t>(limit - std::begin(kNoiseLimits))];
    ++of.rows;
    if (!of.noisiest || row.measured.spread > of.noisiest->measured.spread) of.noisiest = &row;
  }
  Json json = Json::array();
  for (const auto& [pass, classes] : passes) {
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (classes[i].rows == 0) continue;
      Json line = {{"pass", pass},
                   {"place", i},
                   {"label", i < std::size(kNoiseLimits) ? fmt::format("{}", kNoiseLimits[i]) : "more"},
                   {"rows", classes[i].rows}};
      line.update(example_json(state.plan, *classes[i].noisiest));
      json.push_back(std::move(line));
    }
  }
  return json;
}

/// Configs measured per second of kernel time, over the rows in the order of measuring.
Json rate_json(const SweepState& state) {
  Json curve = Json::array();
  const std::size_t all = state.rows.size(), points = std::min(all, kCurvePoints);
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t begin = i * all / points, end = (i + 1) * all / points;
    double seconds = 0;
    const JournalRow* longest = &state.rows[begin];
    const auto spent = [](const JournalRow& row) {
      const double us = row.measured.time_us * std::max(row.measured.repeats, 1);
      return std::isfinite(us) ? us / 1e6 : 0;
    };
    for (std::size_t row = begin; row < end; ++row) {
      seconds += spent(state.rows[row]);
      if (spent(state.rows[row]) > spent(*longest)) longest = &state.rows[row];
    }
    if (seconds == 0) continue;
    Json point = {{"rows", end}, {"per_second", with_digits(static_cast<double>(end - begin) / seconds, 4)}};
    point.update(example_json(state.plan, *longest));
    curve.push_back(std::move(point));
  }
  return curve;
}

/// The clock at the ends of the batches, in the order of measuring.
Json clocks_json(const std::vector<double>& clocks) {
  Json curve = Json::array();
  const std::size_t points = std::min(clocks.size(), kCurvePoints);
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t at = i * clocks.size() / points;
    curve.push_back({{"batch", at + 1}, {"mhz", clocks[at]}});
  }
  return curve;
}

std::string progress_sentence(const SweepStatus& status) {
  return fmt::format(
      "{} of {} problems are measured completely; {} of {} pairs of a problem and a config have a time or a "
      "reason. {}",
      with_commas(status.problems_done), with_commas(status.problems), with_commas(status.rows),
      with_commas(status.pairs),
      status.last_end.empty()     ? "The newest session runs, or was killed."
      : status.last_end == "done" ? "The sweep is done."
                                  : fmt::format("The newest session ended: {}.", status.last_end));
}

/// Rows per second of the sessions that ended in order; empty when none is known.
std::string rate_sentence(const SweepState& state) {
  std::size_t rows = 0;
  std::int64_t seconds = 0;
  for (const JournalSession& session : state.sessions) {
    rows += session.rows;
    seconds += session.seconds;
  }
  if (seconds <= 0) return {};
  return fmt::format(
      "{} rows were measured in {} seconds: {:.3g} rows per second, verification and set-up included.",
      with_commas(rows), with_commas(static_cast<std::size_t>(seconds)),
      static_cast<double>(rows) / static_cast<double>(seconds));
}

std::string failures_sentence(const SweepStatus& status) {
  if (status.defects() == 0) return "No kernel was wrong, crashed or gave no answer.";
  return fmt::format("{} kernels were wrong, crashed or gave no answer: see the failures below.",
                     with_commas(status.defects()));
}

/// Whether a table has a problem with a fastest kernel.
bool has_choice(const MeasurementTable& table) {
  return std::ranges::any_of(final_rows(table), [](const auto& rows) { return oracle_of(rows).has_value(); });
}

}  // namespace

std::string sweep_report(const std::filesystem::path& folder) {
  const SweepState state = read_state(folder);
  const SweepStatus status = sweep_status(folder);
  const MeasurementTable table = read_sweep(folder);
  const std::string name = std::filesystem::absolute(folder).lexically_normal().filename().string();
  Json json = has_choice(table) ? Json::parse(dataset_report(name, table)) : Json::object();
  json["title"] = fmt::format("Sweep {}", name);
  Json summary = {progress_sentence(status)};
  if (const std::string rate = rate_sentence(state); !rate.empty()) summary.push_back(rate);
  summary.push_back(failures_sentence(status));
  if (json.contains("summary")) summary.insert(summary.end(), json["summary"].begin(), json["summary"].end());
  json["summary"] = std::move(summary);
  if (!json.contains("facts")) json["facts"] = Json::array({{"device", table.device.name}});
  json["sweep"] = {{"problems", status.problems},
                   {"problems_done", status.problems_done},
                   {"pairs", status.pairs},
                   {"rows", status.rows},
                   {"contender_rows", status.contender_rows},
                   {"noisy", status.noisy},
                   {"noisy_contenders", status.noisy_contenders},
                   {"statuses", statuses_json(status)},
                   {"failures", failures_json(state)},
                   {"noise", noise_json(state)},
                   {"rate", rate_json(state)},
                   {"clocks", clocks_json(state.clocks_mhz)}};
  return report_text(json);
}

}  // namespace kscout
