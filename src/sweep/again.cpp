#include "sweep/again.h"

#include <algorithm>

#include "core/fail.h"

namespace kscout {

SweepPlan contenders_again(const SweepState& before, const Device& device) {
  const SweepPlan& whole = before.plan;
  if (!(whole.device == device)) {
    fail(Errc::invalid_argument,
         "this device ('{}') is not the one that was measured ('{}'), or other facts are known of it",
         device.name, whole.device.name);
  }
  SweepPlan plan = whole;
  plan.seed = whole.seed + 1;
  plan.provenance = host_provenance();
  plan.problems.clear();
  plan.candidates.clear();
  std::vector<std::vector<std::uint32_t>> contenders(whole.problems.size());
  for (const JournalRow& row : before.rows) {
    if (row.key.pass == 2 && row.measured.status == Status::ok)
      contenders[row.key.problem].push_back(row.key.config);
  }
  for (std::size_t p = 0; p < contenders.size(); ++p) {
    if (contenders[p].empty()) continue;
    std::ranges::sort(contenders[p]);
    plan.problems.push_back(whole.problems[p]);
    plan.candidates.push_back(std::move(contenders[p]));
  }
  if (plan.problems.empty())
    fail(Errc::not_found,
         "no problem of {} has contenders: its sweep had no second pass, or has not come to it",
         whole.problems.size());
  return plan;
}

}  // namespace kscout
