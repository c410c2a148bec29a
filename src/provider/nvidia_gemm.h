#pragma once
/// \file
/// The common part of providers whose GEMM kernels run on NVIDIA's GPUs.
///
///     class HopperProvider final : public NvidiaGemmProvider {
///      public:
///       HopperProvider() : NvidiaGemmProvider(kHopperGemmSpace) {}
///       std::string print(const Signature& signature, const KernelConfig& config) const override {
///         return name_of(signature, config, kHopperName);  // "hopper_gemm_bf16_rcr__128x256x64_c2_k1"
///       }
///       ...
///     };
#include <span>
#include <string>
#include <string_view>

#include <kscout/provider.h>

#include "core/fail.h"
#include "provider/name_reader.h"

namespace kscout {

class NvidiaGemmProvider : public Provider {
 public:
  explicit NvidiaGemmProvider(const ConfigSpace& space) : space_(space) {}

  std::string_view name() const noexcept override { return space_.provider; }
  bool runs_on(const Device& device) const noexcept override {
    return device.kind == DeviceKind::gpu && device.vendor == "NVIDIA";
  }
  std::span<const Op> ops() const noexcept override {
    static constexpr Op kOps[] = {Op::gemm};
    return kOps;
  }
  const ConfigSpace& space(Op op) const override {
    if (op != Op::gemm) fail(Errc::unsupported, "{} has no kernels for {}; it has gemm", name(), word(op));
    return space_;
  }

 protected:
  /// "<provider>_gemm_" signature, then the axes of `parts`.
  std::string name_of(const Signature& signature, const KernelConfig& config,
                      std::span<const NamePart> parts) const {
    check_signature(*this, signature);
    std::string text = prefix() + gemm_signature_text(signature);
    print_axes(text, config, parts);
    return text;
  }
  /// Parses what name_of() printed.
  NamedConfig named(std::string_view text, std::span<const NamePart> parts) const {
    NameReader in(name(), text);
    in.literal(prefix());
    NamedConfig result{read_gemm_signature(in, "__"), KernelConfig(space_)};
    in.check_signature(space_, result.signature);
    read_axes(in, result.config, parts);
    return result;
  }
  std::string prefix() const { return std::string(name()) + "_gemm_"; }

  /// Traits of a kernel whose other traits its axes tell: a GPU has no workers that pack.
  static Traits gpu_traits() {
    Traits t;
    t.workers = t.workers_m = t.workers_n = 0;
    t.packs_a = t.packs_b = 0;
    t.kind = 0;
    return t;
  }

 private:
  const ConfigSpace& space_;
};

}  // namespace kscout
