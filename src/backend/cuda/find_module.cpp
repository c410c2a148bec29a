// Where the module is, and what its facts mean in our words.
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <dlfcn.h>

#include "backend/cuda/cuda_backend.h"
#include "core/fail.h"
#include "core/own_files.h"

namespace kscout {

namespace {

constexpr const char* kModuleName = "libkscout_cuda.so";
constexpr const char* kDriverFiles[] = {"/dev/nvidiactl", "/dev/dxg"};

/// "NVIDIA H200 NVL" -> "h200-nvl".
std::string short_name(std::string_view model) {
  std::string name;
  for (const char c : model) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) {
      name += static_cast<char>(std::tolower(byte));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  if (name.starts_with("nvidia-")) name.erase(0, 7);
  return name.empty() ? "gpu" : name;
}

/// The preset whose name begins the model's, the longest; null when the GPU is no whole one of that kind.
const Device* preset_of(const std::string& name, const Device& live, Device& storage) {
  std::string best;
  for (const std::string& preset : device_preset_names()) {
    const bool begins = name == preset || name.starts_with(preset + "-");
    if (begins && preset.size() > best.size()) best = preset;
  }
  if (best.empty()) return nullptr;
  storage = device_preset(best);
  return storage.arch == live.arch && storage.cores == live.cores ? &storage : nullptr;
}

template <class V>
bool is_known(const V& value) {
  if constexpr (std::is_floating_point_v<V>) return value == value;
  if constexpr (std::is_same_v<V, std::string>) return !value.empty();
  return true;
}

double known(double value) { return value > 0 ? value : Device::unknown; }

}  // namespace

std::string cuda_missing() {
  std::error_code error;
  if (const char* const named = std::getenv("KSCOUT_CUDA_MODULE")) {
    return std::filesystem::exists(named, error) ? ""
                                                 : fmt::format("KSCOUT_CUDA_MODULE={} is not there", named);
  }
  if (cuda::module_file().empty()) {
    return fmt::format(
        "{} is not beside the program; it is built where nvcc is, or KSCOUT_CUDA_MODULE names it",
        kModuleName);
  }
  const bool driver = std::ranges::any_of(
      kDriverFiles, [&](const char* file) { return std::filesystem::exists(file, error); });
  return driver ? "" : "this machine has no NVIDIA driver";
}

namespace cuda {

std::filesystem::path module_file() {
  if (const char* const named = std::getenv("KSCOUT_CUDA_MODULE")) return named;
  std::error_code error;
  for (const auto& file : {program_file(), library_file()}) {
    if (file.empty()) continue;
    const std::filesystem::path folder = file.parent_path();
    for (const auto& place :
         {folder / kModuleName, folder.parent_path() / "lib/kscout" / kModuleName,
          folder / "kscout" / kModuleName, folder.parent_path() / "kscout" / kModuleName}) {
      if (std::filesystem::exists(place, error)) return place;
    }
  }
  return {};
}

Module& load_module() {
  static Module& loaded = []() -> Module& {
    if (const std::string why = cuda_missing(); !why.empty())
      fail(Errc::unsupported, "backend cuda: {}", why);
    const std::string file = module_file().string();
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(Errc::unsupported, "backend cuda: {}", dlerror());
    const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kModuleSymbol));
    Module* const module = entry ? entry(kModuleAbi) : nullptr;
    if (!module) fail(Errc::corrupt_data, "{}: of another version than this program; build it again", file);
    return *module;
  }();
  return loaded;
}

Device describe(const Facts& f) {
  Device live;
  live.name = short_name(f.model);
  live.kind = DeviceKind::gpu;
  live.vendor = "NVIDIA";
  live.arch = fmt::format("sm_{}{}", f.compute_major, f.compute_minor);
  live.model = f.model;
  live.cores = known(f.cores);
  live.simds_per_core = 4;
  live.max_clock_mhz = known(f.clock_mhz);
  live.wavefront_size = known(f.warp_lanes);
  live.max_waves_per_core = known(f.warp_lanes > 0 ? double(f.max_threads_per_core) / f.warp_lanes : 0);
  live.shared_bytes_per_core = known(f.shared_bytes_per_core);
  live.l2_bytes = known(f.l2_bytes);
  live.memory_gb_s = known(2 * f.memory_clock_mhz * f.memory_bus_bits / 8 / 1e3);
  Device storage;
  const Device* const preset = preset_of(live.name, live, storage);
  if (!preset) {
    live.name += fmt::format("-{}sm", f.cores);
    return live;
  }
  Device known_facts = *preset;
  for_each_field<Device>([&](const auto& field) {
    if (!is_known(known_facts.*field.member)) known_facts.*field.member = live.*field.member;
  });
  return known_facts;
}

std::map<std::string, std::string> versions_of(const Facts& f) {
  const auto dotted = [](int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); };
  return {{"gpu_model", f.model},
          {"gpu_count", std::to_string(f.devices)},
          {"driver_release", f.driver_release},
          {"driver_cuda", dotted(f.driver_version)},
          {"cuda_runtime", dotted(f.runtime_version)},
          {"cublaslt_version", std::to_string(f.cublaslt_version)}};
}

}  // namespace cuda
}  // namespace kscout
