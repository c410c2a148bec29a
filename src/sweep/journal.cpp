
#include "sweep/journal.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/names.h"
#include "core/part_name.h"
#include "family/family_file.h"
#include "sweep/queue.h"

namespace kscout {

std::string journal_name(int shard, int shards) {
  return shards <= 1 ? "journal.log" : fmt::format("journal-{}of{}.log", shard, shards);
}

namespace {

bool is_journal_name(std::string_view name) { return name.starts_with("journal") && name.ends_with(".log"); }

}  // namespace

bool is_sweep_file(const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const std::string_view finished = finished_name(name);
  return entry.is_regular_file() &&
         (finished == kManifestName || finished == "worker.log" || is_journal_name(finished));
}

void check_new_sweep_folder(const std::filesystem::path& folder,
                            const std::function<bool(const std::filesystem::directory_entry&)>& own) {
  if (const auto other = foreign_entry(folder, own); !other.empty())
    fail(Errc::invalid_argument,
         "{} holds {} and no sweep: give a new folder, or that of a sweep to continue", folder.string(),
         other.filename().string());
}

std::vector<std::filesystem::path> journal_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_journal_name(entry.path().filename().string())) files.push_back(entry.path());
  }
  if (error) fail(Errc::device_failure, "{}: cannot list it: {}", folder.string(), error.message());
  std::ranges::sort(files);
  return files;
}

JournalContents merge_journals(const std::filesystem::path& folder, const std::string& manifest_hash,
                               const JournalLimits& limits) {
  JournalContents all;
  std::set<SweepKey> seen;
  for (const auto& file : journal_files(folder)) {
    const JournalContents one = load_journal(file, manifest_hash, limits, boot_id());
    const auto first_reason = static_cast<std::int32_t>(all.reasons.size());
    all.reasons.insert(all.reasons.end(), one.reasons.begin(), one.reasons.end());
    for (JournalRow row : one.rows) {
      if (row.reason >= 0) row.reason += first_reason;
      if (seen.insert(row.key).second) all.rows.push_back(row);
    }
    all.clocks_mhz.insert(all.clocks_mhz.end(), one.clocks_mhz.begin(), one.clocks_mhz.end());
    all.sessions.insert(all.sessions.end(), one.sessions.begin(), one.sessions.end());
    for (const auto& [key, count] : one.crashes) all.crashes[key] += count;
    if (one.last_session > all.last_session) {
      all.last_session = one.last_session;
      all.last_end = one.last_end;
    }
  }
  return all;
}

SweepState read_state(const std::filesystem::path& folder, const SpaceLookup& spaces) {
  std::string hash;
  SweepPlan plan = read_manifest(folder, spaces, &hash);
  const JournalLimits limits{plan.problems.size(), plan.configs.size(), plan.protocol.cache};
  return {merge_journals(folder, hash, limits), std::move(plan), hash};
}

MeasurementTable read_sweep(const std::filesystem::path& folder, const SpaceLookup& spaces,
                            std::size_t* unfinished) {
  SweepState state = read_state(folder, spaces);
  const WorkQueue queue(state.plan, measuring_order(state.plan), state.rows, state.crashes);
  std::set<std::uint32_t> begun;
  MeasurementTable table;
  table.device = state.plan.device;
  table.problems = std::move(state.plan.problems);
  table.configs = std::move(state.plan.configs);
  for (const auto& row : state.rows) {
    if (queue.is_done(row.key.problem)) {
      table.rows.push_back({row.key.problem, row.key.config, row.measured});
    } else {
      begun.insert(row.key.problem);
    }
  }
  if (unfinished) *unfinished = begun.size();
  table.metadata = state.plan.provenance;
  if (!state.clocks_mhz.empty()) {
    const auto [low, high] = std::ranges::minmax(state.clocks_mhz);
    table.metadata["clock_mhz_min"] = field_text(low);
    table.metadata["clock_mhz_max"] = field_text(high);
  }
  table.metadata["provider"] = state.plan.provider;
  table.metadata["backend"] = state.plan.backend;
  const bool of_library = state.plan.backend.starts_with(kLibraryPrefix);
  table.metadata["rules"] = of_library ? std::string(kMeasuredRules) : rules_name(state.plan.rules);
  if (of_library) table.metadata["library"] = state.plan.rules;
  table.metadata["filter"] = state.plan.filter;
  table.metadata["seed"] = std::to_string(state.plan.seed);
  for_each_field<Protocol>([&](const auto& field) {
    table.metadata["protocol." + std::string(field.name)] = field_text(state.plan.protocol.*field.member);
  });
  return table;
}

std::string_view status_meaning(Status status) {
  switch (status) {
    case Status::ok:
      return "correct and timed";
    case Status::pruned_early:
      return "pruned early: correct, but too slow to win";
    case Status::wrong:
      return "wrong result";
    case Status::crashed:
      return "crashed, or failed";
    case Status::timeout:
      return "no answer in time";
    case Status::unsupported:
      return "refused by a rule or the backend";
    case Status::left_out:
      return "not built within --compile-budget";
  }
  return "";
}

std::string general_reason(Status status, const std::string& reason) {
  std::string text = reason;
  // Messages of the library begin with the problem's text, which differs from row to row.
  const std::size_t end = reason.find(": ");
  const bool of_problem = find_word(reason.substr(0, reason.find(':')), EnumWords<Op>::words).has_value();
  if (of_problem && end != std::string::npos) text = reason.substr(end + 2);
  if (reason.starts_with("C(") || reason.starts_with("element "))
    text = "an element differs from the reference";
  if (reason.starts_with("row ")) text = "a row differs from the reference";
  return fmt::format("{}: {}", word(status), text);
}

SweepStatus sweep_status(const std::filesystem::path& folder, const SpaceLookup& spaces) {
  const SweepState state = read_state(folder, spaces);
  SweepStatus out;
  out.problems = state.plan.problems.size();
  out.problems_done =
      WorkQueue(state.plan, measuring_order(state.plan), state.rows, state.crashes).problems_done();
  out.plan_left_out = state.plan.left_out;
  out.pairs = state.plan.pairs();
  out.last_end = state.last_end;
  out.clocks_mhz = state.clocks_mhz;
  std::ranges::sort(out.clocks_mhz);
  for (const auto& row : state.rows) {
    if (row.key.pass == 1) {
      ++out.rows;
      ++out.by_status[static_cast<std::size_t>(row.measured.status)];
    } else {
      ++out.contender_rows;
    }
    const bool noisy = row.measured.status == Status::ok && row.measured.noisy;
    (row.key.pass == 1 ? out.noisy : out.noisy_contenders) += noisy;
    if (row.reason >= 0) {
      ++out.reasons[general_reason(row.measured.status, state.reasons[static_cast<std::size_t>(row.reason)])];
    }
  }
  return out;
}

}  // namespace kscout
