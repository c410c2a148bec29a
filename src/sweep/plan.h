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

#include <kscout/any_problem.h>
#include <kscout/backend.h>
#include <kscout/config.h>
#include <kscout/device.h>

#include "measure/protocol.h"

namespace kscout {

class LibraryBackend;

/// The config space of a provider's op: how a manifest's axes become configs again.
using SpaceLookup = std::function<const ConfigSpace&(std::string_view provider, Op op)>;
/// The spaces of the registered providers.
const ConfigSpace& provider_space(std::string_view provider, Op op);

struct SweepPlan {
  std::string provider = "native", backend = "cpu", rules, filter;
  Op op = Op::gemm;
  Device device;
  Protocol protocol;
  std::uint64_t seed = 1;             ///< of operands and of the orders of problems and configs
  std::vector<Problem> problems;      ///< all of one operation
  std::vector<KernelConfig> configs;  ///< distinct, in family order
  std::vector<std::vector<std::uint32_t>> candidates;  ///< per problem: indices of configs, ascending
  std::map<std::string, std::string> provenance;  ///< host, compiler, versions, time; no part of the identity

  std::size_t pairs() const;  ///< (problem, config) to measure
};

/// Before the path of an index: SweepPlan::backend of the kernels of a library.
inline constexpr std::string_view kLibraryPrefix = "library:";

struct PlanRequest {
  std::string provider = "native", backend = "cpu", rules = "default", filter = "";
  std::size_t max_configs = 0;   ///< per problem, evenly spread over the family; 0 = all
  std::size_t max_problems = 0;  ///< first ones of the seeded order; 0 = all
  double max_gflop = 0;          ///< leave larger problems out; 0 = none
  std::uint64_t seed = 1;
  Backend* library = nullptr;  ///< measure what this one holds, not what the rules enumerate
};

/// What a sweep of a kernel library is asked for: the backend's name and, as rules, the library's name and
/// checksum, so that a library that was built anew is another sweep. The backend must outlive make_plan.
PlanRequest library_request(LibraryBackend& library);

/// Enumerates the family of each signature among the problems; a config is a candidate when the family's
/// applicability rules admit it. Throws what enumerate() throws; not_found when no problem is left,
/// invalid_argument when the problems are of several operations.
SweepPlan make_plan(const std::vector<Problem>& problems, const PlanRequest& request, const Device& device,
                    const Protocol& protocol);

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
