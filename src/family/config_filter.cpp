#include "family/config_filter.h"

#include "expr/expr.h"
#include "family/family_file.h"

namespace kscout {

std::vector<bool> holding_configs(const std::string& formula, std::span<const KernelConfig> configs,
                                  const Device& device, const Signature& signature) {
  std::vector<bool> holding;
  if (configs.empty()) return holding;
  const auto program =
      expr::Program::compile({{"filter", formula}}, family_scope(*configs.front().space, {}, false));
  for (const KernelConfig& config : configs) {
    expr::Inputs inputs(program);
    inputs.set("c", config);
    inputs.set("d", device);
    inputs.set("s", signature);
    const double value = expr::evaluate_one(program, inputs);
    holding.push_back(value == value && value != 0);
  }
  return holding;
}

}  // namespace kscout
