#include "sweep/plan.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include <sys/utsname.h>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "backend/library/library_backend.h"
#include "core/build_info.h"
#include "core/device_facts.h"
#include "core/fail.h"
#include "core/hash.h"
#include "core/indexing.h"
#include "family/listed.h"
#include "family/rules.h"
#include "sweep/journal.h"

namespace kscout {

namespace {

constexpr const char* kNoConfigApplies = "problems to which no config applies";

/// Adds to a count; zeros make no entry.
void count_left_out(LeftOutCounts& left_out, const std::string& what, std::size_t count) {
  if (count > 0) left_out[what] += count;
}

}  // namespace

std::string left_out_text(const LeftOutCounts& left_out) {
  std::string text;
  for (const auto& [what, count] : left_out)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, count);
  return text;
}

void leave_out_larger(std::vector<Problem>& problems, double max_gflop, const std::string& what,
                      LeftOutCounts& left_out) {
  if (!(max_gflop > 0)) return;
  count_left_out(left_out, what, std::erase_if(problems, [&](const Problem& problem) {
                   return flop_count(problem) > 1e9 * max_gflop;
                 }));
}

std::size_t SweepPlan::pairs() const {
  std::size_t count = 0;
  for (const auto& list : candidates) count += list.size();
  return count;
}

std::vector<std::uint32_t> seeded_order(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = count; i > 1; --i) {
    seed = mix_hash(seed, i);
    std::swap(order[i - 1], order[seed % i]);
  }
  return order;
}

