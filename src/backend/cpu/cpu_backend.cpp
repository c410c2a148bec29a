#include "backend/cpu/cpu_backend.h"

#include <algorithm>

#include <kscout/family.h>

#include "backend/cpu/common/planned_launch.h"
#include "backend/cpu/conv/conv_plan.h"
#include "backend/cpu/gemm/gemm_plan.h"
#include "backend/cpu/gemm/grouped_plan.h"
#include "backend/library/found_libraries.h"
#include "core/device_facts.h"
#include "core/fail.h"
#include "family/legality.h"
#include "provider/joint.h"

namespace kscout {

namespace {

template <class Plan>
std::unique_ptr<Launch> launch_of(Plan plan) {
  return std::make_unique<cpu::PlannedLaunch<Plan>>(std::move(plan));
}

std::unique_ptr<Launch> prepare_gemm(ProblemRef of, const KernelConfig& config) {
  return launch_of(cpu::make_gemm_plan(of.as<GemmProblem>(), NativeConfig::from(config)));
}

std::unique_ptr<Launch> prepare_conv(ProblemRef of, const KernelConfig& config) {
  const auto conv = of.as<ConvProblem>();
  const NativeConvConfig c = NativeConvConfig::from(config);
  if (c.kind == NativeConvKind::gemm) return launch_of(cpu::make_product_plan(conv, c));
  return launch_of(cpu::make_conv_plan(conv, c));
}

std::unique_ptr<Launch> prepare_grouped(ProblemRef of, const KernelConfig& config) {
  return launch_of(cpu::make_grouped_plan(of.as<GroupedGemmProblem>(), NativeGroupedConfig::from(config)));
}

constexpr Op kGemmOps[] = {Op::gemm};
constexpr Op kGroupedOps[] = {Op::grouped_gemm};
constexpr CpuKernels kKernels[] = {
    {kGemmOps, prepare_gemm}, {kDirections, prepare_conv}, {kGroupedOps, prepare_grouped}};

class CpuBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "cpu"; }
  std::string_view provider() const noexcept override { return "native"; }
  bool executes(std::string_view provider) const noexcept override {
    static constexpr std::string_view kOwn[] = {"native"};
    return executes_with_libraries(provider, kOwn);
  }

  Family family(const Signature& signature, std::string_view rules) override {
    return enumerate({.provider = "native",
                      .signature = signature,
                      .device = device(),
                      .rules = std::string(rules),
                      .filter = {}});
  }

  const Device& device() override {
    static const Device here = detect_cpu();
    return here;
  }

  std::string absence(const Signature& signature, const KernelConfig& asked) override {
    std::string why;
    if (const KernelConfig config = member_config(asked); is_compiled(asked, config))
      holder(signature, config, why);
    return why;
  }

  std::string refusal(ProblemRef of, const KernelConfig& asked) override {
    const KernelConfig config = member_config(asked);
    std::string why;
    if (is_compiled(asked, config)) {
      LibraryBackend* const library = holder(signature_of(of), config, why);
      return library ? library->refusal(of, config) : why;
    }
    why = machine_refusal(native_kernels_of(*config.space).needs(config));
    return why.empty() ? rule_refusal(of, config, device()) : why;
  }

  std::unique_ptr<Launch> prepare(ProblemRef of, const KernelConfig& asked) override {
    check(of);
    const KernelConfig config = member_config(asked);
    if (const std::string why = refusal(of, asked); !why.empty())
      fail(Errc::unsupported, "{}: {}", print(of), why);
    if (std::string why; is_compiled(asked, config))
      return holder(signature_of(of), config, why)->prepare(of, config);
    if (const int threads = host_threads(config); threads > 1 && !cpu::current_team())
      cpu::pool().reserve(threads);
    for (const std::span<const CpuKernels> some :
         {std::span<const CpuKernels>(kKernels), further_cpu_kernels()}) {
      for (const CpuKernels& kernels : some) {
        if (std::ranges::find(kernels.ops, of.op()) != kernels.ops.end()) return kernels.prepare(of, config);
      }
    }
    fail(Errc::unsupported, "{}: backend cpu has no kernels for {}", print(of), word(of.op()));
  }

 private:
  /// Of a joint family: whether the kernel is not a native one, and comes from a library.
  static bool is_compiled(const KernelConfig& asked, const KernelConfig& member) {
    return asked.space != member.space && member.space->provider != "native";
  }
  static LibraryBackend* holder(const Signature& signature, const KernelConfig& config, std::string& why) {
    return FoundLibraries::of("cpu").holder(signature, config, &why);
  }

  /// The rules say the same of instruction sets and threads; these reasons also name the setting.
  std::string machine_refusal(const NativeNeeds& needs) {
    const auto [isa, threads] = needs;
    const Axis& axis = native_gemm_space.axes[0];
    const auto wanted = static_cast<std::int32_t>(isa);
    if (!machine_has(isa)) {
      return fmt::format("this machine has no {}; its best is {}", axis_value_text(axis, wanted),
                         device().isa);
    }
    if (wanted > parse_axis_value(axis, device().isa))
      return fmt::format("KSCOUT_ISA={} excludes {}", device().isa, axis_value_text(axis, wanted));
    if (threads > 1 && threads > device().cores) {
      return fmt::format("the config needs {} threads, this process may use {} cores", threads,
                         device().cores);
    }
    return {};
  }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend instance;
  return instance;
}

[[gnu::weak]] std::span<const CpuKernels> further_cpu_kernels() noexcept { return {}; }

void pin_cpu_threads(bool pinned) { cpu::pool().pin(pinned); }

bool machine_has(NativeIsa isa) noexcept {
  switch (isa) {
    case NativeIsa::avx2:
      return best_instruction_set() >= InstructionSet::avx2;
    case NativeIsa::avx512:
      return best_instruction_set() >= InstructionSet::avx512;
    case NativeIsa::scalar:
      return true;
  }
  return isa == NativeIsa::scalar;
}

}  // namespace kscout
