#pragma once
/// \file
/// Instruments of the CPU with a clock that only the test's kernels advance, for tests that must not depend
/// on what else runs.
///
///     StandInInstruments clock;
///     ... void run(const Buffers&, void*, Stream) override { clock.now_us += 40; }
///     ProblemBench bench({}, seed, clock);   // every call takes 40 us
#include <deque>

#include "instruments/instruments.h"

namespace kscout {

/// Reads the clock of a StandInInstruments.
class StandInStreamClock final : public StreamClock {
 public:
  explicit StandInStreamClock(const double& now_us) : now_us_(now_us) {}
  Span start(Stream) noexcept override { return {&marks_.emplace_back(now_us_), &marks_.emplace_back(0)}; }
  bool stop(Span& span, Stream) noexcept override {
    *static_cast<double*>(span.end) = now_us_;
    ++open;
    return true;
  }
  SpanState read(const Span& span, double& us) noexcept override {
    if (behind) return SpanState::pending;
    us = *static_cast<double*>(span.end) - *static_cast<double*>(span.begin);
    return SpanState::done;
  }
  void give_back(const Span&) noexcept override { --open; }
  bool captures(Stream) noexcept override { return capturing; }

  bool behind = false;     ///< the device has not reached any mark
  bool capturing = false;  ///< all streams are captured
  int open = 0;            ///< spans that were stopped and not given back

 private:
  const double& now_us_;
  std::deque<double> marks_;
};

class StandInInstruments : public Instruments {
 public:
  Memory& memory() override { return host_.memory(); }
  double memory_bytes() override { return host_.memory_bytes(); }
  std::byte* map(std::size_t bytes) override { return host_.map(bytes); }
  void unmap(std::byte* memory, std::size_t bytes) noexcept override { host_.unmap(memory, bytes); }
  std::size_t stagger() const noexcept override { return host_.stagger(); }
  void protect(std::byte* memory, std::size_t bytes, bool read_only) override {
    host_.protect(memory, bytes, read_only);
  }
  void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) override {
    host_.fill(dtype, data, count, operand, seed);
  }
  void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
              std::span<double> out) override {
    host_.gather(dtype, data, indices, out);
  }
  Product multiply(const MatrixView& view, const void* data, std::int64_t items, std::span<const double> x,
                   Squares squares) override {
    return host_.multiply(view, data, items, x, squares);
  }
  void evict(std::span<const Region> operands) override { host_.evict(operands); }
  double batch_us() const noexcept override { return 100; }
  double time_us(Launch& launch, const Buffers& buffers, void* workspace, int calls) override {
    const double begin_us = now_us;
    for (int i = 0; i < calls; ++i) launch.run(buffers, workspace);
    return (now_us - begin_us) / calls;
  }
  double pack_us(Launch& launch, const void* b, void* packed) override {
    const double begin_us = now_us;
    launch.pack(b, packed);
    return now_us - begin_us;
  }

  StreamClock* stream_clock() noexcept override { return streams; }

  double now_us = 0;
  StreamClock* streams = nullptr;

 private:
  Instruments& host_ = host_instruments();
};

}  // namespace kscout
