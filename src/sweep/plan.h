#pragma once
/// \file
/// What a sweep measures: problems, configs, which config is tried on which problem, and how.
///
///     SweepPlan plan = make_plan(problems, {.rules = "default"}, device, protocol);
///     write_manifest(folder, plan);              // once; a second call checks that it is the same sweep
///     SweepPlan again = read_manifest(folder, provider_space);
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/measurement.h>
#include <kscout/problem.h>

namespace kscout {

/// How each (problem, config) is timed. Part of the sweep's identity: one folder holds one protocol.
struct Protocol {
  CacheState cache = CacheState::warm;
  std::int32_t warmup = 1;         ///< calls before the first timed one, besides the verified call
  std::int32_t repeat = 0;         ///< > 0: exactly this many samples each, no races, no contenders
  double patience = 8;             ///< waits for a steady machine, at most this times the time of the calls
  double coarse_target = 0.05;     ///< pass 1: relative half width of the median's confidence interval
  double coarse_budget_us = 3e4;   ///< pass 1: time for the samples of one config
  double hopeless = 2;             ///< pass 1: first run slower than this times the best: raced out
  double race = 1.5;               ///< pass 1: both of two samples slower than this times the best: raced out
  double contender = 2;            ///< pass 2 takes configs up to this times the best
  std::int32_t contenders = 48;    ///< and at most so many
  double tight_target = 0.01;      ///< pass 2: relative half width
  double tight_budget_us = 2.5e5;  ///< pass 2: time for the samples of one problem
  bool operator==(const Protocol&) const = default;
};

template <>
struct Fields<Protocol> {
  using T = Protocol;
  static constexpr auto list = std::tuple{
      Field{"cache", &T::cache, "1", "cache state before each run"},
      Field{"warmup", &T::warmup, "calls", "untimed calls before the samples"},
      Field{"repeat", &T::repeat, "samples", "fixed number of samples; 0 = adaptive"},
      Field{"patience", &T::patience, "1", "longest waits for a steady machine over the time of the calls"},
      Field{"coarse_target", &T::coarse_target, "1", "pass 1: half width of the interval over the median"},
      Field{"coarse_budget_us", &T::coarse_budget_us, "us", "pass 1: time for one config"},
      Field{"hopeless", &T::hopeless, "1", "pass 1: raced out after one run slower than this times the best"},
      Field{"race", &T::race, "1", "pass 1: raced out after two samples slower than this times the best"},
      Field{"contender", &T::contender, "1", "pass 2: configs up to this times the best"},
      Field{"contenders", &T::contenders, "configs", "pass 2: at most so many"},
      Field{"tight_target", &T::tight_target, "1", "pass 2: half width of the interval over the median"},
      Field{"tight_budget_us", &T::tight_budget_us, "us", "pass 2: time for one problem"},
  };
};

/// The config space of a provider's op: how a manifest's axes become configs again.
using SpaceLookup = std::function<const ConfigSpace&(std::string_view provider, Op op)>;
/// The spaces of the registered providers.
const ConfigSpace& provider_space(std::string_view provider, Op op);

struct SweepPlan {
  std::string provider = "native", backend = "cpu", rules, filter;
  Op op = Op::gemm;
  Device device;
  Protocol protocol;
  std::uint64_t seed = 1;  ///< of operands and of the orders of problems and configs
  std::vector<GemmProblem> problems;
  std::vector<KernelConfig> configs;                   ///< distinct, in family order
  std::vector<std::vector<std::uint32_t>> candidates;  ///< per problem: indices of configs, ascending
  std::map<std::string, std::string> provenance;  ///< host, compiler, versions, time; no part of the identity

  std::size_t pairs() const;  ///< (problem, config) to measure
};

struct PlanRequest {
  std::string provider = "native", backend = "cpu", rules = "default", filter = "";
  std::size_t max_configs = 0;   ///< per problem, evenly spread over the family; 0 = all
  std::size_t max_problems = 0;  ///< first ones of the seeded order; 0 = all
  double max_gflop = 0;          ///< leave larger problems out; 0 = none
  std::uint64_t seed = 1;
};

/// Enumerates the family of each signature among the problems; a config is a candidate when the family's
/// serve rules admit it. Throws what enumerate() throws; not_found when no problem is left.
SweepPlan make_plan(const std::vector<GemmProblem>& problems, const PlanRequest& request,
                    const Device& device, const Protocol& protocol);

/// CPU model, compiler, versions, time: what a plan of this machine carries as provenance.
std::map<std::string, std::string> host_provenance();

/// Seconds that one worker may need for a problem on the plan's device: a rough guess, for --dry-run and for
/// how far a sweep has come.
double estimate_seconds(const SweepPlan& plan, std::size_t problem);

/// 0 to count - 1, shuffled: a function of the seed alone.
std::vector<std::uint32_t> seeded_order(std::size_t count, std::uint64_t seed);

/// The problems of a shard (1 to shards) in the order of measuring.
std::vector<std::uint32_t> measuring_order(const SweepPlan& plan, int shard = 1, int shards = 1);

inline constexpr const char* kManifestName = "manifest.json";

/// Creates the folder and its manifest.json, or checks that the one there describes the same sweep. Throws
/// invalid_argument naming the first difference, device_failure when the folder cannot be written.
/// Returns the manifest's hash, which binds journals to it.
std::string write_manifest(const std::filesystem::path& folder, const SweepPlan& plan);
/// Throws not_found without a manifest, corrupt_data when it cannot be read.
SweepPlan read_manifest(const std::filesystem::path& folder, const SpaceLookup& spaces,
                        std::string* hash = nullptr);

}  // namespace kscout
