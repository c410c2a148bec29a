#pragma once
/// \file
/// Defines what measuring needs of a kind of device besides running kernels: guarded memory, filled operands,
/// sums for references, cache flushes and a clock. Each backend implements it; protocols, tolerances and
/// stopping rules exist once, above it.
///
///     Instruments& tools = instruments_of(backend("cuda"));   // measure/measured_backend.h
///     GemmOperands operands(tools);
///     operands.make(problem, seed);
///     double us = tools.time_us(*launch, operands.buffers(), workspace, 1);
///
/// Calls execute in their order; a call that returns numbers waits for them.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <kscout/launch.h>

#include "instruments/matrix_view.h"
#include "instruments/stream_clock.h"

namespace kscout {

/// The operand to fill: each has its own numbers. With equal numbers in A and B, rows and columns would be
/// correlated; sums and their rounding errors would then grow with k instead of its square root.
enum class Operand : std::uint32_t { a, b, c, bias };

/// The squares that are summed beside a product with a vector: none, M_rc^2, or (M_rc v_c)^2.
enum class Squares : std::uint8_t { none, plain, scaled };

/// Per row, all batch items one after the other: sum_c M_rc v_c, and the squares when requested.
struct Product {
  std::vector<double> value, squares;
};

class Instruments {
 public:
  virtual ~Instruments() = default;

  /// The backend's memory.
  virtual Memory& memory() = 0;
  /// Maximum number of bytes for all operands together.
  virtual double memory_bytes() = 0;
  /// Maps whole pages for a GuardedBuffer. Throws device_failure.
  virtual std::byte* map(std::size_t bytes) = 0;
  virtual void unmap(std::byte* memory, std::size_t bytes) noexcept = 0;
  /// Distance by which buffers are shifted against each other within their pages.
  virtual std::size_t stagger() const noexcept = 0;
  /// Makes any write to the memory end the process, where the device can do that; `read_only` = false allows
  /// writes again.
  virtual void protect(std::byte* memory, std::size_t bytes, bool read_only) = 0;

  /// Fills with values uniform in [-1, 1] (whole numbers -8 to 8 for integer types). They depend on operand,
  /// seed and position only, so they are the same on every device. Throws unsupported for element types that
  /// cannot be generated.
  virtual void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) = 0;
  /// Reads the elements at these indices. Sizes must match.
  virtual void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
                      std::span<double> out) = 0;
  /// Multiplies each batch item by a vector, in float64. `x` has one entry per column: for all items, or item
  /// after item.
  virtual Product multiply(const MatrixView& view, const void* data, std::int64_t items,
                           std::span<const double> x, Squares squares) = 0;

  /// Removes the operands from all caches.
  struct Region {
    const void* data;
    std::size_t bytes;
  };
  virtual void evict(std::span<const Region> operands) = 0;
  /// Mean microseconds of `calls` consecutive calls, by the device's clock.
  virtual double time_us(Launch& launch, const Buffers& buffers, void* workspace, int calls) = 0;
  /// A clock of single calls that others enqueue; null where the device has none that waits for nothing.
  virtual StreamClock* stream_clock() noexcept { return nullptr; }
  /// Packs B for a launch (Launch::pack) and waits until it is packed. Returns the microseconds.
  virtual double pack_us(Launch& launch, const void* b, void* packed);
  /// Minimum length of a batch of calls, so that clock and call cost stay below 0.3 %.
  virtual double batch_us() const noexcept = 0;
  /// The extra time that the first call of a kernel in this process may take, because its code is loaded. A
  /// first call below this time is not taken as evidence of a slow kernel.
  virtual double loading_us() const noexcept { return 0; }
  /// Whether the device currently runs below its nominal clocks (heat, power brake), as far as it reports
  /// that.
  virtual bool slowed() { return false; }
  /// Current clock of the device's cores; NaN where the device does not report it.
  virtual double clock_mhz() { return std::numeric_limits<double>::quiet_NaN(); }
  /// False once a kernel has broken the device for this process: only another process can continue.
  virtual bool usable() { return true; }
};

/// The instruments of the CPU.
Instruments& host_instruments() noexcept;

/// Bytes of one element in memory; throws unsupported for types that cannot be generated.
std::size_t element_bytes(DType dtype);

/// Hashes an index to 32 bits (the finaliser of MurmurHash3, public domain), to generate operands.
constexpr std::uint32_t scatter(std::uint32_t x) noexcept {
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}
/// Element i of an operand is computed from scatter of (operand, i mod kFillBlock), and then the bits that
/// fill_flips() returns for its block are inverted, so that no two blocks are equal.
inline constexpr std::int64_t kFillBlock = 1 << 16;
std::uint32_t fill_flips(Operand operand, std::uint64_t seed, std::int64_t block);

// ---- Implements instruments for a device without measuring kernels: operands are generated on the CPU and
// copied to the device, results are copied back and summed on the CPU. Slow (a transfer per operand and
// check), but with the same numbers.
//
//     class HipInstruments final : public CopyingInstruments { ... };   // adds clock and caches

class CopyingInstruments : public Instruments {
 public:
  explicit CopyingInstruments(Memory& memory) : memory_(memory) {}

  Memory& memory() override { return memory_; }
  std::byte* map(std::size_t bytes) override;
  void unmap(std::byte* mapped, std::size_t bytes) noexcept override;
  std::size_t stagger() const noexcept override { return 0; }
  /// A GPU cannot protect its memory from kernels.
  void protect(std::byte*, std::size_t, bool) override {}
  void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) override;
  void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
              std::span<double> out) override;
  Product multiply(const MatrixView& view, const void* data, std::int64_t items, std::span<const double> x,
                   Squares squares) override;

 private:
  /// Copies elements [first, first + count) to the CPU's memory.
  std::vector<std::byte> fetch(DType dtype, const void* data, std::int64_t first, std::int64_t count);

  Memory& memory_;
};

}  // namespace kscout
