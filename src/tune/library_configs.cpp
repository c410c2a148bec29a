#include "tune/library_configs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include <kscout/family.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/harvest.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/indexing.h"
#include "core/links.h"
#include "core/process.h"
#include "dataset/operations.h"
#include "evaluate/baselines.h"
#include "family/family_file.h"

namespace kscout {

namespace {

/// Per problem: later suggestions are rarely the fastest.
constexpr int kSuggestions = 10;
/// Seconds for all problems, the loading of the library included.
constexpr double kHarvestLimit = 120;
/// Share of the best speed that the shortlist keeps, in the mean over problems.
constexpr double kKeep = 0.999;

std::string harvest_here(const std::vector<Problem>& problems) {
  ExplicitRuleSet set{.name = "harvested", .help = "suggested algorithms", .extends = "tiny", .blocks = {}};
  for (const Harvest& found : harvest(problems, {.suggestions = kSuggestions, .widen = 0}))
    set.blocks.push_back({found.signature, found.suggested});
  const FamilyFile& known = family_file(cublaslt_gemm_space.provider, Op::gemm);
  const int release = std::stoi(cuda_backend().versions().at("cublaslt_version"));
  if (std::ranges::find(known.releases, release) != known.releases.end()) set.extends = "pruned";
  return rule_sets_text(cublaslt_gemm_space.provider, Op::gemm, {set});
}

}  // namespace

std::string harvested_rules(const std::vector<Problem>& problems) {
  constexpr char kDone = 'r', kUnsupported = 'u', kFailed = 'f';
  cuda_backend().device();  // asks the driver in a child of its own
  const ChildResult result = in_child(kHarvestLimit, [&]() -> std::string {
    try {
      return kDone + harvest_here(problems);
    } catch (const Error& error) {
      return (error.code() == Errc::unsupported ? kUnsupported : kFailed) + std::string(error.what());
    }
  });
  if (!result.failure.empty())
    fail(Errc::device_failure, "asking cuBLASLt for its algorithms {}", result.failure);
  const std::string text = result.output.substr(1);
  if (result.output.front() == kDone) return text;
  fail(result.output.front() == kUnsupported ? Errc::unsupported : Errc::device_failure, "{}", text);
}

std::string shortlist_rules(const MeasurementTable& pilot) {
  ExplicitRuleSet set{.name = "shortlist",
                      .help = fmt::format("keeps {:g} % of the best speed", 100 * kKeep),
                      .extends = "tiny",
                      .blocks = {}};
  const ConfigSpace& space = *pilot.configs.front().space;
  for (const Signature& signature : signatures_of(pilot.problems)) {
    const Family given = enumerate({.provider = std::string(space.provider),
                                    .signature = signature,
                                    .device = pilot.device,
                                    .rules = set.extends,
                                    .filter = {}});
    PruneRequest request{.keep = kKeep};
    for (std::size_t i = 0; i < given.configs.size(); ++i) request.given.push_back(given.configs[i]);
    const auto alike = [&](const Problem& problem) { return signature_of(problem) == signature; };
    set.blocks.push_back({signature, prune(table_of_problems(pilot, alike), request).configs});
  }
  return rule_sets_text(space.provider, space.op, {set});
}

SweepPlan plan_of_rules(const std::string& rules, const std::vector<Problem>& problems, PlanRequest request,
                        const Device& device, const Protocol& protocol) {
  const TemporaryFolder folder("kscout-tune");
  request.rules = (folder.path() / "rules.toml").string();
  write_file_atomically(request.rules, rules);
  SweepPlan plan = make_plan(problems, request, device, protocol);
  plan.rules = kMeasuredRules;
  return plan;
}

MeasurementTable rows_of_configs(const MeasurementTable& table, const std::vector<KernelConfig>& configs) {
  const std::unordered_set<KernelConfig> wanted(configs.begin(), configs.end());
  MeasurementTable kept = table;
  kept.configs.clear();
  std::vector<std::uint32_t> position(table.configs.size());
  for (std::size_t i = 0; i < table.configs.size(); ++i) {
    position[i] = static_cast<std::uint32_t>(kept.configs.size());
    if (wanted.contains(table.configs[i])) kept.configs.push_back(table.configs[i]);
  }
  std::erase_if(kept.rows, [&](const auto& row) { return !wanted.contains(table.configs[row.config]); });
  for (auto& row : kept.rows) row.config = position[row.config];
  return kept;
}

}  // namespace kscout
