#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/hash.h"
#include "core/signatures.h"
#include "dispatch/library_backend.h"
#include "sweep/plan.h"

namespace kscout {

const ConfigSpace& provider_space(std::string_view name, Op op) { return provider(name).space(op); }

namespace {

/// Every `list.size() / most`-th entry, the first among them.
void thin_out(std::vector<std::uint32_t>& list, std::size_t most) {
  if (most == 0 || list.size() <= most) return;
  std::vector<std::uint32_t> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(list[i * list.size() / most]);
  list = std::move(kept);
}

std::vector<Problem> choose_problems(const std::vector<Problem>& problems, const PlanRequest& request) {
  std::vector<Problem> kept;
  std::unordered_set<Problem> seen;
  for (const auto& problem : problems) {
    if (request.max_gflop > 0 && flop_count(problem) > 1e9 * request.max_gflop) continue;
    if (seen.insert(problem).second) kept.push_back(problem);
  }
  if (kept.empty()) {
    fail(Errc::not_found, "none of {} problems is left to measure (--max-gflop {})", problems.size(),
         request.max_gflop);
  }
  if (request.max_problems > 0 && kept.size() > request.max_problems) {
    auto order = seeded_order(kept.size(), request.seed);
    order.resize(request.max_problems);
    std::ranges::sort(order);
    std::vector<Problem> fewer;
    for (const auto i : order) fewer.push_back(kept[i]);
    kept = std::move(fewer);
  }
  return kept;
}

}  // namespace

PlanRequest library_request(LibraryBackend& library) {
  const LibraryIndex& index = library.index();
  return {.provider = std::string(library.provider()),
          .backend = std::string(kLibraryPrefix) + std::filesystem::absolute(index.file).string(),
          .rules = fmt::format("{}@{}", index.name, hash_digits(index.checksum)),
          .library = &library};
}

SweepPlan make_plan(const std::vector<Problem>& problems, const PlanRequest& request, const Device& device,
                    const Protocol& protocol) {
  SweepPlan plan;
  plan.provider = request.provider;
  plan.backend = request.backend;
  plan.rules = request.rules;
  plan.filter = request.filter;
  plan.device = device;
  plan.protocol = protocol;
  if (device.kind == DeviceKind::gpu) plan.protocol.slack_us = 0;
  plan.seed = request.seed;
  plan.problems = choose_problems(problems, request);
  plan.op = plan.problems.front().op();
  for (const Problem& problem : plan.problems) {
    if (problem.op() == plan.op) continue;
    fail(Errc::invalid_argument, "a sweep is of one operation: {} and {} were given; sweep each by itself",
         word(plan.op), word(problem.op()));
  }
  plan.candidates.resize(plan.problems.size());
  plan.provenance = host_provenance();

  // One family per signature; what they share stands once in the plan.
  std::unordered_map<KernelConfig, std::uint32_t> known;
  std::vector<std::uint8_t> serves;
  for (const Signature& signature : signatures_of(plan.problems)) {
    const Family family =
        request.library ? request.library->family(signature, request.rules)
                        : enumerate({request.provider, signature, device, request.rules, request.filter});
    std::vector<std::uint32_t> index;
    for (std::size_t c = 0; c < family.configs.size(); ++c) {
      const auto [at, added] =
          known.emplace(family.configs[c], static_cast<std::uint32_t>(plan.configs.size()));
      if (added) plan.configs.push_back(family.configs[c]);
      index.push_back(at->second);
    }
    for (std::size_t p = 0; p < plan.problems.size(); ++p) {
      if (signature_of(plan.problems[p]) != signature) continue;
      serves.assign(family.configs.size(), 0);
      serving_configs(family, plan.problems[p], serves);
      for (std::size_t c = 0; c < index.size(); ++c) {
        if (serves[c]) plan.candidates[p].push_back(index[c]);
      }
      std::ranges::sort(plan.candidates[p]);
      thin_out(plan.candidates[p], request.max_configs);
    }
  }
  return plan;
}

}  // namespace kscout
