#include "backend/hip/hip_instruments.h"

#include <algorithm>

#include "backend/hip/hip_api.h"
#include "backend/hip/hip_backend.h"
#include "measure/copying_instruments.h"

namespace kscout::hip {

namespace {

class HipMemory final : public Memory {
 public:
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

  /// Writing more than the last-level caches hold leaves nothing else in them: 512 MB are twice the 256 MB
  /// of an MI300X.
  void evict(std::span<const Region>) override {
    constexpr std::size_t kBytes = std::size_t{512} << 20;
    if (!flush_) flush_ = memory().allocate(kBytes);
    memory().set(flush_, std::byte{1}, kBytes, {});
  }

  /// Between two events in the device's own queue.
  double time_us(Launch& launch, const GemmBuffers& buffers, void* workspace, int calls) override {
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
  /// Code objects are loaded by the first launch, as CUDA does.
  double loading_us() const noexcept override { return 200'000; }

  bool usable() override {
    const Status status = api().StreamQuery(nullptr);  // what a kernel broke, every later call reports
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
