#include "sweep/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "sweep/queue.h"

namespace kscout {

std::string general_reason(Status status, const std::string& reason) {
  std::string text = reason;
  // Messages of the library begin with the problem.
  if (const std::size_t end = reason.find(": "); reason.starts_with("gemm:") && end != std::string::npos)
    text = reason.substr(end + 2);
  if (reason.starts_with("C(")) text = "an element differs from the reference";
  if (reason.starts_with("row ")) text = "a row differs from the reference";
  return fmt::format("{}: {}", word(status), text);
}

SweepStatus sweep_status(const std::filesystem::path& folder, const SpaceLookup& spaces) {
  const SweepState state = read_state(folder, spaces);
  SweepStatus out;
  out.problems = state.plan.problems.size();
  out.problems_done =
      WorkQueue(state.plan, measuring_order(state.plan), state.rows, state.deaths).problems_done();
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
    out.noisy += row.measured.status == Status::ok && row.measured.noisy;
    if (row.reason >= 0) {
      ++out.reasons[general_reason(row.measured.status, state.reasons[static_cast<std::size_t>(row.reason)])];
    }
  }
  return out;
}

}  // namespace kscout
