#pragma once
/// \file
/// Ranks kernels that take lines at any address of an element (Traits::alignment 1), by their analytic time:
/// those of the program's own providers beside the usual one of the problem's op.
///
///     for (const Choice& choice : any_address_choices(problem, backend.device())) ...  // fastest first
#include <vector>

#include <kscout/device.h>
#include <kscout/selector.h>

namespace kscout {

/// Choices with a known time; empty where the device has no such kernels. Thread-safe.
std::vector<Choice> any_address_choices(ProblemRef problem, const Device& device);

}  // namespace kscout
