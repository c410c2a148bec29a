#include "core/device_facts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/problem_text.h"
#include "core/toml_reader.h"

namespace kscout {

namespace {

/// Leading number of a text, or unknown.
double leading_number(std::string_view text) {
  text = trimmed(text);
  double value = Device::unknown;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Bytes of a cache size as /sys prints it: "512K" or "2M".
double parse_cache_bytes(std::string_view text) {
  const double value = leading_number(text);
  const std::string_view size = trimmed(text);
  const char unit = size.empty() ? ' ' : size.back();
  return value * (unit == 'K' ? 1024.0 : unit == 'M' ? 1048576.0 : 1.0);
}

/// Keys and values of the first processor in /proc/cpuinfo, and the highest "cpu MHz" of all processors.
struct CpuInfo {
  std::map<std::string, std::string, std::less<>> first;
  double highest_mhz = Device::unknown;

  std::string_view get(std::string_view key) const {
    const auto found = first.find(key);
    return found == first.end() ? std::string_view() : std::string_view(found->second);
  }
  int integer(std::string_view key) const {
    const double value = leading_number(get(key));
    return std::isfinite(value) ? static_cast<int>(value) : -1;
  }
};

CpuInfo parse_cpuinfo(const std::string& text) {
  CpuInfo info;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key(trimmed(std::string_view(line).substr(0, colon)));
    const std::string value(trimmed(std::string_view(line).substr(colon + 1)));
    info.first.try_emplace(key, value);
    if (key == "cpu MHz") info.highest_mhz = std::fmax(info.highest_mhz, leading_number(value));
  }
  return info;
}

std::string_view vendor_word(std::string_view vendor_id) {
  if (vendor_id == "AuthenticAMD") return "AMD";
  if (vendor_id == "GenuineIntel") return "Intel";
  if (vendor_id == "HygonGenuine") return "Hygon";
  return vendor_id;
}

std::set<std::string, std::less<>> words_of(std::string_view text) {
  std::set<std::string, std::less<>> found;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) found.insert(word);
  return found;
}

/// The best instruction set that our kernels are compiled for; each list holds the CPU flags that the build
/// needs.
std::string best_isa(const std::set<std::string, std::less<>>& flags) {
  const auto all = [&](std::initializer_list<std::string_view> wanted) {
    return std::ranges::all_of(wanted, [&](std::string_view flag) { return flags.contains(flag); });
  };
  if (!all({"avx2", "fma", "f16c", "abm", "bmi1", "bmi2"})) return "scalar";
  return all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) ? "avx512" : "avx2";
}

std::string cpu_name(const Device& device) { return fmt::format("{}-{:.0f}c", device.arch, device.cores); }

std::string cpu_folder(int cpu) { return fmt::format("/sys/devices/system/cpu/cpu{}/", cpu); }

/// Derives cores and threads per core: CPUs with the same list of hardware threads are one core.
void describe_topology(const ReadText& read, std::span<const int> allowed, Device& device) {
  std::set<std::string> cores;
  for (const int cpu : allowed) {
    std::string siblings = read(cpu_folder(cpu) + "topology/core_cpus_list");
    if (siblings.empty()) siblings = read(cpu_folder(cpu) + "topology/thread_siblings_list");
    if (siblings.empty()) {
      device.cores = static_cast<double>(allowed.size());
      return;
    }
    cores.insert(siblings);
  }
  device.cores = static_cast<double>(cores.size());
  device.threads_per_core = std::ceil(static_cast<double>(allowed.size()) / device.cores);
}

void describe_caches(const ReadText& read, int cpu, Device& device) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = cpu_folder(cpu) + fmt::format("cache/index{}/", index);
    const std::string level(trimmed(read(folder + "level")));
    if (level.empty()) return;
    if (trimmed(read(folder + "type")) == "Instruction") continue;
    const double bytes = parse_cache_bytes(read(folder + "size"));
    if (level == "1") device.l1_bytes = bytes;
    if (level == "2") device.l2_bytes = bytes;
    if (level == "3") device.l3_bytes = bytes;
  }
}

