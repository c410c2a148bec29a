#include "backend/cuda/module.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "backend/cuda/module/cublaslt.h"
#include "backend/cuda/module/device.h"
#include "backend/cuda/module/groupwise_conv.h"
#include "backend/cuda/module/hopper_gemm.h"
#include "backend/cuda/module/kernels.h"

namespace kscout::cuda {

namespace {

/// The few NVML functions that the module uses; a toolkit need not contain NVML's header.
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

CallStatus read_facts(std::int32_t device, Facts& facts) {
  facts = {};
  int devices = 0;
  if (const CallStatus got = check_cuda(cudaGetDeviceCount(&devices), "counting GPUs");
      got != CallStatus::done)
    return got;
  if (device >= devices) return answer(CallStatus::unsupported, "GPU %d of %d", device, devices);
  facts.devices = devices;
  cudaDeviceProp properties;
  if (const CallStatus got = check_cuda(cudaGetDeviceProperties(&properties, device), "facts of the GPU");
      got != CallStatus::done)
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
  return CallStatus::done;
}

CallStatus read_state(std::int32_t device, State& state) {
  state = {};
  const Nvml* const nv = nvml();
  char bus[32] = "";
  Nvml::Device handle = nullptr;
  if (!nv || cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess || nv->device(bus, &handle) != 0)
    return answer(CallStatus::unsupported, "NVML does not know this GPU");
  unsigned value = 0;
  if (nv->clock(handle, Nvml::kSmClock, &value) == 0) state.sm_clock_mhz = value;
  if (nv->clock(handle, Nvml::kMemoryClock, &value) == 0) state.memory_clock_mhz = value;
  if (nv->power(handle, &value) == 0) state.power_w = value / 1e3;
  if (nv->temperature(handle, 0, &value) == 0) state.temperature_c = value;
  unsigned long long reasons = 0;
  if (nv->slowdowns(handle, &reasons) == 0) state.slowdowns = reasons;
  return CallStatus::done;
}

namespace {

/// Device memory that grows and is reused.
class Scratch {
 public:
  CallStatus reserve(std::uint64_t bytes) {
    if (bytes <= bytes_) return CallStatus::done;
    if (memory_) cudaFree(memory_);
    memory_ = nullptr;
    bytes_ = 0;
    const std::uint64_t wanted = std::max<std::uint64_t>(2 * bytes, 1 << 16);
    const CallStatus got = check_cuda(cudaMalloc(&memory_, wanted), "scratch memory");
    if (got == CallStatus::done) bytes_ = wanted;
    return got;
  }
  CallStatus upload(const void* from, std::uint64_t bytes) {
    if (const CallStatus got = reserve(bytes); got != CallStatus::done) return got;
    return check_cuda(cudaMemcpyAsync(memory_, from, bytes, cudaMemcpyHostToDevice, nullptr), "an upload");
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// The kernels of one provider, prepared as Module::prepare says; a limit of workspace is checked afterwards.
struct Kernels {
  std::string_view provider;
  CallStatus (*prepare)(const AnyShape& shape, std::span<const std::int32_t> axes,
                        std::uint64_t workspace_limit, Matmul** matmul);
};
constexpr Kernels kKernels[] = {
    {"cublaslt", prepare_cublaslt}, {"hopper", prepare_hopper}, {"groupwise", prepare_groupwise}};

/// Allows this thread to make and query events while another one captures a graph.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class CudaModule final : public Module {
 public:
  const char* error() const noexcept override { return error_text(); }

  CallStatus facts(std::int32_t device, Facts* facts) noexcept override { return read_facts(device, *facts); }
  CallStatus state(State* state) noexcept override { return read_state(device_, *state); }

  CallStatus open(std::int32_t device) noexcept override {
    const std::scoped_lock lock(mutex_);
    CallStatus got = check_cuda(cudaSetDevice(device), "choosing the GPU");
    if (open_) return got;
    device_ = device;
    int l2 = 0;
    if (got == CallStatus::done)
      got = check_cuda(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device), "the size of the cache");
    for (cudaEvent_t& event : stamps_) {
      if (got == CallStatus::done) got = check_cuda(cudaEventCreate(&event), "an event");
    }
    if (got == CallStatus::done)
      got = check_cuda(cudaStreamCreateWithFlags(&captured_, cudaStreamNonBlocking), "a stream");
    flush_bytes_ = 2 * static_cast<std::uint64_t>(std::max(l2, 1 << 20));
    open_ = got == CallStatus::done;
    return got;
  }

  bool healthy() noexcept override {
    if (!open_) return true;
    // Every later call reports the error of a broken kernel.
    const cudaError_t status = cudaStreamQuery(nullptr);
    return status == cudaSuccess || status == cudaErrorNotReady;
  }

