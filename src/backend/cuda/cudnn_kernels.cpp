// NVIDIA's cuDNN: plans of its engines, from a pool or built.
#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include <kscout/error.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernels.h"
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/cudnn_library.h"
#include "backend/cuda/cudnn_plans.h"
#include "core/fail.h"
#include "family/family_file.h"
#include "family/listed.h"
#include "family/rules.h"
#include "measure/timing.h"

namespace kscout::cuda {

namespace {

/// Why the family's rules or the signature's numerics exclude a config that the library suggests.
std::string cudnn_exclusion(const cudnn::EngineConfig& config, const ConvProblem& problem,
                            bool deterministic) {
  std::string why = numerical_refusal(config, problem.dtype_in, deterministic);
  if (!why.empty()) return why;
  CudnnConfig named = config.named;
  named.version = cudnn::version();
  const auto rule = refusing_rule(family_file("cudnn", problem.op).rules, problem,
                                  named.kernel_config(problem.op), gpu_device());
  return rule ? fmt::format("rule {} refuses it: {}", rule->name, rule->because) : std::string();
}

/// The n-th config of the library's list that numerical_refusal() and the family's rules admit; the first
/// suggestion is the first one that can be built.
cudnn::ConvPlan suggested_plan(const cudnn::PlanKey& key, const cudnn::Target& target,
                               const cudnn::ConvGraph& graph) {
  const auto& [gpu, deterministic, problem, asked] = key;
  std::vector<CudnnMode> modes{asked.mode};
  if (asked.mode == CudnnMode::a) modes.push_back(CudnnMode::fallback);
  std::int32_t number = 0;
  std::optional<Error> failed;
  for (const CudnnMode mode : modes) {
    for (cudnn::EngineConfig& config : graph.suggestions(mode)) {
      if (!cudnn_exclusion(config, problem, deterministic).empty() || ++number < asked.suggestion) continue;
      try {
        return {target, std::move(config)};
      } catch (const Error& error) {
        if (error.code() != Errc::unsupported || asked.suggestion > 1) throw;
        failed = error;
      }
    }
  }
  if (failed) throw Error(*failed);
  // The message omits the number of suggestions, so that equal refusals have equal texts.
  fail(Errc::unsupported, "cuDNN suggests fewer than {} configs", asked.suggestion);
}

cudnn::ConvPlan plan_of(const cudnn::PlanKey& key) {
  const cudnn::Target target = cudnn::Target::gpu();
  const cudnn::ConvGraph graph(key.problem, target);
  if (!key.config.is_named()) return suggested_plan(key, target, graph);
  cudnn::EngineConfig config = graph.configure(key.config);
  const std::string why = numerical_refusal(config, key.problem.dtype_in, key.deterministic);
  if (!why.empty()) fail(Errc::unsupported, "cuDNN: {}", why);
  return {target, std::move(config)};
}

cudnn::PlanKey key_of(const ConvProblem& problem, const CudnnConfig& config, bool deterministic) {
  CudnnConfig runs = config;
  if (config.is_named()) runs.suggestion = 0;  // its place in a list changes nothing
  return {used_cuda_device(), deterministic || cudnn::deterministic_asked(), problem, runs};
}

cudnn::PooledPlan pooled_plan(const cudnn::PlanKey& key) {
  if (auto plan = cudnn::PlanPool::here().take(key)) return std::move(*plan);
  const std::int64_t begin = now_ns();
  cudnn::ConvPlan built = plan_of(key);
  return {std::move(built), static_cast<double>(now_ns() - begin) / 1e3};
}

class CudnnLaunch final : public Launch {
 public:
  CudnnLaunch(const ConvProblem& problem, const CudnnConfig& config, bool deterministic)
      : key_(key_of(problem, config, deterministic)), pooled_(pooled_plan(key_)) {}
  ~CudnnLaunch() override { cudnn::PlanPool::here().give_back(key_, std::move(pooled_)); }

  std::size_t workspace_bytes() const noexcept override { return pooled_.plan.workspace_bytes(); }
  double setup_us() const noexcept override { return pooled_.setup_us; }

  void run(const Buffers& given, void* workspace, Stream stream) override {
    const GemmBuffers buffers = GemmBuffers::of(given);
    check_reach("cuda", space_, buffers.space);
    const auto [in, wei, out] = by_tensor<const void*>(key_.problem.op, buffers.a, buffers.b, buffers.c);
    const auto writable = [](const void* tensor) { return const_cast<void*>(tensor); };
    pooled_.plan.run({.in = writable(in), .wei = writable(wei), .out = writable(out), .bias = buffers.bias},
                     workspace, stream.handle);
  }