double highest_clock_mhz(const ReadText& read, std::span<const int> allowed, const CpuInfo& info) {
  double khz = Device::unknown;
  for (const int cpu : allowed) {
    khz = std::fmax(khz, leading_number(read(cpu_folder(cpu) + "cpufreq/cpuinfo_max_freq")));
  }
  return std::isfinite(khz) ? khz / 1000 : 5 * std::round(info.highest_mhz / 5);
}

const toml::table& arch_table() {
  constexpr std::string_view kFile = "families/cpu_archs.toml";
  static const toml::table table = parse_toml(embedded_file(kFile), kFile);
  return table;
}

bool in_range(const toml::array* range, int value) {
  return range && value >= (*range)[0].value_or(0) && value <= (*range)[1].value_or(-1);
}

bool describes(const toml::table& arch, std::string_view vendor, int family, int model, int stepping) {
  if (arch["vendor"].value_or(std::string_view()) != vendor || arch["family"].value_or(-1) != family)
    return false;
  const auto* steppings = arch["steppings"].as_array();
  if (steppings && !in_range(steppings, stepping)) return false;
  for (const auto& range : *arch["models"].as_array()) {
    if (in_range(range.as_array(), model)) return true;
  }
  return false;
}

CpuArch read_arch(std::string_view name, const toml::table& arch, std::string_view model_name) {
  CpuArch facts{std::string(name), arch["fma_avx2"].value_or(Device::unknown),
                arch["fma_avx512"].value_or(Device::unknown)};
  // Matches the list's words as whole words: "Intel(R) Xeon(R) Silver 4110".
  if (const auto* words = arch["single_fma_512"].as_array()) {
    for (const auto& word : *words) {
      if (model_name.find(word.value_or(std::string_view("?"))) != std::string_view::npos)
        facts.fma_avx512 = 1;
    }
  }
  return facts;
}

}  // namespace

CpuArch find_cpu_arch(std::string_view vendor, int family, int model, int stepping,
                      std::string_view model_name) {
  for (const auto& [name, arch] : arch_table()) {
    if (describes(*arch.as_table(), vendor, family, model, stepping)) {
      return read_arch(name.str(), *arch.as_table(), model_name);
    }
  }
  if (vendor.empty()) return {"unknown"};
  std::string unlisted = fmt::format("{}-{}-{}", vendor, family, model);
  std::ranges::transform(unlisted, unlisted.begin(), [](unsigned char c) { return std::tolower(c); });
  return {unlisted};
}

CpuArch cpu_arch(std::string_view name, std::string_view model_name) {
  const auto* arch = arch_table()[name].as_table();
  return arch ? read_arch(name, *arch, model_name) : CpuArch{std::string(name)};
}

void derive_vector_facts(Device& device, const CpuArch& arch) {
  if (device.isa == "avx512") {
    device.vector_bytes = 64;
    device.fma_per_cycle = arch.fma_avx512;
  } else if (device.isa == "avx2") {
    device.vector_bytes = 32;
    device.fma_per_cycle = arch.fma_avx2;
  } else if (device.isa == "scalar") {
    device.vector_bytes = sizeof(float);
  }
}

namespace {

constexpr std::string_view kSets[] = {"scalar", "avx2", "avx512"};

}  // namespace

void use_instruction_set(Device& device, InstructionSet best) {
  const std::string_view own = kSets[std::min(static_cast<std::size_t>(best), std::size(kSets) - 1)];
  if (device.isa.empty() || std::ranges::find(kSets, own) >= std::ranges::find(kSets, device.isa)) {
    device.isa = own;
    derive_vector_facts(device, cpu_arch(device.arch, device.model));
  } else {
    restrict_isa(device, own);
  }
}

