#pragma once
/// \file
/// Measures a sweep's plan in the test's own process.
///
///     audit.add(test::measured_here(plan));
#include <cstdint>
#include <limits>

#include <kscout/backend.h>

#include "measure/measured_backend.h"
#include "measure/problem_bench.h"
#include "sweep/journal.h"

namespace kscout::test {

/// The first pass of the plan, as its journal would hold it.
inline SweepState measured_here(const SweepPlan& plan) {
  SweepState state;
  state.plan = plan;
  Backend& on = backend(plan.backend);
  ProblemBench bench(plan.protocol, 1, instruments_of(on));
  for (std::uint32_t p = 0; p < plan.problems.size(); ++p) {
    bench.open(plan.problems[p]);
    for (const std::uint32_t c : plan.candidates[p]) {
      const Outcome outcome = bench.coarse({&on, plan.configs[c]}, std::numeric_limits<double>::infinity());
      state.rows.push_back({.key = {p, c, 1},
                            .measured = outcome.measured,
                            .reason = static_cast<std::int32_t>(state.reasons.size())});
      state.reasons.push_back(outcome.reason);
    }
  }
  return state;
}

}  // namespace kscout::test
