#include <string>

#include <dlfcn.h>

#include "backend/cuda/module/cublaslt.h"
#include "backend/cuda/module/device.h"

namespace kscout::cuda {

namespace {

/// The few functions of NVML that are used; its header is no part of a toolkit.
struct Nvml {
  using Device = void*;
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*device)(const char* pci_bus, Device*) = nullptr;
  int (*clock)(Device, int kind, unsigned* mhz) = nullptr;
  int (*power)(Device, unsigned* milliwatts) = nullptr;
  int (*temperature)(Device, int sensor, unsigned* celsius) = nullptr;
  int (*slowdowns)(Device, unsigned long long* reasons) = nullptr;
  static constexpr int kSmClock = 1, kMemoryClock = 2;
};

template <class F>
bool load(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

const Nvml* nvml() {
  static const Nvml* const loaded = []() -> const Nvml* {
    static Nvml functions;
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    const bool complete = library && load(library, "nvmlInit_v2", functions.init) &&
                          load(library, "nvmlSystemGetDriverVersion", functions.driver_version) &&
                          load(library, "nvmlDeviceGetHandleByPciBusId_v2", functions.device) &&
                          load(library, "nvmlDeviceGetClockInfo", functions.clock) &&
                          load(library, "nvmlDeviceGetPowerUsage", functions.power) &&
                          load(library, "nvmlDeviceGetTemperature", functions.temperature) &&
                          load(library, "nvmlDeviceGetCurrentClocksThrottleReasons", functions.slowdowns);
    return complete && functions.init() == 0 ? &functions : nullptr;
  }();
  return loaded;
}

double attribute(cudaDeviceAttr what, std::int32_t device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, what, device) == cudaSuccess ? value : 0;
}

}  // namespace

Answer read_facts(std::int32_t device, Facts& facts) {
  facts = {};
  int devices = 0;
  if (const Answer got = check_cuda(cudaGetDeviceCount(&devices), "counting GPUs"); got != Answer::done)
    return got;
  if (device >= devices) return answer(Answer::unsupported, "GPU %d of %d", device, devices);
  facts.devices = devices;
  cudaDeviceProp properties;
  if (const Answer got = check_cuda(cudaGetDeviceProperties(&properties, device), "facts of the GPU");
      got != Answer::done)
    return got;
  std::string(properties.name).copy(facts.model, sizeof facts.model - 1);
  cudaDeviceGetPCIBusId(facts.pci_bus, sizeof facts.pci_bus, device);
  facts.compute_major = properties.major;
  facts.compute_minor = properties.minor;
  facts.cores = properties.multiProcessorCount;
  facts.max_threads_per_core = properties.maxThreadsPerMultiProcessor;
  facts.warp_lanes = properties.warpSize;
  facts.clock_mhz = attribute(cudaDevAttrClockRate, device) / 1e3;
  facts.memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, device) / 1e3;
  facts.memory_bus_bits = properties.memoryBusWidth;
  facts.memory_bytes = static_cast<double>(properties.totalGlobalMem);
  facts.l2_bytes = properties.l2CacheSize;
  facts.shared_bytes_per_core = static_cast<double>(properties.sharedMemPerMultiprocessor);
  facts.shared_bytes_per_block = static_cast<double>(properties.sharedMemPerBlockOptin);
  cudaDriverGetVersion(&facts.driver_version);
  cudaRuntimeGetVersion(&facts.runtime_version);
  if (const CublasLt* const library = cublaslt())
    facts.cublaslt_version = static_cast<std::int32_t>(library->GetVersion());
  if (const Nvml* const nv = nvml()) nv->driver_version(facts.driver_release, sizeof facts.driver_release);
  return Answer::done;
}

Answer read_state(std::int32_t device, State& state) {
  state = {};
  const Nvml* const nv = nvml();
  char bus[32] = "";
  Nvml::Device handle = nullptr;
  if (!nv || cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess || nv->device(bus, &handle) != 0)
    return answer(Answer::unsupported, "NVML does not know this GPU");
  unsigned value = 0;
  if (nv->clock(handle, Nvml::kSmClock, &value) == 0) state.sm_clock_mhz = value;
  if (nv->clock(handle, Nvml::kMemoryClock, &value) == 0) state.memory_clock_mhz = value;
  if (nv->power(handle, &value) == 0) state.power_w = value / 1e3;
  if (nv->temperature(handle, 0, &value) == 0) state.temperature_c = value;
  unsigned long long reasons = 0;
  if (nv->slowdowns(handle, &reasons) == 0) state.slowdowns = reasons;
  return Answer::done;
}

}  // namespace kscout::cuda
