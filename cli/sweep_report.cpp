#include "sweep_report.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace kscout::cli {

namespace {

/// How the workers spent their time, in percent.
std::string spent_text(const TimeSpent& spent) {
  const auto all = static_cast<double>(spent.kernels + spent.flushes + spent.verify + spent.operands);
  const auto percent = [&](std::int64_t part) {
    return 100 * static_cast<double>(part) / std::max(all, 1.0);
  };
  return fmt::format("kernels {:.0f} %, flushes {:.0f} %, verification {:.0f} %, operands {:.0f} %",
                     percent(spent.kernels), percent(spent.flushes), percent(spent.verify),
                     percent(spent.operands));
}

}  // namespace

Json status_json(const SweepStatus& status, const SweepReport* report) {
  Json out{{"problems", status.problems},
           {"problems_done", status.problems_done},
           {"plan_left_out", status.plan_left_out},
           {"pairs", status.pairs},
           {"rows", status.rows},
           {"contender_rows", status.contender_rows},
           {"noisy", status.noisy},
           {"noisy_contenders", status.noisy_contenders},
           {"ended", report ? report->ended : status.last_end}};
  for (std::size_t s = 0; s < status.by_status.size(); ++s) {
    out["status"][std::string(EnumWords<Status>::words[s])] = status.by_status[s];
  }
  out["reasons"] = status.reasons;
  if (const auto& clocks = status.clocks_mhz; !clocks.empty())
    out["clock_mhz"] = {
        {"min", clocks.front()}, {"median", clocks[clocks.size() / 2]}, {"max", clocks.back()}};
  if (report) {
    out["session"] = {{"rows", report->progress.rows},
                      {"seconds", report->progress.elapsed_s},
                      {"rows_per_second", report->rows_per_s},
                      {"overhead", report->overhead}};
  }
  return out;
}

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_status(const SweepStatus& status, const SweepReport* report, Format format) {
  if (format == Format::json) return print_json(status_json(status, report));
  const auto as_number = [](std::size_t value) { return number(static_cast<std::int64_t>(value)); };
  Table facts({"fact", "value", "meaning"});
  const auto add = [&](std::string_view fact, Cell value, std::string_view meaning) {
    facts.add_row({text(fact), std::move(value), text(meaning)});
  };
  add("problems", as_number(status.problems), "in the plan");
  add("problems_done", as_number(status.problems_done), "measured completely");
  for (const auto& [what, count] : status.plan_left_out) add("plan_left_out", as_number(count), what);
  add("pairs", as_number(status.pairs), "of a problem and a config, in the plan");
  add("rows", as_number(status.rows), "pairs measured in the first pass, by status:");
  for (std::size_t s = 0; s < status.by_status.size(); ++s) {
    const auto word = EnumWords<Status>::words[s];
    if (status.by_status[s])
      add(word, as_number(status.by_status[s]), status_meaning(static_cast<Status>(s)));
  }
  add("noisy", as_number(status.noisy), "of the rows with status ok: their interval stayed wide");
  add("contender_rows", as_number(status.contender_rows), "of the fastest configs, in the second pass");
  add("noisy_contenders", as_number(status.noisy_contenders), "of the contender rows");
  if (const auto& clocks = status.clocks_mhz; !clocks.empty()) {
    add("clock_mhz",
        text(fmt::format("{:.0f} to {:.0f}, median {:.0f}", clocks.front(), clocks.back(),
                         clocks[clocks.size() / 2])),
        "of the device");
  }
  if (report) {
    add("session_rows", as_number(report->progress.rows), "measured by this command, in both passes");
    add("session_s", number(report->progress.elapsed_s, 4), "seconds of this command");
    add("rows_per_s", number(report->rows_per_s, 4), "of this command");
    add("overhead", number(report->overhead, 3), "share of the time outside kernels, flushes, verification");
    add("spent", text(spent_text(report->spent)), "by the workers of this command");
  }
  const std::string ended = report ? report->ended : status.last_end;
  add("ended", text(ended.empty() ? "not in order (running, or killed)" : ended), "the newest session");
  facts.print(format);
  if (status.reasons.empty() || format == Format::csv) return;
  Table reasons({"count", "why"});
  for (const auto& [reason, count] : status.reasons) reasons.add_row({as_number(count), text(reason)});
  fmt::print("\n");
  reasons.print(format);
}

}  // namespace kscout::cli
