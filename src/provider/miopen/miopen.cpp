#include "provider/miopen/miopen.h"

#include <vector>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "core/problem_text.h"
#include "provider/name_reader.h"
#include "provider/typed_config.h"

namespace kscout {

namespace {

constexpr std::string_view kSolverFile = "families/miopen_solvers.txt";
constexpr std::string_view kMiopenAlgorithms[] = {"Direct", "GEMM", "ImplicitGEMM", "Winograd", "FFT"};
constexpr std::size_t kSolverAxis = 0, kAlgorithmAxis = 1;

struct Solvers {
  std::vector<std::string_view> names;
  std::vector<std::int32_t> algorithms;  ///< by solver
};
const Solvers& solvers() {
  static const Solvers all = [] {
    Solvers read;
    for (const std::string_view line : split(embedded_file(kSolverFile), '\n')) {
      if (line.empty() || line.starts_with('#')) continue;
      const std::size_t blank = line.find(' ');
      read.names.push_back(line.substr(0, blank));
      read.algorithms.push_back(
          static_cast<std::int32_t>(index_of_word("algorithm", line.substr(blank + 1), kMiopenAlgorithms)));
    }
    return read;
  }();
  return all;
}

const ConfigSpace& miopen_space(Op op) {
  static const Axis axes[] = {{"solver", "1", "MIOpen's solver", solvers().names},
                              {"algorithm", "1", "the solver's algorithm", kMiopenAlgorithms}};
  static const ConfigSpace spaces[] = {{"miopen", Op::conv_fwd, axes},
                                       {"miopen", Op::conv_bwd_data, axes},
                                       {"miopen", Op::conv_bwd_weight, axes}};
  return spaces[static_cast<int>(op) - static_cast<int>(Op::conv_fwd)];
}

KernelConfig config_of(Op op, std::size_t solver) {
  KernelConfig config(miopen_space(op));
  config[kSolverAxis] = static_cast<std::int32_t>(solver);
  config[kAlgorithmAxis] = solvers().algorithms[solver];
  return config;
}

std::size_t solver_of(const KernelConfig& config) {
  return static_cast<std::size_t>(axis_value(config, kSolverAxis, false));
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
    return fmt::format("miopen_{}__{}", conv_signature_text(signature), solvers().names[solver_of(config)]);
  }

  NamedConfig parse(std::string_view name) const override {
    NameReader in("miopen", name);
    in.literal("miopen_");
    const Signature signature = read_conv_signature(in);
    in.check_signature(miopen_space(signature.op), signature);
    in.literal("__");
    const auto config = miopen_config(signature.op, in.rest);
    if (!config)
      throw Error(Errc::invalid_argument, unknown_name_message("solver", in.rest, solvers().names));
    return {signature, *config};
  }

  Traits traits(const Signature&, const KernelConfig& config, const Device&) const override {
    Traits t;
    t.workers = t.workers_m = t.workers_n = 0;
    t.packs_a = t.packs_b = 0;
    t.kind = 0;
    t.algorithm = config[kSolverAxis];
    t.variant = solvers().algorithms[solver_of(config)];
    return t;
  }

  KernelConfig canonical(const KernelConfig& config) const override {
    return config_of(config.space->op, solver_of(config));
  }
};

}  // namespace

const Provider& miopen_provider() {
  static const MiopenProvider provider;
  return provider;
}

std::optional<KernelConfig> miopen_config(Op op, std::string_view solver) {
  const auto known = find_word(solver, solvers().names);
  return known ? std::optional(config_of(op, *known)) : std::nullopt;
}

}  // namespace kscout
