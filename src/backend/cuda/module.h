#pragma once
/// \file
/// Defines the interface between backend `cuda` and the module, which contains all CUDA code.
///
///     cuda::Module& module = cuda::open_module();      // loads libkscout_cuda.so once
///     module.open(0);
///
/// The program is built without CUDA headers or libraries; the module (src/backend/cuda/module) is a separate
/// shared object, loaded when a GPU is first used. Both come from one source tree. The interface is a class
/// without data. It uses plain types and throws nothing. A function that can fail returns a status; error()
/// then has the reason. Work goes to the default stream (stream 0) unless a stream is named, and functions do
/// not wait for it unless their comment says so.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include <kscout/launch.h>
#include <kscout/types.h>

#include "backend/cuda/module/groupwise_geometry.h"
#include "instruments/instruments.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout::cuda {

inline constexpr std::uint32_t kModuleAbi = 8;
inline constexpr const char* kModuleSymbol = "kscout_cuda_module";

enum class CallStatus : std::int32_t {
  done,
  unsupported,  ///< the library or the device does not support it; another config may work
  failed,       ///< the driver, a library or a kernel reported an error
};

/// Facts from the driver and the libraries; 0 = unknown.
struct Facts {
  char model[128];
  char pci_bus[32];
  std::int32_t devices;  ///< GPUs that this process may use
  std::int32_t compute_major, compute_minor;
  std::int32_t cores;  ///< streaming multiprocessors
  std::int32_t max_threads_per_core;
  std::int32_t warp_lanes;
  double clock_mhz;         ///< highest SM clock
  double memory_clock_mhz;  ///< as the driver counts it; the transfer rate is twice this
  double memory_bus_bits;
  double memory_bytes;
  double l2_bytes;
  double shared_bytes_per_core;
  double shared_bytes_per_block;  ///< maximum, when a kernel opts in
  std::int32_t driver_version;    ///< CUDA version that the driver supports, e.g. 13000
  std::int32_t runtime_version;   ///< version of the CUDA runtime in the module
  std::int32_t cublaslt_version;  ///< e.g. 130100
  char driver_release[32];        ///< e.g. 580.95.05
};

/// The current state of the device.
struct State {
  double sm_clock_mhz, memory_clock_mhz, power_w, temperature_c;
  std::uint64_t slowdowns;  ///< NVML's bits for reasons of a lower clock; kSlowed selects the relevant ones
};
/// Selects heat, power brake and hardware slow-downs; leaves out idling, an application's setting and the
/// power cap.
inline constexpr std::uint64_t kSlowed = 0x08 | 0x20 | 0x40 | 0x80;

/// A GEMM as in problem.h. Leading dimensions and strides are in elements and never 0.
struct MatmulShape {
  DType dtype_a, dtype_b, dtype_c, dtype_acc;
  Layout layout;
  Epilogue epilogue;
  bool accumulate;
  std::int64_t m, n, k, batch;
  std::int64_t lda, ldb, ldc;
  std::int64_t stride_a, stride_b, stride_c;
};

/// A convolution as in conv_problem.h, images with channels last. Axes are depth, height, width.
struct ConvShape {
  Direction direction;
  DType dtype;
  std::int32_t n, c, k, g;
  ConvAxis axes[3];
};

/// What a kernel computes: a product, or a convolution, whose operands in a call are those of the implicit
/// GEMM (by_operand).
struct AnyShape {
  const MatmulShape* product = nullptr;
  const ConvShape* conv = nullptr;
  /// Of a grouped GEMM the rows of each group; `product` has m of all of them, and one matrix of B for each
  /// group, without gaps. Empty for other products.
  std::span<const std::int64_t> rows = {};
};

/// A provider's typed config. Its members are the axes in their order; those without an axis keep their
/// defaults.
template <class Config>
Config config_from(std::span<const std::int32_t> axes) {
  static_assert(std::is_trivially_copyable_v<Config> && sizeof(Config) % sizeof(std::int32_t) == 0);
  Config config;
  std::memcpy(static_cast<void*>(&config), axes.data(), std::min(axes.size_bytes(), sizeof config));
  return config;
}

struct MatmulCall {
  const void* a;
  const void* b;
  void* c;
  const void* bias;
  const void* scale_a;  ///< one fp32 in the device's memory; null = 1
  const void* scale_b;
  double alpha, beta;
  void* workspace;
};

