#include "backend/hip/hip_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include <dlfcn.h>

#include <kscout/family.h>

#include "backend/driver_facts.h"
#include "core/device_facts.h"
#include "core/fail.h"
#include "core/owners.h"
#include "measure/measured_backend.h"

namespace kscout::hip {

namespace {

/// Newest first; the plain name belongs to a development package.
constexpr const char* kNames[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                                  "/opt/rocm/lib/libamdhip64.so"};

void* open_library() {
  const std::filesystem::path named = named_library();
  if (!named.empty()) {
    if (void* const library = dlopen(safe_loader_name(named).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    fail(Errc::unsupported, "backend hip: KSCOUT_HIP_LIBRARY: {}", dlerror());
  }
  for (const char* const name : kNames) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  fail(Errc::unsupported,
       "backend hip: no libamdhip64.so here; install ROCm 6.0 or later, or name it by KSCOUT_HIP_LIBRARY");
}

template <class F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (!function)
    fail(Errc::unsupported, "backend hip: the HIP runtime has no {}; ROCm 6.0 or later is needed", name);
}

Functions load() {
  void* const library = open_library();
  Functions f{};
  find(library, "hipInit", f.Init);
  find(library, "hipRuntimeGetVersion", f.RuntimeGetVersion);
  find(library, "hipDriverGetVersion", f.DriverGetVersion);
  find(library, "hipGetDeviceCount", f.GetDeviceCount);
  find(library, "hipGetDevicePropertiesR0600", f.GetDevicePropertiesR0600);
  find(library, "hipSetDevice", f.SetDevice);
  find(library, "hipMalloc", f.Malloc);
  find(library, "hipFree", f.Free);
  find(library, "hipMemcpyAsync", f.MemcpyAsync);
  find(library, "hipMemcpy2DAsync", f.Memcpy2DAsync);
  find(library, "hipMemsetAsync", f.MemsetAsync);
  find(library, "hipMemset2DAsync", f.Memset2DAsync);
  find(library, "hipEventCreate", f.EventCreate);
  find(library, "hipEventRecord", f.EventRecord);
  find(library, "hipEventSynchronize", f.EventSynchronize);
  find(library, "hipEventElapsedTime", f.EventElapsedTime);
  find(library, "hipStreamSynchronize", f.StreamSynchronize);
  find(library, "hipStreamQuery", f.StreamQuery);
  find(library, "hipGetLastError", f.GetLastError);
  find(library, "hipGetErrorString", f.GetErrorString);
  return f;
}

}  // namespace

std::filesystem::path named_library() {
  const char* const named = std::getenv("KSCOUT_HIP_LIBRARY");
  return named ? named : "";
}

const Functions& api() {
  static const Functions loaded = load();
  return loaded;
}

void check(Status status, const char* what) {
  if (status == kSuccess) return;
  fail(Errc::device_failure, "backend hip: {}: {} (hipError {})", what, api().GetErrorString(status), status);
}

}  // namespace kscout::hip

namespace kscout {

namespace {

using namespace hip;

constexpr double kFactsSeconds = 60;  // a runtime takes seconds at its first use after boot
constexpr const char* kDriverFile = "/dev/kfd";

int& chosen_device() {
  static int ordinal = 0;
  return ordinal;
}

/// The runtime's facts of a device, as plain bytes that a child can return.
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
    fail(Errc::unsupported, "backend hip: GPU {} was requested; the runtime sees {}", device, facts.devices);
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

/// Uses the kernel driver's description of such a GPU, which includes dies and caches, or else the runtime's.
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
  live.simds_per_core = 4;  // true for every CDNA unit
  live.max_clock_mhz = known(f.clock_khz / 1e3);
  live.wavefront_size = known(f.wave_lanes);
  live.max_waves_per_core = f.wave_lanes > 0 ? known(f.threads_per_unit / f.wave_lanes) : Device::unknown;
  live.shared_bytes_per_core = known(f.shared_bytes);
  live.l2_bytes = known(f.l2_bytes);
  live.model = f.model;
  return live;
}

class HipBackend final : public MeasuredBackend {
 public:
  std::string_view name() const noexcept override { return "hip"; }
  std::string_view provider() const noexcept override { return "ck_tile"; }
  Family family(const Signature&, std::string_view) override {
    fail(Errc::unsupported, "backend hip: {}", kFromLibraries);
  }
  Memory& memory() override { return hip_memory(); }
  Instruments& instruments() override { return hip_instruments(); }
  int devices() override { return facts().devices; }
  void open_device(int ordinal) override {
    chosen_device() = ordinal;
    open_hip_device();
  }
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
               : fmt::format("KSCOUT_HIP_LIBRARY={} does not exist", named.string());
  }
  return std::filesystem::exists(kDriverFile, error)
             ? ""
             : fmt::format("this machine has no driver of an AMD GPU ({})", kDriverFile);
}

int used_hip_device() { return chosen_device(); }

void open_hip_device() {
  static thread_local bool entered = false;  // the runtime stores the current device per thread
  if (entered) return;
  static const Facts checked = facts_here(chosen_device());
  hip::check(api().SetDevice(chosen_device()), "opening the GPU");
  entered = checked.devices > 0;
}

}  // namespace kscout

