#pragma once
/// \file
/// AMD GPUs of this machine, from what the kernel driver or rocminfo say. Opens no device and links nothing.
///
///     for (const Device& gpu : detect_amd_gpus()) std::puts(gpu.name.c_str());
///
/// A partition of a GPU is a device of its own with the compute units, dies and memory that it has: a
/// preset's numbers are never put in their place.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/device.h>

namespace kscout {

/// Devices of the driver's topology, in its order; empty without such a driver. `root` has a folder
/// nodes/N with a file `properties` per node, and nodes/N/caches/M/properties. Throws corrupt_data for a
/// number that is none.
std::vector<Device> detect_amd_gpus(const std::filesystem::path& root = "/sys/class/kfd/kfd/topology");

/// The same from the text that `rocminfo` prints. Facts of one GPU are not mixed with those of the CPU or of
/// another one. LDS comes from its memory pool of segment GROUP.
std::vector<Device> read_rocminfo(std::string_view text);

/// "gfx942-304cu": GPUs of one architecture differ in units, and partitions more so.
std::string amd_gpu_name(std::string_view arch, double units);

}  // namespace kscout
