#pragma once
/// \file
/// Reads facts of CPUs and AMD GPUs from Linux's text files, live or recorded.
///
///     const Device cpu = describe_cpu(read_from_filesystem, {0, 1});
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/device.h>

namespace kscout {

/// Returns the content of a file by its absolute path, "" when there is none.
using ReadText = std::function<std::string(const std::string& path)>;

/// Logical CPUs that the calling thread may run on.
std::vector<int> usable_cpus();

/// Reads facts of the logical CPUs that the process may use, from /proc/cpuinfo and /sys/devices/system/cpu.
/// Facts that the texts lack stay unknown.
///
/// Clock: the highest cpuinfo_max_freq. Without cpufreq (virtual machines), the clock of /proc/cpuinfo,
/// rounded to 5 MHz because the kernel calibrates it at each boot. That is often the base clock, so a
/// measured rate may exceed peak_fp32_gflops there.
Device describe_cpu(const ReadText& read, std::span<const int> allowed_cpus);

/// detect_cpu() for a process that may use only these logical CPUs.
Device detect_cpu_part(std::span<const int> cpus);

/// A microarchitecture, from the numbers of cpuid.
struct CpuArch {
  std::string name;  ///< "zen3", or "amd-26-144" for a model that families/cpu_archs.toml does not contain
  double fma_avx2 = Device::unknown;
  double fma_avx512 = Device::unknown;
};
CpuArch find_cpu_arch(std::string_view vendor, int family, int model, int stepping,
                      std::string_view model_name);
/// Finds a microarchitecture by name; its rates are unknown when the file does not contain it.
CpuArch cpu_arch(std::string_view name, std::string_view model_name);

/// Sets vector_bytes and fma_per_cycle from the instruction set and the architecture.
void derive_vector_facts(Device& device, const CpuArch& arch);

/// Each instruction set contains those before it. avx2 includes FMA and bit manipulation (BMI 1 and 2);
/// avx512 means F, BW, CD, DQ and VL; avx512_dl adds the extensions of Ice Lake and Zen 4: VBMI 1 and 2,
/// VPOPCNTDQ, BITALG and VNNI. The carry-less products and AES instructions of those processors stay unused
/// (isa-inl.h).
enum class InstructionSet : std::uint8_t { scalar, avx2, avx512, avx512_dl };

/// The best of this processor, among those with compiled code. Asks the processor and the operating system
/// (CPUID, XGETBV) once, because cpuid is slow in virtual machines.
InstructionSet best_instruction_set() noexcept;

/// Sets the instruction set that the processor itself reports. /proc/cpuinfo may promise one that it refuses:
/// emulators pass on the file of their host. The device is then named as restrict_isa() names it.
void use_instruction_set(Device& device, InstructionSet best);

/// Describes the CPU as a device that lacks the instruction sets above `isa`: "sapphirerapids-2c" becomes
/// "sapphirerapids-avx2-2c", with arch, isa and vector facts to match. Unchanged when `isa` is "" or the
/// device's own. Throws invalid_argument, naming KSCOUT_ISA, for an unknown word or one above the device's
/// own.
void restrict_isa(Device& device, std::string_view isa);

// ---- Detects the AMD GPUs of this machine, from the kernel driver or rocminfo. Opens no device and links
// nothing.
//
//     for (const Device& gpu : detect_amd_gpus()) std::puts(gpu.name.c_str());
//
// A partition of a GPU is a device of its own, with its own compute units, dies and memory; a preset's
// numbers never replace the partition's.

/// The GPUs in the topology files of AMD's kernel driver, in the driver's order; empty without that driver.
/// `root` has a folder nodes/N with a file `properties` per node, and nodes/N/caches/M/properties. Throws
/// corrupt_data for text in place of a number.
std::vector<Device> detect_amd_gpus(const std::filesystem::path& root = "/sys/class/kfd/kfd/topology");

/// The same devices from the output of `rocminfo`. Keeps the facts of each GPU apart from those of the CPU
/// and of other GPUs. LDS is the memory pool of segment GROUP.
std::vector<Device> read_rocminfo(std::string_view text);

/// "gfx942-304cu": the name of a GPU. It contains the number of compute units, because GPUs of one
/// architecture, and even more so their partitions, differ in it.
std::string amd_gpu_name(std::string_view arch, double units);

// ---- Reads device presets: one TOML table per device, one key per field of Device.
//
//     constexpr std::string_view kFile = "families/devices.toml";
//     const auto presets = parse_device_presets(embedded_file(kFile), kFile);

/// Presets in the order of their names. Throws corrupt_data with file and line: invalid TOML, a fact that
/// Device lacks (names the nearest fact), a value of the wrong type or below zero, a missing `kind`.
std::vector<Device> parse_device_presets(std::string_view toml, std::string_view file);

// ---- Compares two descriptions of a device.
//
//     const std::string why = device_difference(before, now);
//     if (!why.empty()) ...   // "max_clock_mhz is 2595 MHz and 3100 MHz"

/// Tolerance of a fact with a unit (clock, bytes, bandwidth), as a fraction of the larger value: a machine
/// that measures such facts at each start gets slightly different values.
inline constexpr double kDeviceDrift = 0.02;

/// Names the facts in which two devices differ, with both values; empty when they agree. A fact that only one
/// of them knows counts as a difference.
std::string device_difference(const Device& a, const Device& b);

}  // namespace kscout
