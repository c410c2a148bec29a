#pragma once
/// \file
/// Reads and writes the times of a few problems that a model's folder records, so that `kscout check` can
/// time these problems again.
///
///     for (const ReferenceProblem& one : read_reference_times(folder, provider("nvidia"))) ...
///
/// The file is CSV with one row per (problem, config): problem, config, cache, time_us, chosen. Format:
/// docs/formats/model-folder.md.
#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/measurement.h>
#include <kscout/provider.h>

namespace kscout {

/// File of a model folder.
inline constexpr const char* kReferenceTimesFile = "reference_times.csv";

struct ReferenceTime {
  KernelConfig config;
  double time_us = 0;  ///< above 0
};

/// A problem with the times of its fastest configs and of the model's choice on the model's device.
struct ReferenceProblem {
  Problem problem;
  CacheState cache = CacheState::warm;
  std::vector<ReferenceTime> times;
  std::size_t chosen = 0;  ///< position in `times`

  /// Speed of the choice divided by that of the fastest config.
  double efficiency() const noexcept;
  const ReferenceTime& fastest() const noexcept;
};

/// The configs are of `provider`, that of the model. Throws not_found when the folder has no such file,
/// corrupt_data naming file and row.
std::vector<ReferenceProblem> read_reference_times(const std::filesystem::path& model,
                                                   const Provider& provider);
/// Replaces the file in the model's folder. Throws device_failure.
void write_reference_times(const std::filesystem::path& model, std::span<const ReferenceProblem> references);

}  // namespace kscout
