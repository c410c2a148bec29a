#include "train/timings.h"

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <kscout/error.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "select/decision_db.h"

namespace kscout {

namespace {

/// The name in a device_identity().
std::string name_of(const std::string& identity) { return identity.substr(0, identity.find('/')); }

/// The config as one of the provider, for a problem of the operation.
std::optional<std::pair<Problem, KernelConfig>> parsed(const StoredTiming& timing, Op op,
                                                       std::string_view of) {
  try {
    const Problem problem = parse_any_problem(timing.problem);
    const NamedConfig named = parse_kernel_to_run(timing.config);
    const auto own = provider(of).own(named.config);
    if (!own || problem.op() != op || !(timing.time_us > 0)) return std::nullopt;
    return std::pair(problem, *own);
  } catch (const Error&) {  // written by a program with other names
    return std::nullopt;
  }
}

}  // namespace

Timings read_timings(const std::filesystem::path& file, std::span<const CompactTable> tables) {
  const CompactTable& first = tables.front();
  if (first.configs.empty() || first.problems.empty())
    fail(Errc::invalid_argument, "{}: timings join a dataset, and this one is empty", file.string());
  std::unordered_set<Problem> measured;
  for (const CompactTable& table : tables) measured.insert(table.problems.begin(), table.problems.end());
  Timings found;
  found.table.device = first.device;
  found.table.metadata = first.metadata;
  std::set<std::string> devices;
  std::map<std::string, std::vector<std::pair<KernelConfig, double>>> by_problem;  // in the order of the file
  std::unordered_map<std::string, Problem> problems;
  for (const StoredTiming& timing : DecisionDb(file).timings()) {
    devices.insert(name_of(timing.device));
    if (name_of(timing.device) != first.device.name) {
      ++found.other_device;
    } else if (const auto known =
                   parsed(timing, first.problems.front().op(), first.configs.front().space->provider);
               !known) {
      ++found.other_kernels;
    } else if (measured.contains(known->first)) {
      ++found.measured;
    } else {
      problems.emplace(timing.problem, known->first);
      by_problem[timing.problem].emplace_back(known->second, timing.time_us);
    }
  }
  MeasurementTable& table = found.table;
  std::unordered_map<KernelConfig, std::uint32_t> positions;
  for (const auto& [text, timed] : by_problem) {
    if (timed.size() < 2) {
      ++found.alone;
      continue;
    }
    for (const auto& [config, time_us] : timed) {
      const auto [at, added] = positions.emplace(config, static_cast<std::uint32_t>(table.configs.size()));
      if (added) table.configs.push_back(config);
      table.rows.push_back(
          {static_cast<std::uint32_t>(table.problems.size()), at->second, {.pass = 2, .time_us = time_us}});
    }
    table.problems.push_back(problems.at(text));
  }
  if (table.rows.empty())
    fail(Errc::invalid_argument,
         "{}: no timing to learn from: {} of other devices than '{}' (the file has {}), {} of other kernels, "
         "{} of "
         "problems that the datasets have, {} problems with one timing",
         file.string(), found.other_device, first.device.name, fmt::join(devices, ", "), found.other_kernels,
         found.measured, found.alone);
  return found;
}

}  // namespace kscout
