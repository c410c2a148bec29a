// NVIDIA's cuBLASLt: the module runs its algorithms.
#include <algorithm>
#include <iterator>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernels.h"
#include "backend/cuda/matmul_launch.h"
#include "core/fail.h"
#include "family/family_file.h"
#include "family/legality.h"
#include "family/rules.h"
#include "op/gemm/gemm_views.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout::cuda {

namespace {

std::string cublaslt_absence(const Signature&, const KernelConfig& config) {
  const int wanted = CublasLtConfig::from(config).version, here = gpu_facts().cublaslt_version;
  if (wanted == 0 || wanted == here) return {};
  return fmt::format(
      "the config is for cuBLASLt {}, installed is {}: its algorithms have other numbers (docs/releases.md)",
      wanted, here);
}

std::string cublaslt_refusal(ProblemRef of, const KernelConfig& config) {
  const auto problem = of.as<GemmProblem>();
  const CublasLtConfig c = CublasLtConfig::from(config);
  if (std::string why = legal_refusal(signature_of(of), config, gpu_device()); !why.empty()) return why;
  if (problem.split_k == 1 && c.split_k > 1)
    return fmt::format("the problem asks for no split of K, the config has split_k={}", c.split_k);
  if (problem.k == 0) return "k = 0: cuBLASLt takes products only";
  return {};
}

/// The library also suggests algorithms that give wrong results. Throws unsupported for those that rules
/// exclude.
void refuse_wrong_suggestion(const GemmProblem& problem, const CublasLtConfig& named) {
  const bool unknown = !named.is_named();  // the algorithm has attributes without a name here
  if (unknown) return;
  static const auto rules = [] {
    std::vector<Rule> found;
    std::ranges::copy_if(family_file("cublaslt", Op::gemm).rules, std::back_inserter(found),
                         &Rule::suggested);
    return found;
  }();
  const KernelConfig config = named.kernel_config();
  if (const auto rule = refusing_rule(rules, problem, config, gpu_device())) {
    fail(Errc::unsupported, "{}: cuBLASLt suggests {}, which rule {} refuses: {}", print(problem),
         config_name(signature_of(problem), config), rule->name, rule->because);
  }
}

std::unique_ptr<Launch> prepare_cublaslt(ProblemRef problem, const KernelConfig& config,
                                         const Limits& limits) {
  const std::uint64_t workspace =
      limits.workspace_bytes < 0
          ? kCublasLtWorkspace
          : std::min(kCublasLtWorkspace, static_cast<std::uint64_t>(limits.workspace_bytes));
  PreparedMatmul prepared = prepare_in_module(problem, config, workspace);
  if (prepared && CublasLtConfig::from(config).suggestion > 0)
    refuse_wrong_suggestion(problem.as<GemmProblem>(), prepared->algorithm());
  return launch_of(std::move(prepared));
}

/// What cuBLASLt's kernels for 16-bit types reach at most, in floating-point operations per cycle and
/// multiprocessor, where lines do not begin at multiples of 16 bytes; 0 where all do. A model that was
/// trained with CUTLASS's kernels for such lines promises more. Measured on an H100
/// (docs/bench/gemm_odd.md).
double unaligned_flop_per_cycle(const GemmProblem& problem) {
  constexpr double kStoresAtTwoBytes = 420, kLoadsAtTwoBytes = 700, kAtFourBytes = 1050;
  const auto alignment = [](const MatrixView& view) {
    return view.lines() <= 1 || view.leading % 8 == 0 ? 16 : view.leading % 2 == 0 ? 4 : 2;
  };
  const int loads = std::min(alignment(view_a(problem)), alignment(view_b(problem)));
  const int stores = alignment(view_c(problem));
  if (stores == 2) return kStoresAtTwoBytes;
  if (loads == 2) return kLoadsAtTwoBytes;
  return std::min(loads, stores) == 4 ? kAtFourBytes : 0;
}

double cublaslt_min_us(ProblemRef of) {
  const auto problem = of.as<GemmProblem>();
  if (bytes_per_element(problem.dtype_a) != 2) return 0;
  const double rate = unaligned_flop_per_cycle(problem) * gpu_device().cores * gpu_device().max_clock_mhz;
  return rate > 0 ? flop_count(problem) / rate : 0;
}

std::vector<KernelConfig> cublaslt_suggestions(ProblemRef problem, std::size_t count) {
  Module& module = open_module();
  std::vector<CublasLtConfig> list(count);
  std::int32_t found = 0;
  const CallStatus answer = module.suggest(shape_of(problem.as<GemmProblem>()), kCublasLtWorkspace,
                                           list.data(), static_cast<std::int32_t>(count), &found);
  if (answer == CallStatus::unsupported) return {};
  check(module, answer);
  std::vector<KernelConfig> configs;
  for (const CublasLtConfig& one : std::span(list).first(static_cast<std::size_t>(found)))
    configs.push_back(one.kernel_config());
  return configs;
}

}  // namespace

const CudaKernels cublaslt_kernels{.provider = "cublaslt",
                                   .absence = cublaslt_absence,
                                   .refusal = cublaslt_refusal,
                                   .prepare = prepare_cublaslt,
                                   .min_us = cublaslt_min_us,
                                   .suggestions = cublaslt_suggestions};

}  // namespace kscout::cuda
