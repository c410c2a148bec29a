#pragma once
/// \file
/// Which of the instruction sets that code is compiled for this processor has.
///
///     if (best_instruction_set() >= InstructionSet::avx2) ...
#include <cstdint>

namespace kscout {

/// Each contains those before it. avx2 means FMA and bit manipulation (BMI 1 and 2) as well; avx512 the
/// parts F, BW, CD, DQ and VL; avx512_dl what Ice Lake and Zen 4 added: VBMI 1 and 2, VPOPCNTDQ, BITALG and
/// VNNI (their carry-less products and AES are left unused: isa-inl.h).
enum class InstructionSet : std::uint8_t { scalar, avx2, avx512, avx512_dl };

/// Asks the processor once: in virtual machines the question is expensive.
InstructionSet best_instruction_set() noexcept;

}  // namespace kscout
