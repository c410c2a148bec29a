// Finds the module, and translates its facts.

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>

#include <dlfcn.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn_library.h"
#include "backend/driver_facts.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/owners.h"
#include "measure/timing.h"

namespace kscout {

namespace {

using namespace cuda;

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

/// The preset with the longest name that begins the model's name; null when the GPU is not a whole one of
/// that model.
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

constexpr unsigned kFactsSeconds = 60;  // a driver takes seconds at its first use after boot

int& chosen_device() {
  static int ordinal = 0;
  return ordinal;
}

/// An open driver would not work in a child, and then a query in this process adds no cost.
bool driver_is_loaded() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr; }

/// Facts of a GPU, and the release of cuDNN (0: not here).
struct FoundFacts {
  Facts gpu;
  std::int32_t cudnn;
};

/// Reads the facts of a GPU in a child, which returns plain bytes.
FoundFacts find_facts(int ordinal) {
  const auto find = [ordinal] {
    FoundFacts found{};
    check(load_module(), load_module().facts(ordinal, &found.gpu));
    found.cudnn = cudnn::version();
    return found;
  };
  return driver_is_loaded() ? find() : ask_driver<FoundFacts>(kFactsSeconds, "the GPU's driver", find);
}

/// The facts of one GPU; read once.
struct Known {
  explicit Known(int ordinal) : found(find_facts(ordinal)), device(describe(found.gpu)) {}
  FoundFacts found;
  Device device;
};

/// The facts of the chosen GPU. References to them stay valid.
const Known& known_gpu() {
  static std::mutex mutex;
  static std::map<int, Known> found;
  const std::scoped_lock lock(mutex);
  return found.try_emplace(chosen_device(), chosen_device()).first->second;
}

}  // namespace

void use_cuda_device(int ordinal) { chosen_device() = ordinal; }
int used_cuda_device() { return chosen_device(); }

