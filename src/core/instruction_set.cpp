#include "core/instruction_set.h"

namespace kscout {
namespace {

InstructionSet detect() noexcept {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool dl = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                  __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512bitalg") &&
                  __builtin_cpu_supports("avx512vnni");
  if (avx2 && avx512) return dl ? InstructionSet::avx512_dl : InstructionSet::avx512;
  if (avx2) return InstructionSet::avx2;
#endif
  return InstructionSet::scalar;
}

}  // namespace

InstructionSet best_instruction_set() noexcept {
  static const InstructionSet best = detect();
  return best;
}

}  // namespace kscout
