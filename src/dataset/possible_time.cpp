#include "dataset/possible_time.h"

#include <algorithm>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "core/max_tflops.h"

namespace kscout {

namespace {

/// The most operations of the definition for one that a kernel computes: a Winograd or FFT kernel computes
/// at least one product for all taps of a filter, and any may leave out products with padding. Kernels of CK
/// Tile compute each.
double saving(const Problem& problem, const Provider& provider) {
  if (!is_direction(problem.op()) || provider.name() == "ck_tile") return 1;
  const auto padded = [&](const char* size, const char* left, const char* right) {
    const auto inside = static_cast<double>(problem[size]);
    return (inside + static_cast<double>(problem[left] + problem[right])) / inside;
  };
  return static_cast<double>(problem["z"] * problem["y"] * problem["x"]) *
         padded("d", "left_pad_d", "right_pad_d") * padded("h", "left_pad_h", "right_pad_h") *
         padded("w", "left_pad_w", "right_pad_w");
}

}  // namespace

std::string impossible_time(const Problem& problem, double time_us, const Device& device,
                            const Provider& provider) {
  if (time_us < kMinTimeUs) return fmt::format("{} us: no kernel takes less than {} us", time_us, kMinTimeUs);
  const Signature types = signature_of(problem);
  const double most = saving(problem, provider) *
                      std::max(max_tflops(device, types.dtype_a), max_tflops(device, types.dtype_b));
  const double tflops = flop_count(problem) / time_us * 1e-6;
  if (!(tflops > most)) return {};
  return fmt::format(
      "{:.6g} us mean {:.4g} TFLOPS, and device '{}' reaches at most {:.4g} with {}; correct "
      "the time, or the device's clock and cores",
      time_us, tflops, device.name, most, word(types.dtype_a));
}

}  // namespace kscout
