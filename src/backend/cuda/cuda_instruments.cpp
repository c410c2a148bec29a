#include "backend/cuda/cuda_instruments.h"

#include "backend/cuda/cuda_backend.h"
#include "measure/clock.h"

namespace kscout::cuda {

namespace {

class GpuMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    Module& module = open_module();
    void* memory = nullptr;
    check(module, module.allocate(bytes, &memory));
    return memory;
  }
  void release(void* memory) noexcept override { load_module().release(memory); }
  void copy(const MatrixCopy& copy, Stream stream) override {
    Module& module = open_module();
    check(module, module.copy(copy, stream.handle));
  }
  void set(void* to, std::byte value, std::size_t bytes, Stream stream) override {
    Module& module = open_module();
    check(module, module.set(to, std::to_integer<std::uint8_t>(value), bytes, stream.handle));
  }
  void read(void* to_host, const void* from, std::size_t bytes, Stream stream) override {
    Module& module = open_module();
    check(module, module.read(to_host, from, bytes, stream.handle));
  }
  void write(void* to, const void* from_host, std::size_t bytes, Stream stream) override {
    Module& module = open_module();
    check(module, module.write(to, from_host, bytes, stream.handle));
  }
};

class GpuInstruments final : public Instruments {
 public:
  Memory& memory() override { return gpu_memory(); }

  double memory_bytes() override {
    if (memory_bytes_ == 0) {
      Module& module = open_module();
      Facts facts;
      check(module, module.facts(used_cuda_device(), &facts));
      memory_bytes_ = 0.75 * facts.memory_bytes;
    }
    return memory_bytes_;
  }

  std::byte* map(std::size_t bytes) override { return static_cast<std::byte*>(memory().allocate(bytes)); }
  void unmap(std::byte* mapped, std::size_t) noexcept override { memory().release(mapped); }
  std::size_t stagger() const noexcept override { return 0; }
  void protect(std::byte*, std::size_t, bool) override {
  }  // a GPU's memory cannot be protected from its kernels

  void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) override {
    std::vector<std::uint32_t> flips;
    for (std::int64_t block = 0; block < count; block += kFillBlock)
      flips.push_back(fill_flips(operand, seed, block));
    Module& module = open_module();
    check(module, module.fill(dtype, data, count, operand, flips.data()));
  }

  void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
              std::span<double> out) override {
    Module& module = open_module();
    if (indices.empty()) return;
    check(module,
          module.gather(dtype, data, indices.data(), static_cast<std::int64_t>(indices.size()), out.data()));
  }

  Product multiply(const MatrixView& view, const void* data, std::int64_t items, std::span<const double> x,
                   Squares squares) override {
    const auto rows = static_cast<std::size_t>(items * view.rows);
    Product out;
    out.value.resize(rows);
    if (squares != Squares::none) out.squares.resize(rows);
    Module& module = open_module();
    check(module,
          module.multiply(view, data, items, x.data(), x.size() != static_cast<std::size_t>(view.columns),
                          squares, out.value.data(), out.squares.data()));
    return out;
  }

  void evict(std::span<const Region>) override {
    Module& module = open_module();
    check(module, module.evict());
  }

  /// One call is timed between two stamps in the queue. Several are captured into a graph and replayed, since
  /// a short kernel ends before the program has put the next one into the queue.
  double time_us(Launch& launch, const GemmBuffers& buffers, void* workspace, int calls) override {
    Module& module = open_module();
    if (calls > 1) {
      void* stream = nullptr;
      check(module, module.capture(&stream));
      try {
        for (int i = 0; i < calls; ++i) launch.run(buffers, workspace, {stream});
      } catch (...) {
        module.end_capture();
        throw;
      }
      check(module, module.end_capture());
    }
    check(module, module.stamp(0));
    if (calls > 1) {
      check(module, module.replay());
    } else {
      launch.run(buffers, workspace);
    }
    check(module, module.stamp(1));
    double us = 0;
    check(module, module.elapsed(&us));
    return us / calls;
  }

  double batch_us() const noexcept override { return 100; }
  /// CUDA loads a kernel when it is first launched, and with the first of a library's part that part.
  double loading_us() const noexcept override { return 200'000; }

  bool slowed() override {
    // Asking takes the driver longer than many a kernel runs, and heat lasts.
    constexpr std::int64_t kEveryNs = 50'000'000;
    if (now_ns() - asked_ns_ > kEveryNs) {
      asked_ns_ = now_ns();
      State state;
      Module& module = open_module();
      slowed_ = module.state(&state) == Answer::done && (state.slowdowns & kSlowed) != 0;
    }
    return slowed_;
  }

  double clock_mhz() override {
    State state;
    Module& module = open_module();
    const bool told = module.state(&state) == Answer::done && state.sm_clock_mhz > 0;
    return told ? state.sm_clock_mhz : std::numeric_limits<double>::quiet_NaN();
  }
  bool usable() override { return load_module().healthy(); }

 private:
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
