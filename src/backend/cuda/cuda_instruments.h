#pragma once
/// \file
/// Memory and instruments of backend `cuda`: thin, since the work is done in the module.
#include "measure/instruments.h"

namespace kscout::cuda {

Memory& gpu_memory() noexcept;
Instruments& gpu_instruments() noexcept;

}  // namespace kscout::cuda
