#include "core/amd_gpus.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/one_line.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string name_of(const Device& device) { return amd_gpu_name(device.arch, device.cores); }

// ---- the driver's topology

/// Lines "name number" of a file; empty when it is not there.
std::map<std::string, double, std::less<>> read_properties(const fs::path& file) {
  std::map<std::string, double, std::less<>> properties;
  if (is_absent(file)) return properties;
  const std::string text = read_file(file);
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split(trimmed(line), ' ');
    if (words.size() == 2) properties[std::string(words[0])] = parse_field<double>(words[0], words[1]);
  }
  return properties;
}

/// The fact's number, unknown when it is missing or 0, which is how the driver says "does not apply".
double fact(const std::map<std::string, double, std::less<>>& properties, std::string_view name) {
  const auto found = properties.find(name);
  return found == properties.end() || found->second == 0 ? Device::unknown : found->second;
}

/// 90402 is gfx942, 90010 gfx90a: major, minor, and the step as a hexadecimal digit.
std::string arch_of(double version) {
  const auto number = static_cast<int>(version);
  return fmt::format("gfx{}{}{:x}", number / 10000, number / 100 % 100, number % 100);
}

/// Folders 0, 1, ... in the order of their numbers.
std::vector<fs::path> numbered(const fs::path& folder) {
  std::vector<std::pair<long, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
      found.emplace_back(std::stol(name), entry.path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// The largest data cache of a level, in bytes. Type has bit 0 for data; levels above the first are for both.
double cache_bytes(const fs::path& node, double level) {
  double bytes = Device::unknown;
  for (const fs::path& cache : numbered(node / "caches")) {
    const auto properties = read_properties(cache / "properties");
    const double type = fact(properties, "type");
    if (fact(properties, "level") != level || !(type > 0) || static_cast<int>(type) % 2 == 0) continue;
    bytes = std::fmax(bytes, fact(properties, "size") * 1024);
  }
  return bytes;
}

std::optional<Device> gpu_of_node(const fs::path& node) {
  const auto properties = read_properties(node / "properties");
  const double simds = fact(properties, "simd_count"), version = fact(properties, "gfx_target_version");
  if (!(simds > 0) || !(version > 0)) return std::nullopt;  // a CPU
  Device device;
  device.kind = DeviceKind::gpu;
  device.vendor = "AMD";
  device.arch = arch_of(version);
  device.simds_per_core = fact(properties, "simd_per_cu");
  device.cores = simds / device.simds_per_core;
  device.shader_engines = fact(properties, "array_count") / fact(properties, "simd_arrays_per_engine");
  device.max_clock_mhz = fact(properties, "max_engine_clk_fcompute");
  device.max_waves_per_core = fact(properties, "max_waves_per_simd") * device.simds_per_core;
  device.wavefront_size = fact(properties, "wave_front_size");
  device.shared_bytes_per_core = fact(properties, "lds_size_in_kb") * 1024;
  device.dies = fact(properties, "num_xcc");
  device.l1_bytes = cache_bytes(node, 1);
  device.l2_bytes = cache_bytes(node, 2);
  device.l3_bytes = cache_bytes(node, 3);
  device.name = name_of(device);
  return device;
}

// ---- rocminfo

/// The number in front of "(0x..)" or a unit.
double leading_number(std::string_view name, std::string_view text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  return digits.empty() ? Device::unknown : parse_field<double>(name, digits);
}

struct RocmFact {
  std::string_view name;
  double Device::*fact;
  double unit;
};
constexpr RocmFact kRocmFacts[] = {
    {"Compute Unit", &Device::cores, 1},
    {"SIMDs per CU", &Device::simds_per_core, 1},
    {"Shader Engines", &Device::shader_engines, 1},
    {"Max Clock Freq. (MHz)", &Device::max_clock_mhz, 1},
    {"Wavefront Size", &Device::wavefront_size, 1},
    {"Max Waves Per CU", &Device::max_waves_per_core, 1},
    {"L1", &Device::l1_bytes, 1024},
    {"L2", &Device::l2_bytes, 1024},
    {"L3", &Device::l3_bytes, 1024},
};

/// One agent's lines, until its "ISA Info", where names mean something else.
class RocmAgent {
 public:
  void take(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || in_isa_) return;
    const std::string_view name = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (name == "ISA Info") in_isa_ = true;
    if (name == "Device Type") is_gpu_ = value == "GPU";
    if (name == "Name" && device_.arch.empty()) device_.arch = value;
    if (name == "Marketing Name") device_.model = value;
    if (name == "Segment") in_lds_ = value.starts_with("GROUP");
    if (name == "Size" && in_lds_) device_.shared_bytes_per_core = leading_number(name, value) * 1024;
    for (const RocmFact& known : kRocmFacts) {
      if (known.name == name) device_.*known.fact = leading_number(name, value) * known.unit;
    }
  }
  std::optional<Device> gpu() {
    if (!is_gpu_) return std::nullopt;
    device_.kind = DeviceKind::gpu;
    device_.vendor = "AMD";
    device_.name = name_of(device_);
    return device_;
  }

 private:
  Device device_;
  bool is_gpu_ = false, in_lds_ = false, in_isa_ = false;
};

}  // namespace

std::vector<Device> detect_amd_gpus(const fs::path& root) {
  std::vector<Device> gpus;
  for (const fs::path& node : numbered(root / "nodes")) {
    if (auto gpu = gpu_of_node(node)) gpus.push_back(std::move(*gpu));
  }
  return gpus;
}

std::vector<Device> read_rocminfo(std::string_view text) {
  std::vector<Device> gpus;
  RocmAgent agent;
  const auto finish = [&] {
    if (auto gpu = agent.gpu()) gpus.push_back(std::move(*gpu));
    agent = {};
  };
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view words = trimmed(line);
    if (words.starts_with("Agent ") && words.find(':') == std::string_view::npos) {
      finish();
    } else {
      agent.take(words);
    }
  }
  finish();
  return gpus;
}

std::string amd_gpu_name(std::string_view arch, double units) { return fmt::format("{}-{}cu", arch, units); }

}  // namespace kscout
