#pragma once
/// \file
/// Predicts the time of the kernels of provider `hopper` without a model: persistent blocks that take equal
/// tiles need the time of their stages. For GEMMs whose lines are not aligned to 16 bytes; others are
/// cuBLASLt's.
///
///     for (const HopperTime& one : hopper_times(problem, device)) ...  // fastest first
#include <cstdint>
#include <vector>

#include <kscout/device.h>
#include <kscout/problem.h>

#include "provider/hopper/hopper.h"

namespace kscout {

struct HopperTime {
  HopperConfig config;
  double us;
};

/// The predicted time of every tile, cluster, and split-K of up to 16 parts, fastest first; not all apply
/// (families/hopper_gemm.toml). `device` has a clock and a memory bandwidth. Source of the constants: 3,442
/// measurements of 260 problems on an H100; docs/bench/gemm_odd.md has the errors.
std::vector<HopperTime> hopper_times(const GemmProblem& problem, const Device& device);

/// Bytes of workspace: the parts of split-K.
std::int64_t hopper_workspace_bytes(const GemmProblem& problem, const HopperConfig& config) noexcept;

}  // namespace kscout
