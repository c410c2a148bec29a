#pragma once
/// \file
/// Bounds what a device can compute, to find times that no kernel can have had.
///
///     const double limit = max_tflops(find_device("gfx950"), DType::fp16);   // 2768: peak and tolerance
#include <kscout/device.h>
#include <kscout/types.h>

namespace kscout {

/// Microseconds: no call of a kernel is shorter. A cycle of the fastest processor takes a fifth of it.
inline constexpr double kMinTimeUs = 1e-3;

/// The most TFLOPS that the device may reach on inputs of a type, with a tolerance for clocks above the
/// stated one. Where the device states no clock or no cores, or its architecture is not known, those of the
/// fastest device of its kind count.
double max_tflops(const Device& device, DType input) noexcept;

}  // namespace kscout
