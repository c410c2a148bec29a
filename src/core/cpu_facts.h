#pragma once
/// \file
/// Reads a CPU's facts out of the texts that Linux shows, apart from how those texts are read: recorded ones
/// are as good as live ones.
///
///     const Device cpu = describe_cpu(read_from_filesystem, {0, 1});
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <kscout/device.h>

namespace kscout {

/// The content of a file by its absolute path, "" when there is none.
using ReadText = std::function<std::string(const std::string& path)>;

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

}  // namespace kscout
