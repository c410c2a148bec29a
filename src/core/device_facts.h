#pragma once
/// \file
/// Reads facts of CPUs and AMD GPUs out of the texts that Linux shows; recorded texts do as well as live
/// ones.
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

/// The content of a file by its absolute path, "" when there is none.
using ReadText = std::function<std::string(const std::string& path)>;

/// Logical CPUs that the calling thread may run on.
std::vector<int> usable_cpus();

/// Facts from /proc/cpuinfo and /sys/devices/system/cpu about the logical CPUs that the process may use. What
/// the texts do not tell stays unknown.
///
/// Clock: the highest cpuinfo_max_freq; without cpufreq (virtual machines) the one of /proc/cpuinfo, rounded
/// to 5 MHz because it is calibrated anew at each boot. That is often the base clock, so a measured rate may
/// exceed peak_fp32_gflops there.
Device describe_cpu(const ReadText& read, std::span<const int> allowed_cpus);

/// What cpuid's numbers say about a microarchitecture.
struct CpuArch {
  std::string name;  ///< "zen3", or "amd-26-144" for a model that families/cpu_archs.toml does not list
  double fma_avx2 = Device::unknown;
  double fma_avx512 = Device::unknown;
};
CpuArch find_cpu_arch(std::string_view vendor, int family, int model, int stepping,
                      std::string_view model_name);
/// The same by name; unknown rates when no such architecture is listed.
CpuArch cpu_arch(std::string_view name, std::string_view model_name);

/// Sets vector_bytes and fma_per_cycle, which follow from the instruction set and the architecture.
void derive_vector_facts(Device& device, const CpuArch& arch);

// ---- AMD GPUs of this machine, from what the kernel driver or rocminfo say. Opens no device and links
// nothing.
//
//     for (const Device& gpu : detect_amd_gpus()) std::puts(gpu.name.c_str());
//
// A partition of a GPU is a device of its own with the compute units, dies and memory that it has: a
// preset's numbers are never put in their place.

/// Devices of the driver's topology, in its order; empty without such a driver. `root` has a folder
/// nodes/N with a file `properties` per node, and nodes/N/caches/M/properties. Throws corrupt_data for a
/// number that is none.
std::vector<Device> detect_amd_gpus(const std::filesystem::path& root = "/sys/class/kfd/kfd/topology");

/// The same from the text that `rocminfo` prints. Facts of one GPU are not mixed with those of the CPU or of
/// another one. LDS comes from its memory pool of segment GROUP.
std::vector<Device> read_rocminfo(std::string_view text);

/// "gfx942-304cu": GPUs of one architecture differ in units, and partitions more so.
std::string amd_gpu_name(std::string_view arch, double units);

// ---- Reads device presets: one TOML table per device, one key per field of Device.
//
//     constexpr std::string_view kFile = "families/devices.toml";
//     const auto presets = parse_device_presets(embedded_file(kFile), kFile);

/// Presets in the order of their names. Throws corrupt_data with file and line: no TOML, a fact that Device
/// does not have (names the nearest), a value of the wrong type or below zero, `kind` missing.
std::vector<Device> parse_device_presets(std::string_view toml, std::string_view file);

// ---- Whether two descriptions are of one device.
//
//     const std::string why = device_difference(before, now);
//     if (!why.empty()) ...   // "max_clock_mhz is 2595 MHz and 3100 MHz"

/// Of its larger value: so much may a fact with a unit (clock, bytes, bandwidth) differ, since a machine that
/// measures them at each start finds others.
inline constexpr double kDeviceDrift = 0.02;

/// Names the facts that tell two devices apart, with both values; empty when there is none. A fact that only
/// one of them knows is one.
std::string device_difference(const Device& a, const Device& b);

// ---- Which of the instruction sets that code is compiled for this processor has.
//
//     if (best_instruction_set() >= InstructionSet::avx2) ...

/// Each contains those before it. avx2 means FMA and bit manipulation (BMI 1 and 2) as well; avx512 the
/// parts F, BW, CD, DQ and VL; avx512_dl what Ice Lake and Zen 4 added: VBMI 1 and 2, VPOPCNTDQ, BITALG and
/// VNNI (their carry-less products and AES are left unused: isa-inl.h).
enum class InstructionSet : std::uint8_t { scalar, avx2, avx512, avx512_dl };

/// Asks the processor once: in virtual machines the question is expensive.
InstructionSet best_instruction_set() noexcept;

}  // namespace kscout
