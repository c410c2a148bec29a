#pragma once
/// \file
/// Says what a choice may take where the kernels' library lists algorithms for a problem.
///
///     const auto list = backend.suggestions(problem, kListedAlgorithms);
///     for (const KernelConfig& one : listed_candidates(problem, list, device)) ...
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>

namespace kscout {

/// Number of algorithms that a decision asks a library for: all that it lists first for a problem.
constexpr std::size_t kListedAlgorithms = 64;

/// The first algorithms of a list that are varied: the library seldom lists the best one later.
constexpr std::size_t kVariedAlgorithms = 3;

/// A named algorithm of cuBLASLt, or engine config of cuDNN, with a place in the library's list: n for the
/// n-th, 0 for none. Nothing for configs of other spaces.
std::optional<KernelConfig> listed_config(const KernelConfig& named, std::int32_t place);

/// n for the library's n-th suggestion, the one of its first list; 0 for other configs.
std::int32_t suggestion_place(const KernelConfig& config);
inline bool is_first_suggestion(const KernelConfig& config) { return suggestion_place(config) == 1; }

/// The listed algorithms with their places in the list; then, of cuBLASLt, the first `varied` of them with
/// other numbers of split-K slices, which the library's heuristic does not list although some are faster
/// (docs/bench/releases.md).
/// Leaves out listed ones that are known to compute wrong results, and others that any rule refuses for the
/// problem. Empty for libraries whose configs cannot say both algorithm and place.
std::vector<KernelConfig> listed_candidates(ProblemRef problem, std::span<const KernelConfig> listed,
                                            const Device& device, std::size_t varied = kVariedAlgorithms);

}  // namespace kscout