std::map<std::string, std::string> host_provenance() {
  std::map<std::string, std::string> facts;
  const BuildInfo& build = build_info();
  facts["kscout_version"] = build.version;
  facts["git_version"] = build.git;
  facts["compiler"] = fmt::format("{} {}", build.compiler, build.flags);
  utsname system{};
  if (uname(&system) == 0) {
    // Text after the version names the build of a distribution or a site, which is left out.
    const std::string_view release = system.release;
    facts["system"] =
        fmt::format("{} {} {}", system.sysname, release.substr(0, release.find('-')), system.machine);
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    facts["cpu_model"] = line.substr(std::min(line.find(": ") + 2, line.size()));
    break;
  }
  char text[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  facts["created"] = text;
  return facts;
}

namespace {

/// What an average config of a device reaches.
struct Speed {
  double flop_per_us, bytes_per_us, fixed_us;
};

Speed average_speed(const Device& device) {
  constexpr double kShareOfPeak = 0.35;
  const auto or_else = [](double fact, double otherwise) { return std::isfinite(fact) ? fact : otherwise; };
  if (device.kind != DeviceKind::gpu)
    return {kShareOfPeak * 1e3 * or_else(peak_fp32_gflops(device), 100.0), 8e3, 150};
  // Multiplications that a core's matrix units start per cycle with 16-bit operands.
  constexpr double kFlopPerCycle = 2048;
  return {kShareOfPeak * or_else(device.cores, 100) * or_else(device.max_clock_mhz, 1500) * kFlopPerCycle,
          1e3 * or_else(device.memory_gb_s, 1000), 500};
}

}  // namespace

double expected_call_us(ProblemRef problem, const Device& device) {
  const Speed speed = average_speed(device);
  return std::max(flop_count(problem) / speed.flop_per_us, min_bytes(problem) / speed.bytes_per_us);
}

double estimate_seconds(const SweepPlan& plan, std::size_t problem) {
  // A config gets about four calls; verification reads the operands once.
  constexpr double kCalls = 4;
  const double call_us = expected_call_us(plan.problems[problem], plan.device);
  return static_cast<double>(plan.candidates[problem].size()) *
         (average_speed(plan.device).fixed_us + kCalls * call_us) / 1e6;
}

std::vector<std::uint32_t> measuring_order(const SweepPlan& plan, int shard, int shards) {
  std::vector<std::uint32_t> mine;
  const auto order = seeded_order(plan.problems.size(), plan.seed);
  for (auto i = static_cast<std::size_t>(shard - 1); i < order.size(); i += static_cast<std::size_t>(shards))
    mine.push_back(order[i]);
  return mine;
}

const ConfigSpace& provider_space(std::string_view name, Op op) { return provider(name).space(op); }

namespace {

/// Keeps every `list.size() / most`-th entry, beginning with the first.
void keep_evenly_spaced(std::vector<std::uint32_t>& list, std::size_t most) {
  if (most == 0 || list.size() <= most) return;
  std::vector<std::uint32_t> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(list[i * list.size() / most]);
  list = std::move(kept);
}

std::vector<Problem> choose_problems(const std::vector<Problem>& problems, const PlanRequest& request,
                                     LeftOutCounts& left_out) {
  std::vector<Problem> kept;
  std::unordered_set<Problem> seen;
  for (const auto& problem : problems) {
    if (seen.insert(problem).second) kept.push_back(problem);
  }
  leave_out_larger(kept, request.max_gflop, fmt::format("problems above --max-gflop {}", request.max_gflop),
                   left_out);
  if (kept.empty()) {
    fail(Errc::not_found, "no problem is left to measure{}{}",
         left_out.empty() ? "" : "; left out: ", left_out_text(left_out));
  }
  if (request.max_problems > 0 && kept.size() > request.max_problems) {
    auto order = seeded_order(kept.size(), request.seed);
    count_left_out(left_out, fmt::format("problems beyond --max-problems {}", request.max_problems),
                   order.size() - request.max_problems);
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
  plan.left_out = request.left_out;
  plan.problems = choose_problems(problems, request, plan.left_out);
  plan.op = plan.problems.front().op();
  for (const Problem& problem : plan.problems) {
    if (problem.op() == plan.op) continue;
    fail(Errc::invalid_argument, "a sweep is of one operation: {} and {} were given; sweep each by itself",
         word(plan.op), word(problem.op()));
  }
  plan.candidates.resize(plan.problems.size());
  plan.provenance = host_provenance();

  // One family per signature; a config that several families share appears once in the plan.
  std::unordered_map<KernelConfig, std::uint32_t> known;
  std::vector<std::uint8_t> applicable;
  ApplicabilityRules::Scratch scratch;
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
    const ApplicabilityRules rules(family.applicability, family.configs, family.traits, family.device);
    for (std::size_t p = 0; p < plan.problems.size(); ++p) {
      if (signature_of(plan.problems[p]) != signature) continue;
      applicable.assign(family.configs.size(), 1);
      rules.evaluate(plan.problems[p], applicable, scratch);
      if (request.narrow) request.narrow(plan.problems[p], family, applicable);
      for (std::size_t c = 0; c < index.size(); ++c) {
        if (applicable[c]) plan.candidates[p].push_back(index[c]);
      }
      std::ranges::sort(plan.candidates[p]);
      keep_evenly_spaced(plan.candidates[p], request.max_configs);
    }
  }
  count_left_out(plan.left_out, kNoConfigApplies,
                 static_cast<std::size_t>(
                     std::ranges::count_if(plan.candidates, [](const auto& list) { return list.empty(); })));
  return plan;
}

void name_suggestions(SweepPlan& plan, Backend& backend) {
  const Provider& of = provider(plan.provider);
  std::unordered_map<KernelConfig, std::uint32_t> known;
  for (const KernelConfig& config : plan.configs)
    known.emplace(config, static_cast<std::uint32_t>(known.size()));
  for (std::size_t p = 0; p < plan.problems.size(); ++p) {
    const Signature signature = signature_of(plan.problems[p]);
    const auto place = [&](std::uint32_t c) {
      return std::max(0.0, of.traits(signature, plan.configs[c], plan.device).suggestion);
    };
    std::vector<std::uint32_t>& candidates = plan.candidates[p];
    double last = 0;
    for (const std::uint32_t c : candidates) last = std::max(last, place(c));
    if (!(last > 0)) continue;
    std::vector<std::uint32_t> named;
    const auto listed = backend.suggestions(plan.problems[p], static_cast<std::size_t>(last));
    const std::size_t varied = last > 1 ? kVariedAlgorithms : 0;
    for (const KernelConfig& one : listed_candidates(plan.problems[p], listed, plan.device, varied)) {
      const auto [at, added] = known.emplace(*of.own(one), static_cast<std::uint32_t>(plan.configs.size()));
      if (added) plan.configs.push_back(at->first);
      named.push_back(at->second);
    }
    if (named.empty()) continue;
    std::erase_if(candidates, [&](std::uint32_t c) { return place(c) > 0; });
    candidates.insert(candidates.end(), named.begin(), named.end());
    std::ranges::sort(candidates);
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  }
}

SweepPlan remeasure_contenders(const SweepState& before, const Device& device) {
  const SweepPlan& whole = before.plan;
  if (const std::string why = device_difference(whole.device, device); !why.empty())
    fail(Errc::invalid_argument, "this device is not the one that was measured: {}", why);
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
  plan.left_out.clear();
  for (std::size_t p = 0; p < contenders.size(); ++p) {
    if (contenders[p].empty()) {
      ++plan.left_out["problems without contenders in the earlier sweep"];
      continue;
    }
    std::ranges::sort(contenders[p]);
    plan.problems.push_back(whole.problems[p]);
    plan.candidates.push_back(std::move(contenders[p]));
  }
  if (plan.problems.empty())
    fail(Errc::not_found,
         "no problem of {} has contenders: its sweep had no second pass, or has not reached it",
         whole.problems.size());
  return plan;
}

}  // namespace kscout