void restrict_isa(Device& device, std::string_view isa) {
  if (isa.empty() || isa == device.isa) return;
  const auto asked = std::ranges::find(kSets, isa);
  if (asked == std::end(kSets))
    fail(Errc::invalid_argument, "KSCOUT_ISA: {}", unknown_name_message("instruction set", isa, kSets));
  if (asked > std::ranges::find(kSets, device.isa))
    fail(Errc::invalid_argument, "KSCOUT_ISA='{}': the best instruction set of this CPU is {}", isa,
         device.isa);
  const CpuArch arch = cpu_arch(device.arch, device.model);
  device.arch = fmt::format("{}-{}", device.arch, isa);
  device.isa = isa;
  device.fma_per_cycle = Device::unknown;  // a scalar loop's rate is in no list
  derive_vector_facts(device, arch);
  device.name = cpu_name(device);
}

Device describe_cpu(const ReadText& read, std::span<const int> allowed_cpus) {
  const CpuInfo info = parse_cpuinfo(read("/proc/cpuinfo"));
  Device device;
  device.kind = DeviceKind::cpu;
  device.vendor = vendor_word(info.get("vendor_id"));
  device.model = info.get("model name");
  const auto flags = words_of(info.get("flags"));
  device.isa = best_isa(flags);
  describe_topology(read, allowed_cpus, device);
  if (!allowed_cpus.empty()) describe_caches(read, allowed_cpus.front(), device);
  CpuArch arch = find_cpu_arch(device.vendor, info.integer("cpu family"), info.integer("model"),
                               info.integer("stepping"), device.model);
  if (flags.contains("amx_tile") && !arch_table()[arch.name]["amx"].value_or(false)) {
    // A hypervisor stated an older model. No Sapphire or Emerald Rapids has a larger level-3 cache.
    constexpr double kLargestL3 = 320 << 20;
    arch = cpu_arch(device.l3_bytes > kLargestL3 ? "graniterapids" : "sapphirerapids", device.model);
  }
  device.arch = arch.name;
  derive_vector_facts(device, arch);
  device.max_clock_mhz = highest_clock_mhz(read, allowed_cpus, info);
  device.name = cpu_name(device);
  return device;
}

namespace {

namespace fs = std::filesystem;

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

/// The fact's number; unknown when it is missing or 0, the driver's "does not apply".
double fact(const std::map<std::string, double, std::less<>>& properties, std::string_view name) {
  const auto found = properties.find(name);
  return found == properties.end() || found->second == 0 ? Device::unknown : found->second;
}

/// Decodes 90402 as gfx942 and 90010 as gfx90a: major, minor, and the step as a hexadecimal digit.
std::string arch_of(double version) {
  const auto number = static_cast<int>(version);
  return fmt::format("gfx{}{}{:x}", number / 10000, number / 100 % 100, number % 100);
}

/// Folders 0, 1, ... in numeric order.
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

/// The largest data cache of a level, in bytes. Bit 0 of the type means data; caches above level 1 hold data
/// and instructions.
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

/// The number before "(0x..)" or a unit.
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

/// Reads one agent's lines up to its "ISA Info", where the same names have other meanings.
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

namespace {

#if defined(__x86_64__)
/// F16C and LZCNT, which some compilers' __builtin_cpu_supports() does not know. XGETBV is asked with AVX2.
bool has_further_avx2_instructions() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
  return f16c && __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) && (ecx & bit_LZCNT) != 0;
}
#endif

InstructionSet detect() noexcept {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    has_further_avx2_instructions();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool dl = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                  __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512bitalg") &&
                  __builtin_cpu_supports("avx512vnni");
  if (avx2 && avx512) return dl ? InstructionSet::avx512_dl : InstructionSet::avx512;
  if (avx2) return InstructionSet::avx2;
#endif
  return InstructionSet::scalar;
}

}  // namespace

InstructionSet best_instruction_set() noexcept {
  static const InstructionSet best = detect();
  return best;
}

}  // namespace kscout