std::string cuda_missing() {
  std::error_code error;
  if (const char* const named = std::getenv("KSCOUT_CUDA_MODULE")) {
    return std::filesystem::exists(named, error) ? ""
                                                 : fmt::format("KSCOUT_CUDA_MODULE={} does not exist", named);
  }
  if (cuda::module_file().empty()) {
    return fmt::format(
        "{} is not beside the program; build it where nvcc is installed, or name it by KSCOUT_CUDA_MODULE",
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
    // The module opens this library, and cannot call the check.
    if (const char* const named = std::getenv("KSCOUT_CUBLASLT")) safe_loader_name(named);
    void* const library = dlopen(safe_loader_name(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(Errc::unsupported, "backend cuda: {}", dlerror());
    const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kModuleSymbol));
    Module* const module = entry ? entry(kModuleAbi) : nullptr;
    if (!module) fail(Errc::corrupt_data, "{}: has another version than this program; build it again", file);
    return *module;
  }();
  return loaded;
}

Module& open_module() {
  Module& module = load_module();
  static thread_local bool entered = false;  // the runtime stores the current device per thread
  if (!entered) check(module, module.open(chosen_device()));
  entered = true;
  return module;
}

void check(Module& module, CallStatus answer) {
  if (answer == CallStatus::done) return;
  fail(answer == CallStatus::unsupported ? Errc::unsupported : Errc::device_failure, "{}", module.error());
}

const Facts& gpu_facts() { return known_gpu().found.gpu; }
const Device& gpu_device() { return known_gpu().device; }
std::int32_t cudnn_release() { return known_gpu().found.cudnn; }

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

namespace kscout::cuda {

namespace {

/// Calls a function of the module on the open GPU. Throws the errors of check().
template <class... Parameters, class... Arguments>
void call(CallStatus (Module::*function)(Parameters...) noexcept, Arguments... arguments) {
  Module& module = open_module();
  check(module, (module.*function)(arguments...));
}

class GpuMemory final : public Memory {
 public:
  MemorySpace space() const noexcept override { return {MemoryKind::cuda, used_cuda_device()}; }
  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    call(&Module::allocate, bytes, &memory);
    return memory;
  }
  void release(void* memory) noexcept override { load_module().release(memory); }
  void copy(const MatrixCopy& copy, Stream stream) override { call(&Module::copy, copy, stream.handle); }
  void set(void* to, std::byte value, std::size_t bytes, Stream stream) override {
    call(&Module::set, to, std::to_integer<std::uint8_t>(value), bytes, stream.handle);
  }
  void read(void* to_host, const void* from, std::size_t bytes, Stream stream) override {
    call(&Module::read, to_host, from, bytes, stream.handle);
  }
  void write(void* to, const void* from_host, std::size_t bytes, Stream stream) override {
    call(&Module::write, to, from_host, bytes, stream.handle);
  }
};

/// The clock of the open GPU's streams. Keeps its events for later spans.
class GpuStreamClock final : public StreamClock {
 public:
  Span start(Stream stream) noexcept override {
    Span span{event(), event()};
    if (span.begin && span.end && asked(&Module::record_event, span.begin, stream.handle)) {
      span.begun_ns = now_ns();
      return span;
    }
    give_back(span);
    return {};
  }
  bool stop(Span& span, Stream stream) noexcept override {
    if (!span.begin) return false;
    bool reached = false;
    double us = 0;
    if (asked(&Module::between_events, span.begin, span.begin, &reached, &us) && reached)
      span.host_us = static_cast<double>(now_ns() - span.begun_ns) / 1e3;
    return asked(&Module::record_event, span.end, stream.handle);
  }
  SpanState read(const Span& span, double& us) noexcept override {
    bool passed = false;
    if (!asked(&Module::between_events, span.begin, span.end, &passed, &us)) return SpanState::failed;
    if (!passed) return SpanState::pending;
    constexpr double kHostShare = 0.1;
    return span.host_us > kHostShare * us ? SpanState::failed : SpanState::done;
  }
  void give_back(const Span& span) noexcept override {
    const std::scoped_lock lock(mutex_);
    for (void* const event : {span.begin, span.end}) {
      if (!event) continue;
      try {
        free_.push_back(event);
      } catch (...) {  // no memory: the event is lost
      }
    }
  }
  bool captures(Stream stream) noexcept override {
    bool captures = true;
    return !asked(&Module::is_capturing, stream.handle, &captures) || captures;
  }

 private:
  /// Whether a function of the module did what it was asked for.
  template <class... Parameters, class... Arguments>
  static bool asked(CallStatus (Module::*function)(Parameters...) noexcept, Arguments... arguments) noexcept {
    try {
      return (open_module().*function)(arguments...) == CallStatus::done;
    } catch (...) {
      return false;
    }
  }
  void* event() noexcept {
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        void* const event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    void* event = nullptr;
    return asked(&Module::make_event, &event) ? event : nullptr;
  }

  std::mutex mutex_;
  std::vector<void*> free_;
};

class GpuInstruments final : public Instruments {
 public:
  StreamClock* stream_clock() noexcept override { return &stream_clock_; }
  Memory& memory() override { return gpu_memory(); }

  double memory_bytes() override {
    if (memory_bytes_ == 0) {
      Facts facts;
      call(&Module::facts, used_cuda_device(), &facts);
      memory_bytes_ = 0.75 * facts.memory_bytes;
    }
    return memory_bytes_;
  }

  std::byte* map(std::size_t bytes) override { return static_cast<std::byte*>(memory().allocate(bytes)); }
  void unmap(std::byte* mapped, std::size_t) noexcept override { memory().release(mapped); }
  std::size_t stagger() const noexcept override { return 0; }
  void protect(std::byte*, std::size_t, bool) override {}  // a GPU cannot protect its memory from kernels

  void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) override {
    std::vector<std::uint32_t> flips;
    for (std::int64_t block = 0; block < count; block += kFillBlock)
      flips.push_back(fill_flips(operand, seed, block));
    call(&Module::fill, dtype, data, count, operand, flips.data());
  }

  void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
              std::span<double> out) override {
    if (indices.empty()) return;
    call(&Module::gather, dtype, data, indices.data(), static_cast<std::int64_t>(indices.size()), out.data());
  }

  Product multiply(const MatrixView& view, const void* data, std::int64_t items, std::span<const double> x,
                   Squares squares) override {
    const auto rows = static_cast<std::size_t>(items * view.rows);
    Product out;
    out.value.resize(rows);
    if (squares != Squares::none) out.squares.resize(rows);
    call(&Module::multiply, view, data, items, x.data(), x.size() != static_cast<std::size_t>(view.columns),
         squares, out.value.data(), out.squares.data());
    return out;
  }

  void evict(std::span<const Region>) override { call(&Module::evict); }

  /// One call is timed between two events in the stream. Several calls are captured into a graph and
  /// replayed, because a short kernel would end before the program has enqueued the next one.
  double time_us(Launch& launch, const Buffers& buffers, void* workspace, int calls) override {
    if (calls > 1) {
      void* stream = nullptr;
      call(&Module::capture, &stream);
      try {
        for (int i = 0; i < calls; ++i) launch.run(buffers, workspace, {stream});
      } catch (...) {
        open_module().end_capture();
        throw;
      }
      call(&Module::end_capture);
    }
    call(&Module::stamp, 0);
    if (calls > 1) {
      call(&Module::replay);
    } else {
      launch.run(buffers, workspace);
    }
    call(&Module::stamp, 1);
    double us = 0;
    call(&Module::elapsed, &us);
    return us / calls;
  }

  double batch_us() const noexcept override { return 100; }
  /// CUDA loads a kernel at its first launch, together with the part of the library that contains it.
  double loading_us() const noexcept override { return 200'000; }

  bool slowed() override {
    // A query takes the driver longer than many kernels run, and heat changes slowly.
    constexpr std::int64_t kEveryNs = 50'000'000;
    if (now_ns() - asked_ns_ > kEveryNs) {
      asked_ns_ = now_ns();
      State state;
      Module& module = open_module();
      slowed_ = module.state(&state) == CallStatus::done && (state.slowdowns & kSlowed) != 0;
    }
    return slowed_;
  }

  double clock_mhz() override {
    State state;
    Module& module = open_module();
    const bool told = module.state(&state) == CallStatus::done && state.sm_clock_mhz > 0;
    return told ? state.sm_clock_mhz : std::numeric_limits<double>::quiet_NaN();
  }
  bool usable() override { return load_module().healthy(); }

 private:
  GpuStreamClock stream_clock_;
  double memory_bytes_ = 0;
  std::int64_t asked_ns_ = 0;
  bool slowed_ = false;
};

}  // namespace

Memory& gpu_memory() noexcept {
  static GpuMemory instance;
  return instance;
}

Instruments& gpu_instruments() noexcept {
  static GpuInstruments instance;
  return instance;
}

}  // namespace kscout::cuda
