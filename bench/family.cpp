// Times the enumeration of CK Tile's rule set `full` of grouped convolutions: all directions, 2-D and 3-D,
// three types, 14,048 configs. The first time includes parsing the files; the second is the median of runs
// with parsed files.
#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "family/family_file.h"

namespace {

using namespace kscout;
using Clock = std::chrono::steady_clock;

struct Run {
  std::size_t configs = 0;
  double ms = 0;
};

Run enumerate_once(const std::string& rules) {
  const auto begin = Clock::now();
  Run run;
  const FamilyRequest request{.provider = "ck_tile",
                              .signature = {},
                              .device = device_preset("gfx942"),
                              .rules = rules,
                              .filter = ""};
  for (const auto& one : enumerate_signatures(request, family_signatures("ck_tile")))
    run.configs += one.configs.size();
  run.ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return run;
}

}  // namespace

int main() {
  constexpr int kRuns = 11;
  fmt::print("{:<12}{:>10}{:>12}{:>12}\n", "rules", "configs", "first ms", "median ms");
  double full_first = 0, full_median = 0;
  for (const std::string rules : {"full", "full-tests", "tiny"}) {
    const Run first = enumerate_once(rules);
    std::vector<double> times;
    for (int i = 0; i < kRuns; ++i) times.push_back(enumerate_once(rules).ms);
    std::ranges::sort(times);
    fmt::print("{:<12}{:>10}{:>12.1f}{:>12.1f}\n", rules, first.configs, first.ms, times[kRuns / 2]);
    if (rules == "full") full_first = first.ms, full_median = times[kRuns / 2];
  }
  fmt::print("RESULT family.full_first_ms {:.1f} ms\nRESULT family.full_ms {:.1f} ms\n", full_first,
             full_median);
}
