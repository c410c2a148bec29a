#include "backend/cuda/harvest.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn_graph.h"
#include "core/fail.h"
#include "core/indexing.h"
#include "family/family_file.h"
#include "provider/cudnn/cudnn.h"
#include "provider/signature_rules.h"

namespace kscout {

namespace {

constexpr std::size_t kShown = 8;  // number of problems that a value of kernel_cfg is tested on

/// Collects the engine configs of one signature.
class ConvHarvester {
 public:
  ConvHarvester(const cudnn::Target& target, const std::vector<Problem>& problems,
                const HarvestOptions& options)
      : target_(target), problems_(problems), options_(options) {}

  Harvest run() {
    found_.signature = signature_of(problems_.front());
    found_.problems = problems_.size();
    for (const Problem& problem : problems_) list(cudnn::ConvGraph(problem.conv(), target_));
    if (found_.suggested.empty()) {
      fail(Errc::unsupported, "cuDNN suggests no config for any of {} problems like {}", problems_.size(),
           print(problems_.front()));
    }
    if (options_.widen > 0) widen();
    return std::move(found_);
  }

 private:
  void list(const cudnn::ConvGraph& graph) {
    for (const CudnnMode mode : {CudnnMode::a, CudnnMode::b, CudnnMode::fallback}) {
      for (const cudnn::EngineConfig& config : graph.suggestions(mode, &found_.unnamed)) {
        if (!known_.insert(key(config.named)).second) continue;
        if (admitted(config)) {
          found_.suggested.push_back(key(config.named));
        } else {
          ++found_.barred;
        }
      }
    }
  }

  /// Tries every value of kernel_cfg on engines that compile at run time.
  void widen() {
    std::vector<cudnn::ConvGraph> graphs;
    const std::size_t step = std::max<std::size_t>(1, problems_.size() / kShown);
    for (std::size_t i = 0; i < problems_.size() && graphs.size() < kShown; i += step)
      graphs.emplace_back(problems_[i].conv(), target_);
    for (const auto& [engine, range] : compiled_engines(graphs)) {
      for (std::int64_t value = range.minimum; value <= range.maximum; value += range.stride) {
        if (found_.widened.size() == options_.widen) return;
        CudnnConfig config;
        config.engine = static_cast<std::int32_t>(engine) + 1;
        config.knob[kCudnnKernelCfg] = static_cast<std::int32_t>(value) + 1;
        if (!known_.insert(key(config)).second) continue;
        if (std::ranges::any_of(graphs, [&](const auto& graph) { return accepted(graph, config); })) {
          found_.widened.push_back(key(config));
        } else {
          ++found_.refused;
        }
      }
    }
  }

  struct CompiledEngine {
    std::int64_t engine;
    cudnn::KnobRange range;
  };
  /// Engines with knob kernel_cfg, each once.
  static std::vector<CompiledEngine> compiled_engines(const std::vector<cudnn::ConvGraph>& graphs) {
    std::vector<CompiledEngine> engines;
    std::set<std::int64_t> seen;
    for (const cudnn::ConvGraph& graph : graphs) {
      const std::int64_t count = graph.engines();
      for (std::int64_t engine = 0; engine < count; ++engine) {
        for (const cudnn::KnobRange& range : graph.knobs(engine)) {
          if (range.type == kCudnnKnobTypes[kCudnnKernelCfg] && seen.insert(engine).second)
            engines.push_back({engine, range});
        }
      }
    }
    return engines;
  }

  bool accepted(const cudnn::ConvGraph& graph, const CudnnConfig& config) const {
    try {
      return admitted(graph.configure(config));
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      return false;
    }
  }

  bool admitted(const cudnn::EngineConfig& config) const {
    return numerical_refusal(config, found_.signature.dtype_a, options_.deterministic).empty();
  }

  KernelConfig key(CudnnConfig config) const {
    config.version = cudnn::version();
    return config.kernel_config(found_.signature.op);
  }

  const cudnn::Target& target_;
  const std::vector<Problem>& problems_;
  const HarvestOptions& options_;
  std::unordered_set<KernelConfig> known_;
  Harvest found_;
};

}  // namespace

std::vector<Harvest> harvest(const std::vector<Problem>& problems, const HarvestOptions& options) {
  if (problems.empty()) fail(Errc::invalid_argument, "no problems to ask the library about");
  const Op op = problems.front().op();
  const std::vector<Signature> signatures = signatures_of(problems);
  for (const Signature& signature : signatures) {
    if (signature.op != op)
      fail(Errc::invalid_argument,
           "a harvest is of one operation: {} and {} were given; harvest each by itself", word(op),
           word(signature.op));
    check_signature(cudnn_provider(), signature);
  }
  if (options.gpu.empty()) cuda::open_module();
  const cudnn::Target target =
      options.gpu.empty() ? cudnn::Target::gpu() : cudnn::Target::described(options.gpu);
  std::vector<Harvest> harvests;
  for (const Signature& signature : signatures) {
    std::vector<Problem> alike;
    std::ranges::copy_if(problems, std::back_inserter(alike),
                         [&](const Problem& problem) { return signature_of(problem) == signature; });
    harvests.push_back(ConvHarvester(target, alike, options).run());
  }
  return harvests;
}

std::string rule_set_text(const std::vector<Harvest>& harvests) {
  const auto blocks = [&](std::vector<KernelConfig> Harvest::*found) {
    std::vector<ExplicitBlock> out;
    for (const Harvest& one : harvests) out.push_back({one.signature, one.*found});
    return out;
  };
  const ConfigSpace& space = *harvests.front().suggested.front().space;
  return rule_sets_text(
      space.provider, space.op,
      {{"harvested", "configs that the library's heuristics listed for some problem", "default",
        blocks(&Harvest::suggested)},
       {"widened", "and further ones that the library accepts", "harvested", blocks(&Harvest::widened)}});
}

std::string describe_cudnn_gpu() {
  cuda::open_module();
  return cudnn::describe_gpu();
}

}  // namespace kscout
