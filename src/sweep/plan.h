#pragma once
/// \file
/// Plans a sweep: the problems, the configs, the candidates of each problem, and the protocol.
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
#include <kscout/family.h>

#include "measure/protocol.h"

namespace kscout {

class LibraryBackend;

/// Returns the config space of a provider's op, which turns the axes in a manifest into configs.
using SpaceLookup = std::function<const ConfigSpace&(std::string_view provider, Op op)>;
/// The spaces of the registered providers.
const ConfigSpace& provider_space(std::string_view provider, Op op);

/// What a plan leaves out: "problems above --max-gflop 2" and how many.
using LeftOutCounts = std::map<std::string, std::size_t>;

/// "problems above --max-gflop 2: 3; configs ...: 56"; empty when nothing is left out.
std::string left_out_text(const LeftOutCounts& left_out);

/// Removes problems of more operations and counts them in `left_out` under `what`. 0: no limit.
void leave_out_larger(std::vector<Problem>& problems, double max_gflop, const std::string& what,
                      LeftOutCounts& left_out);

struct SweepPlan {
  std::string provider = "native", backend = "cpu", rules, filter;
  Op op = Op::gemm;
  Device device;
  Protocol protocol;
  std::uint64_t seed = 1;             ///< for operands and for the orders of problems and configs
  std::vector<Problem> problems;      ///< all of one op
  std::vector<KernelConfig> configs;  ///< distinct, in family order
  std::vector<std::vector<std::uint32_t>> candidates;  ///< per problem: indices of configs, ascending
  /// Host, compiler, versions, time; not compared when a sweep continues.
  std::map<std::string, std::string> provenance;
  LeftOutCounts left_out;  ///< not compared either

  std::size_t pairs() const;  ///< number of (problem, config) to measure
};

/// For kernels of a library, SweepPlan::backend is this prefix and the path of the library's index.
inline constexpr std::string_view kLibraryPrefix = "library:";

/// Clears the entries of the family's configs that a sweep shall not measure on a problem.
using Narrow = std::function<void(ProblemRef, const Family&, std::vector<std::uint8_t>& measured)>;

struct PlanRequest {
  std::string provider = "native", backend = "cpu", rules = "default", filter = "";
  std::size_t max_configs = 0;   ///< per problem, evenly spaced in the family; 0 = all
  std::size_t max_problems = 0;  ///< the first of the seeded order; 0 = all
  double max_gflop = 0;          ///< larger problems are left out; 0 = no limit
  std::uint64_t seed = 1;
  LeftOutCounts left_out = {};  ///< what the caller left out of the problems; part of the plan's
  Narrow narrow = {};           ///< applied after the rules (sweep/guided.h); none: every config is measured
  Backend* library = nullptr;   ///< kernel library whose configs are measured instead of those of the rules
};

/// The request for a sweep of a kernel library: the backend's name and, as rules, the library's name and
/// checksum. A rebuilt library therefore makes another sweep. The backend must outlive the call of make_plan.
PlanRequest library_request(LibraryBackend& library);

/// Enumerates the family of each signature among the problems. The candidates of a problem are the configs
/// that pass the family's applicability rules. SweepPlan::left_out counts problems above a limit, and
/// problems without a candidate. Throws what enumerate() throws; not_found when no problem is left;
/// invalid_argument when the problems have several ops.
SweepPlan make_plan(const std::vector<Problem>& problems, const PlanRequest& request, const Device& device,
                    const Protocol& protocol);

/// Puts the algorithms that the kernels' library names for each problem, with their places in its list, in
/// place of the problem's suggestions, so that a measurement says what ran; with more than one suggestion all
/// listed_candidates(). The suggestions of a library stay whose configs cannot say both. Opens the backend's
/// device.
void name_suggestions(SweepPlan& plan, Backend& backend);

/// CPU model, compiler, versions and time, for SweepPlan::provenance.
std::map<std::string, std::string> host_provenance();

/// Microseconds of one call of an average config on a device, a rough guess from the problem's
/// operations and bytes.
double expected_call_us(ProblemRef problem, const Device& device);

/// Estimates the seconds that one worker needs for a problem on the plan's device: a rough guess, for
/// --dry-run and for progress.
double estimate_seconds(const SweepPlan& plan, std::size_t problem);

/// The numbers 0 to count - 1, shuffled; depends on the seed only.
std::vector<std::uint32_t> seeded_order(std::size_t count, std::uint64_t seed);

/// The problems of a shard (1 to shards) in the order of measuring.
std::vector<std::uint32_t> measuring_order(const SweepPlan& plan, int shard = 1, int shards = 1);

inline constexpr const char* kManifestName = "manifest.json";

/// Creates the folder and its manifest.json, or checks that an existing manifest describes the same sweep.
/// Returns the manifest's hash, which binds journals to it. Throws invalid_argument naming the first
/// difference, or a file of somebody else in a folder without a sweep; device_failure when the folder cannot
/// be written.
std::string write_manifest(const std::filesystem::path& folder, const SweepPlan& plan);
/// Throws not_found without a manifest, corrupt_data when it cannot be read.
SweepPlan read_manifest(const std::filesystem::path& folder, const SpaceLookup& spaces,
                        std::string* hash = nullptr);

}  // namespace kscout