/// An algorithm or a kernel, prepared for a shape.
class Matmul {
 public:
  virtual std::uint64_t workspace_bytes() const noexcept = 0;
  /// The algorithm of cuBLASLt that runs; for a suggestion, the one that the library chose.
  virtual CublasLtConfig algorithm() const noexcept { return {}; }
  virtual CallStatus run(const MatmulCall& call, void* stream) noexcept = 0;
  virtual void destroy() noexcept = 0;

 protected:
  ~Matmul() = default;
};

class Module {
 public:
  /// The reason for this thread's last status other than done.
  virtual const char* error() const noexcept = 0;

  /// Needs the driver but no open device: call it in a process that may use a GPU.
  virtual CallStatus facts(std::int32_t device, Facts* facts) noexcept = 0;
  virtual CallStatus state(State* state) noexcept = 0;
  /// Opens the device for the calling thread. All functions below require it in each thread.
  virtual CallStatus open(std::int32_t device) noexcept = 0;
  /// False when a kernel has destroyed the device's context: this process can no longer use the GPU.
  virtual bool healthy() noexcept = 0;

  virtual CallStatus allocate(std::uint64_t bytes, void** memory) noexcept = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual CallStatus copy(const MatrixCopy& copy, void* stream) noexcept = 0;
  virtual CallStatus set(void* to, std::uint8_t value, std::uint64_t bytes, void* stream) noexcept = 0;
  /// read() and write() wait.
  virtual CallStatus read(void* to_host, const void* from, std::uint64_t bytes, void* stream) noexcept = 0;
  virtual CallStatus write(void* to, const void* from_host, std::uint64_t bytes, void* stream) noexcept = 0;

  /// Implements Instruments::fill; `flips` has one entry per block of kFillBlock elements.
  virtual CallStatus fill(DType dtype, void* data, std::int64_t count, Operand operand,
                          const std::uint32_t* flips) noexcept = 0;
  /// Implement Instruments::gather and Instruments::multiply; both wait. `squares` may be null when no
  /// squares are requested.
  virtual CallStatus gather(DType dtype, const void* data, const std::int64_t* indices, std::int64_t count,
                            double* out) noexcept = 0;
  virtual CallStatus multiply(const MatrixView& view, const void* data, std::int64_t items, const double* x,
                              bool x_of_each_item, Squares what, double* value, double* squares) noexcept = 0;
  /// Reads more memory than the level-2 cache holds, which evicts everything else.
  virtual CallStatus evict() noexcept = 0;
  /// Records the device's clock at this position in the stream: 0 = begin, 1 = end.
  virtual CallStatus stamp(int which) noexcept = 0;
  /// Microseconds between the two records; waits for the second.
  virtual CallStatus elapsed(double* us) noexcept = 0;
  /// Implement StreamClock. between_events() waits for nothing: `passed` is false before the GPU has reached
  /// the second.
  virtual CallStatus make_event(void** event) noexcept = 0;
  virtual CallStatus record_event(void* event, void* stream) noexcept = 0;
  virtual CallStatus between_events(void* begin, void* end, bool* passed, double* us) noexcept = 0;
  virtual CallStatus is_capturing(void* stream, bool* captures) noexcept = 0;
  /// Work that is enqueued on the stream between capture() and end_capture() is recorded instead of run;
  /// replay() enqueues it.
  virtual CallStatus capture(void** stream) noexcept = 0;
  virtual CallStatus end_capture() noexcept = 0;
  virtual CallStatus replay() noexcept = 0;

  /// Prepares the config of a provider, whose axes have these values; unsupported for work that it does not
  /// take, or when it needs more workspace than the limit.
  virtual CallStatus prepare(const AnyShape& shape, std::string_view provider,
                             std::span<const std::int32_t> axes, std::uint64_t workspace_limit,
                             Matmul** matmul) noexcept = 0;

  /// Up to `capacity` algorithms that cuBLASLt's heuristic suggests for the shape, best first.
  virtual CallStatus suggest(const MatmulShape& shape, std::uint64_t workspace_limit, CublasLtConfig* out,
                             std::int32_t capacity, std::int32_t* count) noexcept = 0;

 protected:
  ~Module() = default;
};

/// The type of the function that the shared object exports under kModuleSymbol; it returns null when it does
/// not support `abi`.
using ModuleEntry = Module* (*)(std::uint32_t abi);

}  // namespace kscout::cuda
