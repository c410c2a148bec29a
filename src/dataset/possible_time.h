#pragma once
/// \file
/// Finds times that a kernel cannot have taken.
///
///     const std::string why = impossible_time(problem, 1e-3, device, provider);
#include <string>

#include <kscout/any_problem.h>
#include <kscout/device.h>
#include <kscout/provider.h>

namespace kscout {

/// Why no kernel of the provider takes this time for the problem on the device: it is below kMinTimeUs, or
/// means more operations per second than the device can compute. Empty when it may.
std::string impossible_time(const Problem& problem, double time_us, const Device& device,
                            const Provider& provider);

}  // namespace kscout