  CallStatus allocate(std::uint64_t bytes, void** memory) noexcept override {
    return check_cuda(cudaMalloc(memory, std::max<std::uint64_t>(bytes, 1)), "memory of the GPU");
  }
  void release(void* memory) noexcept override { cudaFree(memory); }

  CallStatus copy(const MatrixCopy& copy, void* stream) noexcept override {
    launch_copy(copy, stream);
    return check_cuda(cudaGetLastError(), "a copy");
  }

  CallStatus set(void* to, std::uint8_t value, std::uint64_t bytes, void* stream) noexcept override {
    return check_cuda(cudaMemsetAsync(to, value, bytes, static_cast<cudaStream_t>(stream)), "filling memory");
  }
  CallStatus read(void* to_host, const void* from, std::uint64_t bytes, void* stream) noexcept override {
    return copy_and_wait(to_host, from, bytes, cudaMemcpyDeviceToHost, stream);
  }
  CallStatus write(void* to, const void* from_host, std::uint64_t bytes, void* stream) noexcept override {
    return copy_and_wait(to, from_host, bytes, cudaMemcpyHostToDevice, stream);
  }

  CallStatus fill(DType dtype, void* data, std::int64_t count, Operand operand,
                  const std::uint32_t* flips) noexcept override {
    const auto blocks = static_cast<std::uint64_t>((count + kFillBlock - 1) / kFillBlock);
    if (const CallStatus got = inputs_.upload(flips, blocks * sizeof *flips); got != CallStatus::done)
      return got;
    return launched(
        launch_fill(dtype, data, count, static_cast<std::uint32_t>(operand), inputs_.as<std::uint32_t>()));
  }

  CallStatus gather(DType dtype, const void* data, const std::int64_t* indices, std::int64_t count,
                    double* out) noexcept override {
    const auto bytes = static_cast<std::uint64_t>(count) * sizeof(double);
    CallStatus got = inputs_.upload(indices, bytes);
    if (got == CallStatus::done) got = outputs_.reserve(bytes);
    if (got == CallStatus::done)
      got = launched(launch_gather(dtype, data, inputs_.as<std::int64_t>(), count, outputs_.as<double>()));
    return got == CallStatus::done ? read(out, outputs_.as<double>(), bytes, nullptr) : got;
  }

  CallStatus multiply(const MatrixView& view, const void* data, std::int64_t items, const double* x,
                      bool x_of_each_item, Squares what, double* value, double* squares) noexcept override {
    const auto rows = static_cast<std::uint64_t>(items * view.rows);
    const auto columns = static_cast<std::uint64_t>((x_of_each_item ? items : 1) * view.columns);
    CallStatus got = upload_vector(x, columns);
    if (got == CallStatus::done) got = outputs_.reserve(2 * rows * sizeof *value);
    if (got != CallStatus::done) return got;
    auto* const values = outputs_.as<double>();
    got = launched(launch_multiply(view, data, items, vector_.as<double>(), x_of_each_item, what, values,
                                   values + rows));
    if (got == CallStatus::done) got = read(value, values, rows * sizeof *value, nullptr);
    if (got == CallStatus::done && what != Squares::none)
      got = read(squares, values + rows, rows * sizeof *squares, nullptr);
    return got;
  }

  CallStatus evict() noexcept override {
    // Programs that only compute take no memory for it.
    if (!flush_) {
      CallStatus got = check_cuda(cudaMalloc(&flush_, flush_bytes_), "memory for flushes");
      if (got == CallStatus::done)
        got = check_cuda(cudaMemset(flush_, 1, flush_bytes_), "memory for flushes");
      if (got != CallStatus::done) return got;
    }
    if (const CallStatus got = outputs_.reserve(sizeof(std::uint32_t)); got != CallStatus::done) return got;
    launch_read(flush_, flush_bytes_, outputs_.as<std::uint32_t>());
    return launched(true);
  }

  CallStatus stamp(int which) noexcept override {
    return check_cuda(cudaEventRecord(stamps_[which], nullptr), "a time stamp");
  }
  CallStatus elapsed(double* us) noexcept override {
    CallStatus got = check_cuda(cudaEventSynchronize(stamps_[1]), "the timed work");
    float ms = 0;
    if (got == CallStatus::done)
      got = check_cuda(cudaEventElapsedTime(&ms, stamps_[0], stamps_[1]), "the time");
    *us = 1e3 * static_cast<double>(ms);
    return got;
  }

