// A provider of GEMMs on a GPU that only the tests have: what docs/adding.md says that one needs. Its kernel
// is in the stand-in of the module (tests/libraries/host_gpu.cpp).
#include "backend/cuda/cuda_kernels.h"
#include "core/files.h"
#include "provider/declared.h"
#include "provider/nvidia_gemm.h"

namespace kscout {

extern const std::span<const EmbeddedFile> kSlicesFiles;

namespace {

constexpr NamedAxis kTable[] = {{{"split_k", "1", "slices of K, summed one by one", {}, true}, "__s"}};
constexpr auto kAxes = axes_of(kTable);
constexpr auto kName = parts_of(kTable);
constexpr ConfigSpace kSpace{"slices", Op::gemm, kAxes};

class SlicesProvider final : public NvidiaGemmProvider {
 public:
  SlicesProvider() : NvidiaGemmProvider(kSpace) {}
  std::string_view help() const noexcept override { return "sums of slices, run by backend cuda"; }
  bool built_in() const noexcept override { return true; }
  std::string print(const Signature& signature, const KernelConfig& config) const override {
    return name_of(signature, config, kName);
  }
  NamedConfig parse(std::string_view text) const override { return named(text, kName); }
  Traits traits(const Signature&, const KernelConfig& config, const Device&) const override {
    Traits t = gpu_traits();
    t.split_k = config["split_k"];
    return t;
  }
};

}  // namespace

std::span<const EmbeddedFile> further_files() noexcept { return kSlicesFiles; }

std::span<const Provider* const> further_providers() noexcept {
  static const SlicesProvider provider;
  static constexpr const Provider* all[] = {&provider};
  return all;
}

std::span<const cuda::CudaKernels* const> cuda::further_cuda_kernels() noexcept {
  static constexpr CudaKernels kernels{
      .provider = "slices", .refusal = refusal_by_rules, .prepare = launch_by_module};
  static constexpr const CudaKernels* all[] = {&kernels};
  return all;
}

}  // namespace kscout