namespace kscout::hip {

namespace {

class HipMemory final : public Memory {
 public:
  MemorySpace space() const noexcept override { return {MemoryKind::hip, used_hip_device()}; }
  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    check(opened().Malloc(&memory, std::max<std::size_t>(bytes, 1)), "memory of the GPU");
    return memory;
  }
  void release(void* memory) noexcept override { (void)api().Free(memory); }

  void copy(const MatrixCopy& c, Stream stream) override {
    const Functions& f = opened();
    const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    for (std::int64_t item = 0; item < c.items; ++item) {
      const auto* const from = static_cast<const std::byte*>(c.from) + item * c.from_item;
      auto* const to = static_cast<std::byte*>(c.to) + item * c.to_item;
      if (c.lines > 0 && c.line_bytes > 0) {
        check(f.Memcpy2DAsync(to, bytes(c.to_pitch), from, bytes(c.from_pitch), bytes(c.line_bytes),
                              bytes(c.lines), CopyKind::device_to_device, stream.handle),
              "a copy");
      }
      clear(to + c.line_bytes, c.to_pitch, c.to_line_bytes - c.line_bytes, c.lines, stream);
      clear(to + c.lines * c.to_pitch, c.to_pitch, c.to_line_bytes, c.to_lines - c.lines, stream);
    }
  }
  void set(void* to, std::byte value, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    check(opened().MemsetAsync(to, std::to_integer<int>(value), bytes, stream.handle), "filling memory");
  }
  void read(void* to_host, const void* from, std::size_t bytes, Stream stream) override {
    transfer(to_host, from, bytes, CopyKind::device_to_host, stream);
  }
  void write(void* to, const void* from_host, std::size_t bytes, Stream stream) override {
    transfer(to, from_host, bytes, CopyKind::host_to_device, stream);
  }

 private:
  static const Functions& opened() {
    open_hip_device();
    return api();
  }
  static void clear(std::byte* to, std::int64_t pitch, std::int64_t width, std::int64_t height,
                    Stream stream) {
    if (width <= 0 || height <= 0) return;
    check(opened().Memset2DAsync(to, static_cast<std::size_t>(pitch), 0, static_cast<std::size_t>(width),
                                 static_cast<std::size_t>(height), stream.handle),
          "clearing a margin");
  }
  static void transfer(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) {
    if (bytes == 0) return;
    check(opened().MemcpyAsync(to, from, bytes, kind, stream.handle), "a transfer");
    check(api().StreamSynchronize(stream.handle), "a transfer");
  }
};

class HipInstruments final : public CopyingInstruments {
 public:
  HipInstruments() : CopyingInstruments(hip_memory()) {}

  double memory_bytes() override {
    if (memory_bytes_ == 0) {
      open_hip_device();
      Properties p{};
      check(api().GetDevicePropertiesR0600(&p, used_hip_device()), "describing the GPU");
      memory_bytes_ = 0.75 * static_cast<double>(p.total_memory);
    }
    return memory_bytes_;
  }

  /// Writing more than the last-level caches hold evicts everything else: 512 MB are twice the 256 MB of an
  /// MI300X.
  void evict(std::span<const Region>) override {
    constexpr std::size_t kBytes = std::size_t{512} << 20;
    if (!flush_) flush_ = memory().allocate(kBytes);
    memory().set(flush_, std::byte{1}, kBytes, {});
  }

  /// Times the calls between two events in the default stream.
  double time_us(Launch& launch, const Buffers& buffers, void* workspace, int calls) override {
    open_hip_device();
    const Functions& f = api();
    for (void*& event : events_) {
      if (!event) check(f.EventCreate(&event), "an event");
    }
    check(f.EventRecord(events_[0], nullptr), "a time stamp");
    for (int i = 0; i < calls; ++i) launch.run(buffers, workspace);
    check(f.GetLastError(), "a launch");
    check(f.EventRecord(events_[1], nullptr), "a time stamp");
    check(f.EventSynchronize(events_[1]), "the timed work");
    float ms = 0;
    check(f.EventElapsedTime(&ms, events_[0], events_[1]), "the time");
    return 1e3 * static_cast<double>(ms) / calls;
  }

  double batch_us() const noexcept override { return 100; }
  /// As with CUDA, the first launch loads the code object.
  double loading_us() const noexcept override { return 200'000; }

  bool usable() override {
    // Every later call reports the error of a broken kernel.
    const Status status = api().StreamQuery(nullptr);
    return status == kSuccess || status == kNotReady;
  }

 private:
  double memory_bytes_ = 0;
  void* flush_ = nullptr;
  void* events_[2] = {};
};

}  // namespace

Memory& hip_memory() noexcept {
  static HipMemory instance;
  return instance;
}

Instruments& hip_instruments() noexcept {
  static HipInstruments instance;
  return instance;
}

}  // namespace kscout::hip
