#include "backend/hip/hip_backend.h"

#include <cstring>
#include <map>

#include <kscout/family.h>

#include "backend/driver_facts.h"
#include "backend/hip/hip_api.h"
#include "backend/hip/hip_instruments.h"
#include "core/amd_gpus.h"
#include "core/fail.h"

namespace kscout {

namespace {

using namespace hip;

constexpr double kFactsSeconds = 60;  // a runtime that was never used since the machine's start takes seconds
constexpr const char* kDriverFile = "/dev/kfd";

int& chosen_device() {
  static int ordinal = 0;
  return ordinal;
}

/// What the runtime tells of a device, plain so that a child can pass it on.
struct Facts {
  char model[256];
  char arch[64];
  int devices, units, wave_lanes, threads_per_unit, clock_khz, runtime, driver;
  double shared_bytes, l2_bytes;
};

Facts facts_here(int device) {
  const Functions& f = api();
  Facts facts{};
  hip::check(f.Init(0), "starting the runtime");
  hip::check(f.GetDeviceCount(&facts.devices), "counting GPUs");
  if (facts.devices == 0) fail(Errc::unsupported, "backend hip: the runtime sees no AMD GPU");
  if (device >= facts.devices)
    fail(Errc::unsupported, "backend hip: GPU {} was asked for, the runtime sees {}", device, facts.devices);
  Properties p{};
  hip::check(f.GetDevicePropertiesR0600(&p, device), "describing the GPU");
  f.RuntimeGetVersion(&facts.runtime);
  f.DriverGetVersion(&facts.driver);
  std::memcpy(facts.model, p.name, sizeof facts.model - 1);
  std::memcpy(facts.arch, p.arch, sizeof facts.arch - 1);
  if (char* const features = std::strchr(facts.arch, ':')) *features = 0;
  facts.units = p.units;
  facts.wave_lanes = p.wave_lanes;
  facts.threads_per_unit = p.threads_per_unit;
  facts.clock_khz = p.clock_khz;
  facts.shared_bytes = static_cast<double>(p.shared_per_block);
  facts.l2_bytes = p.l2_bytes;
  return facts;
}

const Facts& facts() {
  static const Facts found =
      ask_driver<Facts>(kFactsSeconds, "the HIP runtime", [] { return facts_here(chosen_device()); });
  return found;
}

double known(double value) { return value > 0 ? value : Device::unknown; }

/// The kernel driver's own description of such a GPU, which knows dies and caches; else what the runtime
/// says.
Device describe(const Facts& f) {
  const std::string name = amd_gpu_name(f.arch, f.units);
  for (const Device& gpu : detect_amd_gpus()) {
    if (gpu.name == name) return gpu;
  }
  Device live;
  live.name = name;
  live.kind = DeviceKind::gpu;
  live.vendor = "AMD";
  live.arch = f.arch;
  live.cores = known(f.units);
  live.simds_per_core = 4;  // of every CDNA unit
  live.max_clock_mhz = known(f.clock_khz / 1e3);
  live.wavefront_size = known(f.wave_lanes);
  live.max_waves_per_core = f.wave_lanes > 0 ? known(f.threads_per_unit / f.wave_lanes) : Device::unknown;
  live.shared_bytes_per_core = known(f.shared_bytes);
  live.l2_bytes = known(f.l2_bytes);
  live.model = f.model;
  return live;
}

class HipBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "hip"; }
  std::string_view provider() const noexcept override { return "ck_tile"; }
  Family family(const Signature&, std::string_view) override {
    fail(Errc::unsupported, "backend hip: {}", kFromLibraries);
  }
  Memory& memory() override { return hip_memory(); }
  Instruments& instruments() override { return hip_instruments(); }
  const Device& device() override {
    static const Device here = describe(facts());
    return here;
  }
  std::map<std::string, std::string> versions() override {
    const Facts& f = facts();
    return {{"gpu_model", f.model},
            {"gpu_count", std::to_string(f.devices)},
            {"hip_runtime", std::to_string(f.runtime)},
            {"hip_driver", std::to_string(f.driver)}};
  }
  std::string refusal(ProblemRef, const KernelConfig&) override { return kFromLibraries; }
  std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig&) override {
    fail(Errc::unsupported, "{}: {}", print(problem), kFromLibraries);
  }

 private:
  static constexpr const char* kFromLibraries =
      "its kernels are those of libraries (kscout generate --provider ck_tile, then --library INDEX)";
};

}  // namespace

Backend& hip_backend() {
  static HipBackend instance;
  return instance;
}

std::string hip_missing() {
  std::error_code error;
  if (const auto named = named_library(); !named.empty()) {
    return std::filesystem::exists(named, error)
               ? ""
               : fmt::format("KSCOUT_HIP_LIBRARY={} is not there", named.string());
  }
  return std::filesystem::exists(kDriverFile, error)
             ? ""
             : fmt::format("this machine has no driver of an AMD GPU ({})", kDriverFile);
}

void use_hip_device(int ordinal) { chosen_device() = ordinal; }
int used_hip_device() { return chosen_device(); }
int hip_device_count() { return facts().devices; }

void open_hip_device() {
  static thread_local bool entered = false;  // the runtime keeps the current device for each thread
  if (entered) return;
  static const Facts checked = facts_here(chosen_device());
  hip::check(api().SetDevice(chosen_device()), "opening the GPU");
  entered = checked.devices > 0;
}

}  // namespace kscout
