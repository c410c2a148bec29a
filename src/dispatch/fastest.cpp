#include "dispatch/fastest.h"

#include <chrono>

#include <kscout/provider.h>
#include <kscout/version.h>

namespace kscout {

StoredDecision decision_of(const GemmProblem& problem, const KernelConfig& config, const Fastest& fastest,
                           Backend& on) {
  GemmProblem identity = problem;
  identity.weight = 1;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.problem = print(identity),
          .config = config_name(signature_of(problem), config),
          .device = device_identity(on.device()),
          .driver = "",
          .version = KSCOUT_VERSION,
          .backend = std::string(on.name()),
          .time_us = fastest.time_us,
          .next_us = fastest.next_us,
          .timed = static_cast<std::int64_t>(fastest.timed),
          .at = std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

}  // namespace kscout
