#pragma once
/// \file
/// What backend `cuda` knows about each provider: one row of functions. A provider with a row of its own is
/// run by the program; kernels of all others come from kernel libraries.
///
/// The functions get configs of the provider itself, also where a joint family was asked. A null function has
/// nothing to say.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kscout/backend.h>

namespace kscout::cuda {

struct CudaKernels {
  std::string_view provider;
  /// As Backend::absence.
  std::string (*absence)(const Signature& signature, const KernelConfig& config) = nullptr;
  /// As Backend::refusal, for a config of the problem's op and signature that is not absent.
  std::string (*refusal)(ProblemRef problem, const KernelConfig& config) = nullptr;
  /// As Backend::prepare_within, for a config that is not refused. The backend compares the workspace
  /// afterwards.
  std::unique_ptr<Launch> (*prepare)(ProblemRef problem, const KernelConfig& config,
                                     const Limits& limits) = nullptr;
  /// Whether prepare() alone can tell which configs give equal bits in every run; else the family's rules do.
  bool decides_determinism = false;
  /// As Backend::min_us.
  double (*min_us)(ProblemRef problem) = nullptr;
  /// As Backend::prepare_ahead: the reasons, one for each config.
  std::vector<std::string> (*prepare_ahead)(ProblemRef problem, std::span<const KernelConfig> configs,
                                            double seconds) = nullptr;
  /// As Backend::suggestions, for problems of the provider's ops.
  std::vector<KernelConfig> (*suggestions)(ProblemRef problem, std::size_t count) = nullptr;
};

// ---- For kernels of the module about which a family's rules say everything.

std::string refusal_by_rules(ProblemRef problem, const KernelConfig& config);
std::unique_ptr<Launch> launch_by_module(ProblemRef problem, const KernelConfig& config, const Limits&);

extern const CudaKernels cublaslt_kernels, cudnn_kernels, hopper_kernels, groupwise_kernels;

/// Rows of providers that a program links in addition: it defines this function. None otherwise.
std::span<const CudaKernels* const> further_cuda_kernels() noexcept;

}  // namespace kscout::cuda
