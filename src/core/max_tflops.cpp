#include "core/max_tflops.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace kscout {

namespace {

/// Virtual machines report the base clock only; no CPU runs at twice that clock.
constexpr double kCpuBoost = 2;
constexpr double kGpuBoost = 1.1;

// Of devices that do not state them: above every device that exists.
constexpr double kAnyCpuMhz = 6000, kAnyGpuMhz = 3500, kAnyCores = 1024;

/// Dense operations per cycle of a GPU's core by the type of the inputs, from the vendors' data sheets and
/// white papers. fp32 is that of TF32: libraries may compute fp32 products with it.
struct GpuRate {
  std::string_view arch;
  double fp64, fp32, bits16, bits8, bits4;
};
constexpr GpuRate kGpuRates[] = {
    {"sm_80", 128, 1024, 2048, 4096, 8192},  {"sm_89", 4, 512, 1024, 2048, 4096},
    {"sm_90", 256, 2048, 4096, 8192, 8192},  {"sm_100", 256, 4096, 8192, 16384, 32768},
    {"gfx908", 128, 256, 1024, 1024, 1024},  {"gfx90a", 256, 256, 1024, 1024, 1024},
    {"gfx942", 256, 1024, 2048, 4096, 4096}, {"gfx950", 256, 1366, 4096, 8192, 16384},
};
constexpr GpuRate kAnyGpu = {"", 256, 4096, 8192, 16384, 32768};

double gpu_rate(std::string_view arch, DType input) noexcept {
  const auto* const known = std::ranges::find(kGpuRates, arch, &GpuRate::arch);
  const GpuRate& rate = known == std::end(kGpuRates) ? kAnyGpu : *known;
  switch (input) {
    case DType::fp64:
      return rate.fp64;
    case DType::fp32:
    case DType::tf32:
    case DType::int32:
      return rate.fp32;
    case DType::fp16:
    case DType::bf16:
      return rate.bits16;
    case DType::fp8:
    case DType::bf8:
    case DType::int8:
      return rate.bits8;
    case DType::int4:
      return rate.bits4;
  }
  return kAnyGpu.bits4;
}

/// Vector instructions for fp32 and fp64; for shorter types those of AMX, which no fact states.
double cpu_rate(const Device& device, DType input) noexcept {
  constexpr double kAvx512Fma = 64, kAmx = 4096;
  if (input != DType::fp32 && input != DType::fp64) return kAmx;
  const double stated = 2 * device.vector_bytes / sizeof(float) * device.fma_per_cycle;
  return (stated > 0 ? stated : kAvx512Fma) / (input == DType::fp64 ? 2 : 1);
}

double stated_or(double fact, double otherwise) noexcept { return fact > 0 ? fact : otherwise; }

}  // namespace

double max_tflops(const Device& device, DType input) noexcept {
  const bool cpu = device.kind == DeviceKind::cpu;
  const double rate = cpu ? cpu_rate(device, input) : gpu_rate(device.arch, input);
  const double mhz = stated_or(device.max_clock_mhz, cpu ? kAnyCpuMhz : kAnyGpuMhz);
  return (cpu ? kCpuBoost : kGpuBoost) * rate * mhz * stated_or(device.cores, kAnyCores) * 1e-6;
}

}  // namespace kscout
