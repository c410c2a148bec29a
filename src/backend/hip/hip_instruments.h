#pragma once
/// \file
/// Memory and instruments of backend `hip`. Without device code of our own, operands are made and sums are
/// added up on the CPU and copied; what is timed is timed by the GPU's own events.
#include "measure/instruments.h"

namespace kscout::hip {

Memory& hip_memory() noexcept;
Instruments& hip_instruments() noexcept;

}  // namespace kscout::hip
