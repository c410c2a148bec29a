#pragma once
/// \file
/// What the driver says of a GPU, at rest and at work.
#include "backend/cuda/module.h"

namespace kscout::cuda {

Answer read_facts(std::int32_t device, Facts& facts);
/// Of the open device, through NVML; unsupported where that library is not.
Answer read_state(std::int32_t device, State& state);

}  // namespace kscout::cuda
