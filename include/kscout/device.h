#pragma once
/// \file
/// Describes one CPU or GPU by static facts, each known or unknown.
///
///     const kscout::Device here = kscout::detect_cpu();
///     const kscout::Device mi355 = kscout::device_preset("gfx950");
///
/// NaN (numbers) and "" (texts) mean unknown. Facts that change between two runs on one device (clocks under
/// load, driver and library versions) belong to a measurement, not here.
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/fields.h>

namespace kscout {

enum class DeviceKind : std::uint8_t { cpu, gpu };
template <>
struct EnumWords<DeviceKind> {
  static constexpr std::string_view what = "device kind";
  static constexpr std::array<std::string_view, 2> words = {"cpu", "gpu"};
};

/// A "core" is a CPU core, a streaming multiprocessor or a compute unit.
struct Device {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  std::string name;  ///< short, usable as a folder name: "zen3-2c", "h200", "gfx950"
  DeviceKind kind = DeviceKind::cpu;
  std::string vendor;
  std::string arch;   ///< "zen3", "sm_90", "gfx950"
  std::string model;  ///< as the vendor prints it
  std::string isa;    ///< best instruction set with CPU kernels here: "avx512", "avx2", "scalar"; "" on a GPU
  double cores = unknown;
  double threads_per_core = unknown;
  double simds_per_core = unknown;
  double shader_engines = unknown;
  double max_clock_mhz = unknown;
  double max_waves_per_core = unknown;
  double wavefront_size = unknown;
  double shared_bytes_per_core = unknown;  ///< shared memory or LDS
  double l1_bytes = unknown;               ///< data cache of one core
  double l2_bytes = unknown;               ///< per core on a CPU, whole device on a GPU
  double l3_bytes = unknown;               ///< CPU: the part that one core can use
  double dies = unknown;                   ///< independent chiplets (XCD)
  double vector_bytes = unknown;           ///< SIMD register of a CPU core
  double fma_per_cycle = unknown;          ///< vector FMA instructions that a CPU core starts per cycle
  double memory_gb_s = unknown;            ///< peak bandwidth, 10^9 bytes per second

  bool operator==(const Device& other) const;
};

template <>
struct Fields<Device> {
  using T = Device;
  static constexpr auto list = std::tuple{
      Field{"name", &T::name, "1", "short name, fit for a folder"},
      Field{"kind", &T::kind, "1", "cpu or gpu"},
      Field{"vendor", &T::vendor, "1", "maker"},
      Field{"arch", &T::arch, "1", "microarchitecture or compute capability"},
      Field{"model", &T::model, "1", "name as the vendor prints it"},
      Field{"isa", &T::isa, "1", "best instruction set of the CPU kernels"},
      Field{"cores", &T::cores, "1", "CPU cores, multiprocessors or compute units"},
      Field{"threads_per_core", &T::threads_per_core, "1", "hardware threads of one CPU core"},
      Field{"simds_per_core", &T::simds_per_core, "1", "SIMD units of one compute unit"},
      Field{"shader_engines", &T::shader_engines, "1", "shader engines"},
      Field{"max_clock_mhz", &T::max_clock_mhz, "MHz", "highest clock"},
      Field{"max_waves_per_core", &T::max_waves_per_core, "1", "resident waves of one compute unit"},
      Field{"wavefront_size", &T::wavefront_size, "lanes", "threads of one wave or warp"},
      Field{"shared_bytes_per_core", &T::shared_bytes_per_core, "bytes", "shared memory or LDS of one core"},
      Field{"l1_bytes", &T::l1_bytes, "bytes", "level-1 data cache of one core"},
      Field{"l2_bytes", &T::l2_bytes, "bytes", "level-2 cache: per CPU core, or of the whole GPU"},
      Field{"l3_bytes", &T::l3_bytes, "bytes", "level-3 cache that one core can use"},
      Field{"dies", &T::dies, "1", "chiplets that work apart"},
      Field{"vector_bytes", &T::vector_bytes, "bytes", "SIMD register of a CPU core"},
      Field{"fma_per_cycle", &T::fma_per_cycle, "1", "vector FMA instructions a CPU core starts per cycle"},
      Field{"memory_gb_s", &T::memory_gb_s, "GB/s", "peak memory bandwidth"},
  };
};

inline bool Device::operator==(const Device& other) const { return fields_equal(*this, other); }

/// Facts of this machine's CPU, from cpuid, /proc and /sys; KSCOUT_ISA lowers its instruction set. The name
/// is
/// "<arch>-<cores>c". Counts the cores that this process may run on (affinity), not those of the host.
Device detect_cpu();

/// A device from families/devices.toml; throws not_found naming the nearest device.
Device device_preset(std::string_view name);
std::vector<std::string> device_preset_names();

/// Stands for every CPU: the device of a model for CPUs that nobody measured. Named "any_cpu"; its facts
/// admit scalar kernels on one core.
Device any_cpu();

/// "auto" (this machine's CPU) or a preset's name.
Device find_device(std::string_view name_or_auto);

/// Peak fp32 GFLOPS of `cores` CPU cores: 2 * lanes * fma_per_cycle * clock; unknown when one of these facts
/// is unknown.
double peak_fp32_gflops(const Device& device) noexcept;

/// The CPU whatever part of it is used: `arch` without the instruction set that KSCOUT_ISA appends. Devices
/// of one CPU with other instruction sets or thread counts have equal results.
std::string cpu_of(const Device& device);

}  // namespace kscout
