#include "backend/cuda/cuda_backend.h"

#include <algorithm>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "backend/cuda/cuda_kernels.h"
#include "backend/library/found_libraries.h"
#include "core/fail.h"
#include "family/legality.h"
#include "op/operation.h"
#include "provider/joint.h"

namespace kscout {

namespace {

using cuda::CudaKernels;

LibraryBackend* holder(const Signature& signature, const KernelConfig& config, std::string& why) {
  return FoundLibraries::of("cuda").holder(signature, config, &why);
}

/// Of providers whose kernels come from kernel libraries: cutlass, and families that a file declares.
constexpr CudaKernels kOfLibraries{
    .provider = "cutlass",
    .absence =
        [](const Signature& signature, const KernelConfig& config) {
          std::string why;
          holder(signature, config, why);
          return why;
        },
    .refusal =
        [](ProblemRef problem, const KernelConfig& config) {
          std::string why;
          return holder(signature_of(problem), config, why)->refusal(problem, config);
        },
    .prepare = [](ProblemRef problem, const KernelConfig& config, const Limits&) -> std::unique_ptr<Launch> {
      cuda::open_module();  // a library's own CUDA runtime then also uses the chosen device
      std::string why;
      return holder(signature_of(problem), config, why)->prepare(problem, config);
    }};

const std::vector<const CudaKernels*>& all_kernels() {
  static const auto all = [] {
    std::vector<const CudaKernels*> rows = {&cuda::cublaslt_kernels, &cuda::cudnn_kernels,
                                            &cuda::hopper_kernels, &cuda::groupwise_kernels, &kOfLibraries};
    rows.insert(rows.end(), cuda::further_cuda_kernels().begin(), cuda::further_cuda_kernels().end());
    return rows;
  }();
  return all;
}

const CudaKernels& kernels_of(const KernelConfig& config) {
  const auto& all = all_kernels();
  const auto found = std::ranges::find(all, config.space->provider, &CudaKernels::provider);
  return found == all.end() ? kOfLibraries : **found;
}

class CudaBackend final : public MeasuredBackend {
 public:
  std::string_view name() const noexcept override { return "cuda"; }
  std::string_view provider() const noexcept override { return "cublaslt"; }
  std::string_view provider_for(Op op) const noexcept override {
    static const Device any = device_preset("h200");  // device() would ask the driver
    return default_provider(op, any);
  }
  bool executes(std::string_view provider) const noexcept override {
    static const auto own = [] {
      std::vector<std::string_view> names;
      for (const CudaKernels* const kernels : all_kernels()) names.push_back(kernels->provider);
      return names;
    }();
    return executes_with_libraries(provider, own);
  }

  Family family(const Signature& signature, std::string_view rules) override {
    return enumerate({.provider = std::string(provider_for(signature.op)),
                      .signature = signature,
                      .device = device(),
                      .rules = std::string(rules),
                      .filter = {}});
  }

  Memory& memory() override { return cuda::gpu_memory(); }
  Instruments& instruments() override { return cuda::gpu_instruments(); }
  int devices() override { return cuda::gpu_facts().devices; }
  void open_device(int ordinal) override {
    use_cuda_device(ordinal);
    cuda::open_module();
  }

  const Device& device() override { return cuda::gpu_device(); }
  std::map<std::string, std::string> versions() override {
    auto versions = cuda::versions_of(cuda::gpu_facts());
    if (const auto cudnn = cuda::cudnn_release()) versions["cudnn_version"] = std::to_string(cudnn);
    versions.merge(FoundLibraries::of("cuda").versions());
    return versions;
  }

  std::string absence(const Signature& signature, const KernelConfig& asked) override {
    const KernelConfig config = member_config(asked);
    const CudaKernels& kernels = kernels_of(config);
    return kernels.absence ? kernels.absence(signature, config) : std::string();
  }

  std::string refusal(ProblemRef problem, const KernelConfig& asked) override {
    const KernelConfig config = member_config(asked);
    if (config.space->op != problem.op())
      return fmt::format("the config computes {}, the problem is {}", word(config.space->op),
                         word(problem.op()));
    const Signature signature = signature_of(problem);
    const CudaKernels& kernels = kernels_of(config);
    std::string why = signature_refusal(*config.space, signature);
    if (why.empty()) why = absence(signature, config);
    return why.empty() && kernels.refusal ? kernels.refusal(problem, config) : why;
  }

  double min_us(ProblemRef problem, const KernelConfig& asked) override {
    const KernelConfig config = member_config(asked);
    const CudaKernels& kernels = kernels_of(config);
    return kernels.min_us && config.space->op == problem.op() ? kernels.min_us(problem) : 0;
  }

  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) override {
    return prepare_within(problem, config, {});
  }

  std::unique_ptr<Launch> prepare_within(ProblemRef problem, const KernelConfig& asked,
                                         const Limits& limits) override {
    kscout::check(problem);
    const KernelConfig config = member_config(asked);
    const CudaKernels& kernels = kernels_of(config);
    std::string why = refusal(problem, config);
    if (why.empty() && limits.deterministic && !kernels.decides_determinism)
      why = deterministic_refusal(problem, config, device());
    if (!why.empty()) fail(Errc::unsupported, "{}: {}", print(problem), why);
    auto launch = kernels.prepare(problem, config, limits);
    check_workspace(*launch, limits);
    return launch;
  }

  std::vector<KernelConfig> suggestions(ProblemRef problem, std::size_t count) override {
    kscout::check(problem);
    std::vector<KernelConfig> configs;
    for (const CudaKernels* const kernels : all_kernels()) {
      const auto ops = kscout::provider(kernels->provider).ops();
      if (!kernels->suggestions || std::ranges::find(ops, problem.op()) == ops.end()) continue;
      const auto some = kernels->suggestions(problem, count - configs.size());
      configs.insert(configs.end(), some.begin(), some.end());
    }
    return configs;
  }

  bool prepares_ahead(std::string_view provider) override {
    const JointProvider* const joint = joint_provider(provider);
    return std::ranges::any_of(all_kernels(), [&](const CudaKernels* kernels) {
      return kernels->prepare_ahead &&
             (kernels->provider == provider ||
              (joint && std::ranges::any_of(joint->members(), [&](const Provider* member) {
                 return member->name() == kernels->provider;
               })));
    });
  }

  std::vector<std::string> prepare_ahead(ProblemRef problem, std::span<const KernelConfig> configs,
                                         double seconds) override {
    std::vector<std::string> left_out(configs.size());
    for (const CudaKernels* const kernels : all_kernels()) {
      if (!kernels->prepare_ahead) continue;
      std::vector<std::size_t> places;
      std::vector<KernelConfig> own;
      for (std::size_t i = 0; i < configs.size(); ++i) {
        const KernelConfig config = member_config(configs[i]);
        if (&kernels_of(config) != kernels || !refusal(problem, config).empty()) continue;
        places.push_back(i);
        own.push_back(config);
      }
      if (own.empty()) continue;
      const auto reasons = kernels->prepare_ahead(problem, own, seconds);
      for (std::size_t i = 0; i < places.size(); ++i) left_out[places[i]] = reasons[i];
    }
    return left_out;
  }
};

}  // namespace

Backend& cuda_backend() {
  static CudaBackend instance;
  return instance;
}

[[gnu::weak]] std::span<const CudaKernels* const> cuda::further_cuda_kernels() noexcept { return {}; }

}  // namespace kscout