  CallStatus make_event(void** event) noexcept override {
    const RelaxedCapture relaxed;
    cudaEvent_t made = nullptr;
    const CallStatus got = check_cuda(cudaEventCreate(&made), "an event");
    *event = made;
    return got;
  }
  CallStatus record_event(void* event, void* stream) noexcept override {
    return check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)),
                      "a time stamp");
  }
  CallStatus between_events(void* begin, void* end, bool* passed, double* us) noexcept override {
    const RelaxedCapture relaxed;
    const cudaError_t reached = cudaEventQuery(static_cast<cudaEvent_t>(end));
    *passed = reached != cudaErrorNotReady;
    if (!*passed) {
      cudaGetLastError();  // an answer, no error
      return CallStatus::done;
    }
    float ms = 0;
    CallStatus got = check_cuda(reached, "the timed work");
    if (got == CallStatus::done) {
      got = check_cuda(
          cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(begin), static_cast<cudaEvent_t>(end)),
          "the time");
    }
    *us = 1e3 * static_cast<double>(ms);
    return got;
  }
  CallStatus is_capturing(void* stream, bool* captures) noexcept override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const CallStatus got = check_cuda(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status),
                                      "the state of a stream");
    *captures = status != cudaStreamCaptureStatusNone;
    return got;
  }

  CallStatus capture(void** stream) noexcept override {
    *stream = captured_;
    return check_cuda(cudaStreamBeginCapture(captured_, cudaStreamCaptureModeThreadLocal), "a capture");
  }
  CallStatus end_capture() noexcept override {
    cudaGraph_t graph = nullptr;
    CallStatus got = check_cuda(cudaStreamEndCapture(captured_, &graph), "the captured work");
    if (graph_) cudaGraphExecDestroy(graph_);
    graph_ = nullptr;
    if (got == CallStatus::done) got = check_cuda(cudaGraphInstantiate(&graph_, graph, 0), "a graph");
    if (graph) cudaGraphDestroy(graph);
    return got;
  }
  CallStatus replay() noexcept override {
    if (!graph_) return answer(CallStatus::failed, "nothing was captured");
    return check_cuda(cudaGraphLaunch(graph_, nullptr), "the captured work");
  }

  CallStatus prepare(const AnyShape& shape, std::string_view provider, std::span<const std::int32_t> axes,
                     std::uint64_t workspace_limit, Matmul** matmul) noexcept override {
    for (const Kernels& kernels : kKernels) {
      if (kernels.provider != provider) continue;
      const CallStatus got = kernels.prepare(shape, axes, workspace_limit, matmul);
      if (got != CallStatus::done || (*matmul)->workspace_bytes() <= workspace_limit) return got;
      (*matmul)->destroy();
      // The message omits the missing bytes, so that equal refusals have equal texts.
      return answer(CallStatus::unsupported, "it needs more than the %llu MiB of workspace that it may use",
                    static_cast<unsigned long long>(workspace_limit >> 20));
    }
    return answer(CallStatus::unsupported, "the module has no kernels of provider %.*s",
                  static_cast<int>(provider.size()), provider.data());
  }
  CallStatus suggest(const MatmulShape& shape, std::uint64_t workspace_limit, CublasLtConfig* out,
                     std::int32_t capacity, std::int32_t* count) noexcept override {
    return suggested(shape, workspace_limit, out, capacity, count);
  }

 private:
  static CallStatus copy_and_wait(void* to, const void* from, std::uint64_t bytes, cudaMemcpyKind kind,
                                  void* stream) {
    const auto in = static_cast<cudaStream_t>(stream);
    const CallStatus got = check_cuda(cudaMemcpyAsync(to, from, bytes, kind, in), "a copy");
    return got == CallStatus::done ? check_cuda(cudaStreamSynchronize(in), "the work before a copy") : got;
  }

  /// All configs of a problem are checked with the same vector, so it stays on the device.
  CallStatus upload_vector(const double* x, std::uint64_t count) {
    if (kept_.size() == count && std::memcmp(kept_.data(), x, count * sizeof *x) == 0)
      return CallStatus::done;
    kept_.assign(x, x + count);
    const CallStatus got = vector_.upload(x, count * sizeof *x);
    if (got != CallStatus::done) kept_.clear();
    return got;
  }

  static CallStatus launched(bool known) {
    if (!known) return answer(CallStatus::unsupported, "the GPU's operands have no such element type");
    return check_cuda(cudaGetLastError(), "a kernel");
  }

  std::mutex mutex_;
  bool open_ = false;
  std::int32_t device_ = 0;
  cudaEvent_t stamps_[2] = {};
  cudaStream_t captured_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  void* flush_ = nullptr;
  std::uint64_t flush_bytes_ = 0;
  Scratch inputs_, outputs_, vector_;
  std::vector<double> kept_;  ///< content of vector_
};

}  // namespace

extern "C" Module* kscout_cuda_module(std::uint32_t abi) {
  // Never destroyed: its destructor would run after the driver's.
  static CudaModule* const module = new CudaModule;
  return abi == kModuleAbi ? module : nullptr;
}

}  // namespace kscout::cuda
