#include "provider/miopen/miopen.h"

#include <algorithm>
#include <array>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "core/names.h"
#include "provider/name_reader.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

/// Appended to, never reordered: models hold positions. Those from the second group on are in MIOpen's list
/// of solvers, but in none of the databases that models were trained on.
constexpr MiopenSolver kMiopenSolvers[] = {
    {"ConvAsm1x1U", "Direct", true, true, false},
    {"ConvAsm1x1UV2", "Direct", true, true, false},
    {"ConvAsm3x3U", "Direct", true, true, false},
    {"ConvAsmBwdWrW1x1", "Direct", false, false, true},
    {"ConvAsmImplicitGemmGTCDynamicBwdXdlopsNHWC", "ImplicitGEMM", false, true, false},
    {"ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC", "ImplicitGEMM", true, false, false},
    {"ConvAsmImplicitGemmGTCDynamicWrwXdlopsNHWC", "ImplicitGEMM", false, false, true},
    {"ConvBinWinogradRxSf2x3", "Winograd", true, true, true},
    {"ConvBinWinogradRxSf2x3g1", "Winograd", true, true, true},
    {"ConvBinWinogradRxSf3x2", "Winograd", true, true, true},
    {"ConvDirectNaiveConvBwd", "Direct", false, true, false},
    {"ConvDirectNaiveConvFwd", "Direct", true, false, false},
    {"ConvDirectNaiveConvWrw", "Direct", false, false, true},
    {"ConvHipImplicitGemm3DGroupBwdXdlops", "ImplicitGEMM", false, true, false},
    {"ConvHipImplicitGemm3DGroupWrwXdlops", "ImplicitGEMM", false, false, true},
    {"ConvHipImplicitGemmBwdDataV1R1", "ImplicitGEMM", false, true, false},
    {"ConvHipImplicitGemmBwdXdlops", "ImplicitGEMM", false, true, false},
    {"ConvHipImplicitGemmForwardV4R4Xdlops", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmForwardV4R4Xdlops_Padded_Gemm", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmForwardV4R5Xdlops", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmFwdXdlops", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmV4R1Fwd", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmV4R1WrW", "ImplicitGEMM", false, false, true},
    {"ConvHipImplicitGemmV4R4Fwd", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmV4R4WrW", "ImplicitGEMM", false, false, true},
    {"ConvHipImplicitGemmWrwV4R4Xdlops", "ImplicitGEMM", false, false, true},
    {"ConvHipImplicitGemmWrwV4R4Xdlops_Padded_Gemm", "ImplicitGEMM", false, false, true},
    {"ConvMlirIgemmBwdXdlops", "ImplicitGEMM", false, true, false},
    {"ConvMlirIgemmFwdXdlops", "ImplicitGEMM", true, false, false},
    {"ConvMlirIgemmWrWXdlops", "ImplicitGEMM", false, false, true},
    {"ConvOclBwdWrW1x1", "Direct", false, false, true},
    {"ConvOclBwdWrW2<16>", "Direct", false, false, true},
    {"ConvOclBwdWrW2<1>", "Direct", false, false, true},
    {"ConvOclBwdWrW2<2>", "Direct", false, false, true},
    {"ConvOclBwdWrW2<4>", "Direct", false, false, true},
    {"ConvOclBwdWrW2<8>", "Direct", false, false, true},
    {"ConvOclBwdWrW2NonTunable", "Direct", false, false, true},
    {"ConvOclBwdWrW53", "Direct", false, false, true},
    {"ConvOclDirectFwd", "Direct", true, true, false},
    {"ConvOclDirectFwd11x11", "Direct", true, false, false},
    {"ConvOclDirectFwd1x1", "Direct", true, true, false},
    {"ConvOclDirectFwdGen", "Direct", true, false, false},
    {"ConvWinograd3x3MultipassWrW<1-1-7-2>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<1-1-7-3>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<3-2>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<3-3>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<3-4>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<3-5>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<3-6>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<5-3>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<5-4>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<7-2-1-1>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<7-2>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<7-3-1-1>", "Winograd", false, false, true},
    {"ConvWinograd3x3MultipassWrW<7-3>", "Winograd", false, false, true},
    {"GemmBwd1x1_stride1", "GEMM", false, true, false},
    {"GemmBwd1x1_stride2", "GEMM", false, true, false},
    {"GemmBwdRest", "GEMM", false, true, false},
    {"GemmFwd1x1_0_1", "GEMM", true, false, false},
    {"GemmFwd1x1_0_2", "GEMM", true, false, false},
    {"GemmFwdRest", "GEMM", true, false, false},
    {"GemmWrw1x1_stride1", "GEMM", false, false, true},
    {"GemmWrwUniversal", "GEMM", false, false, true},
    {"fft", "FFT", true, true, false},

    {"ConvHipImplicitGemm3DGroupFwdXdlops", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmGroupFwdXdlops", "ImplicitGEMM", true, false, false},
    {"ConvHipImplicitGemmGroupBwdXdlops", "ImplicitGEMM", false, true, false},
    {"ConvHipImplicitGemmGroupWrwXdlops", "ImplicitGEMM", false, false, true},
    {"ConvHipImplicitGemmBwdDataV4R1", "ImplicitGEMM", false, true, false},
    {"ConvHipImplicitGemmBwdDataV4R1Xdlops", "ImplicitGEMM", false, true, false},
    {"ConvHipImplicitGemmBwdDataV1R1Xdlops", "ImplicitGEMM", false, true, false},
    {"ConvAsmImplicitGemmV4R1DynamicFwd", "ImplicitGEMM", true, false, false},
    {"ConvAsmImplicitGemmV4R1DynamicFwd_1x1", "ImplicitGEMM", true, false, false},
    {"ConvAsmImplicitGemmV4R1DynamicBwd", "ImplicitGEMM", false, true, false},
    {"ConvAsmImplicitGemmV4R1DynamicWrw", "ImplicitGEMM", false, false, true},
    {"ConvAsmImplicitGemmGTCDynamicFwdXdlops", "ImplicitGEMM", true, false, false},
    {"ConvAsmImplicitGemmGTCDynamicBwdXdlops", "ImplicitGEMM", false, true, false},
    {"ConvAsmImplicitGemmGTCDynamicWrwXdlops", "ImplicitGEMM", false, false, true},
    {"ConvAsmImplicitGemmGTCDynamicFwdDlopsNCHWC", "ImplicitGEMM", true, false, false},
    {"ConvMlirIgemmFwd", "ImplicitGEMM", true, false, false},
    {"ConvMlirIgemmBwd", "ImplicitGEMM", false, true, false},
    {"ConvMlirIgemmWrW", "ImplicitGEMM", false, false, true},
    {"ConvCkIgemmFwdV6r1DlopsNchw", "ImplicitGEMM", true, false, false},
    {"ConvBinWinograd3x3U", "Winograd", true, true, false},
    {"ConvBinWinogradRxS", "Winograd", true, true, true},
    {"ConvWinoFuryRxS<2-3>", "Winograd", true, true, false},
    {"ConvAsmBwdWrW3x3", "Direct", false, false, true},
    {"ConvOclDirectFwd3x3", "Direct", true, false, false},
    {"ConvAsm5x10u2v2f1", "Direct", true, false, false},
    {"ConvAsm5x10u2v2b1", "Direct", false, true, false},
    {"ConvAsm7x7c3h224w224k64u2v2p3q3f1", "Direct", true, false, false},
};

constexpr std::string_view kMiopenAlgorithms[] = {"Direct", "GEMM", "ImplicitGEMM", "Winograd", "FFT"};

constexpr auto kMiopenSolverWords = [] {
  std::array<std::string_view, std::size(kMiopenSolvers)> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = kMiopenSolvers[i].name;
  return words;
}();

constexpr Axis kMiopenAxes[] = {{"solver", "1", "MIOpen's solver", kMiopenSolverWords},
                                {"algorithm", "1", "the solver's algorithm", kMiopenAlgorithms}};
constexpr std::size_t kSolverAxis = 0, kAlgorithmAxis = 1;

constexpr ConfigSpace kMiopenSpaces[] = {{"miopen", Op::conv_fwd, kMiopenAxes},
                                         {"miopen", Op::conv_bwd_data, kMiopenAxes},
                                         {"miopen", Op::conv_bwd_weight, kMiopenAxes}};

const ConfigSpace& miopen_space(Op op) {
  return kMiopenSpaces[static_cast<int>(op) - static_cast<int>(Op::conv_fwd)];
}

std::int32_t algorithm_of(const MiopenSolver& solver) {
  return static_cast<std::int32_t>(std::ranges::find(kMiopenAlgorithms, solver.algorithm) -
                                   std::begin(kMiopenAlgorithms));
}

class MiopenProvider final : public Provider {
 public:
  std::string_view name() const noexcept override { return "miopen"; }
  std::string_view help() const noexcept override {
    return "convolutions: solvers of AMD's MIOpen, from its find databases; nothing here runs them";
  }
  bool runs_on(const Device& device) const noexcept override {
    return device.kind == DeviceKind::gpu && device.vendor == "AMD";
  }
  bool library_decides() const noexcept override { return true; }
  std::span<const Op> ops() const noexcept override { return kDirections; }
  const ConfigSpace& space(Op op) const override {
    if (!is_direction(op))
      fail(Errc::unsupported, "miopen has no kernels for {}; it has {}", word(op),
           fmt::join(kDirectionWords, ", "));
    return miopen_space(op);
  }

  std::string print(const Signature& signature, const KernelConfig& config) const override {
    check_signature(*this, signature);
    const MiopenSolver& solver = solver_of(config);
    return fmt::format("miopen_{}__{}", conv_signature_text(signature), solver.name);
  }

  NamedConfig parse(std::string_view name) const override {
    NameReader in("miopen", name);
    in.literal("miopen_");
    const Signature signature = read_conv_signature(in);
    in.check_signature(miopen_space(signature.op), signature);
    in.literal("__");
    const auto config = miopen_config(signature.op, in.rest);
    if (!config)
      throw Error(Errc::invalid_argument, unknown_name_message("solver", in.rest, kMiopenSolverWords));
    return {signature, *config};
  }

  Traits traits(const Signature&, const KernelConfig& config, const Device&) const override {
    Traits t;
    t.workers = t.workers_m = t.workers_n = 0;
    t.packs_a = t.packs_b = 0;
    t.kind = 0;
    const MiopenSolver& solver = solver_of(config);
    t.algorithm = config[kSolverAxis];
    t.variant = algorithm_of(solver);
    return t;
  }

  KernelConfig canonical(const KernelConfig& config) const override {
    KernelConfig whole = config;
    whole[kAlgorithmAxis] = algorithm_of(solver_of(config));
    return whole;
  }

 private:
  static const MiopenSolver& solver_of(const KernelConfig& config) {
    return kMiopenSolvers[static_cast<std::size_t>(axis_value(config, kSolverAxis, false))];
  }
};

}  // namespace

std::span<const MiopenSolver> miopen_solvers() noexcept { return kMiopenSolvers; }

const Provider& miopen_provider() {
  static const MiopenProvider provider;
  return provider;
}

std::optional<KernelConfig> miopen_config(Op op, std::string_view solver) {
  const auto known = std::ranges::find(kMiopenSolvers, solver, &MiopenSolver::name);
  if (known == std::end(kMiopenSolvers)) return std::nullopt;
  KernelConfig config(miopen_space(op));
  config[kSolverAxis] = static_cast<std::int32_t>(known - std::begin(kMiopenSolvers));
  config[kAlgorithmAxis] = algorithm_of(*known);
  return config;
}

}  // namespace kscout