 private:
  MemorySpace space_ = gpu_memory().space();
  cudnn::PlanKey key_;
  cudnn::PooledPlan pooled_;
};

/// Whether preparing the config takes long: it compiles code, or asks the library's heuristic.
bool prepares_slowly(const ConvProblem& problem, const CudnnConfig& config, const cudnn::Target& target) {
  if (!config.is_named()) return true;
  try {
    return cudnn::ConvGraph(problem, target).configure(config).compiles_at_run_time();
  } catch (const Error&) {
    return false;  // prepare_cudnn() reports it
  }
}

std::string cudnn_absence(const Signature&, const KernelConfig& config) {
  const int wanted = CudnnConfig::from(config).version, here = cudnn_release();
  if (here == 0) return "cuDNN cannot be used: " + cudnn::missing();
  if (wanted == 0 || wanted == here) return {};
  return fmt::format(
      "the config is for cuDNN {}, installed is {}: what this release lists, kscout sweep measures under "
      "rule "
      "set default",
      wanted, here);
}

std::string cudnn_refusal(ProblemRef problem, const KernelConfig&) {
  const std::int64_t split_k = problem.as<ConvProblem>().split_k;
  if (split_k == 0) return {};
  return fmt::format("the problem asks for {} split-K slices; cuDNN's engines choose their own", split_k);
}

std::unique_ptr<Launch> prepare_cudnn(ProblemRef problem, const KernelConfig& config, const Limits& limits) {
  open_module();
  return std::make_unique<CudnnLaunch>(problem.as<ConvProblem>(), CudnnConfig::from(config),
                                       limits.deterministic);
}

/// In as many threads as the process has CPUs.
std::vector<std::string> prepare_cudnn_ahead(ProblemRef problem, std::span<const KernelConfig> configs,
                                             double seconds) {
  open_module();
  std::vector<std::string> left_out(configs.size());
  const std::int64_t end = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  std::atomic<std::size_t> next = 0;
  const auto build = [&] {
    open_module();
    const cudnn::Target target = cudnn::Target::gpu();
    for (std::size_t i = next++; i < configs.size(); i = next++) {
      if (!prepares_slowly(problem.as<ConvProblem>(), CudnnConfig::from(configs[i]), target)) continue;
      if (now_ns() > end) {
        // The message omits the config, so that equal reasons have equal texts.
        left_out[i] = fmt::format("building the kernels of one problem took longer than {} s", seconds);
        continue;
      }
      try {
        prepare_cudnn(problem, configs[i], {});
      } catch (const Error&) {  // the same call reports it when the config is measured
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(allowed_cpus().size(), configs.size()); ++i)
    threads.emplace_back(build);
  build();
  for (std::thread& thread : threads) thread.join();
  return left_out;
}

std::vector<KernelConfig> cudnn_suggestions(ProblemRef problem, std::size_t count) {
  open_module();
  const cudnn::Target target = cudnn::Target::gpu();
  const auto& of = problem.as<ConvProblem>();
  // Asking for the fallback list takes three times as long as for mode a, and none of its configs is worth it
  // beside mode a's and our own kernels (docs/bench/conv_h200.md). So decisions, which ask for all that is
  // listed, take it only where mode a lists nothing. Who asks for a number of configs gets that number.
  const std::size_t enough = count == kListedAlgorithms ? 1 : count;
  std::vector<KernelConfig> configs;
  try {
    const cudnn::ConvGraph graph(of, target);
    for (const CudnnMode mode : {CudnnMode::a, CudnnMode::fallback}) {
      if (configs.size() >= enough) break;
      for (const cudnn::EngineConfig& one : graph.suggestions(mode)) {
        if (!numerical_refusal(one, of.dtype_in, cudnn::deterministic_asked()).empty()) continue;
        CudnnConfig named = one.named;
        named.version = cudnn::version();
        const KernelConfig config = named.kernel_config(problem.op());
        if (configs.size() < count && std::ranges::find(configs, config) == configs.end())
          configs.push_back(config);
      }
    }
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
  }
  return configs;
}

}  // namespace

const CudaKernels cudnn_kernels{.provider = "cudnn",
                                .absence = cudnn_absence,
                                .refusal = cudnn_refusal,
                                .prepare = prepare_cudnn,
                                .decides_determinism = true,
                                .prepare_ahead = prepare_cudnn_ahead,
                                .suggestions = cudnn_suggestions};

}  // namespace kscout::cuda
