#pragma once
/// \file
/// What measuring needs of a kind of device besides running kernels: memory with guards, filled operands,
/// sums for references, empty caches and a clock. One per backend; protocols, tolerances and stopping rules
/// are written once, above it.
///
///     Instruments& tools = instruments_of(backend("cuda"));
///     GemmOperands operands(tools);
///     operands.make(problem, seed);
///     double us = tools.time_us(*launch, operands.buffers(), workspace, 1);
///
/// All of it is done in the order of the calls, and what returns numbers waits for them.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <kscout/backend.h>

#include "measure/matrix_view.h"

namespace kscout {

/// Which operand: each has numbers of its own. Were A and B made of the same ones, rows and columns would be
/// correlated, and sums would grow with k instead of its root, and their rounding errors with them.
enum class Operand : std::uint32_t { a, b, c, bias };

/// What is summed beside a product with a vector: nothing, M_rc^2, or (M_rc v_c)^2.
enum class Squares : std::uint8_t { none, plain, scaled };

/// Per row, all batch items one after the other: sum_c M_rc v_c, and the squares when they were asked for.
struct Product {
  std::vector<double> value, squares;
};

class Instruments {
 public:
  virtual ~Instruments() = default;

  /// The backend's memory.
  virtual Memory& memory() = 0;
  /// Bytes that operands may take, all together.
  virtual double memory_bytes() = 0;
  /// Memory of whole pages for a GuardedBuffer. Throws device_failure.
  virtual std::byte* map(std::size_t bytes) = 0;
  virtual void unmap(std::byte* memory, std::size_t bytes) noexcept = 0;
  /// Bytes by which buffers are moved apart within their pages.
  virtual std::size_t stagger() const noexcept = 0;
  /// From now on a write ends the process, where the device can do that; `false` takes it back.
  virtual void protect(std::byte* memory, std::size_t bytes, bool read_only) = 0;

  /// Values uniform in [-1, 1] (whole numbers -8 to 8 for integer types), the same on every device: a
  /// function of operand, seed and position. Throws unsupported for element types that cannot be made.
  virtual void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) = 0;
  /// The elements at these indices. Sizes must match.
  virtual void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
                      std::span<double> out) = 0;
  /// Each batch item times a vector, in float64. `x` has one entry per column: for all items, or item after
  /// item.
  virtual Product multiply(const MatrixView& view, const void* data, std::int64_t items,
                           std::span<const double> x, Squares squares) = 0;

  /// The operands are in no cache afterwards.
  struct Region {
    const void* data;
    std::size_t bytes;
  };
  virtual void evict(std::span<const Region> operands) = 0;
  /// Mean microseconds of so many calls, one after the other, by the device's clock.
  virtual double time_us(Launch& launch, const GemmBuffers& buffers, void* workspace, int calls) = 0;
  /// Calls are timed in batches of at least this long, so that clock and call cost stay below 0.3 %.
  virtual double batch_us() const noexcept = 0;
  /// What the first call of a kernel in this process may take longer than the next ones, because its code is
  /// loaded then: no first call below that is believed to be slow.
  virtual double loading_us() const noexcept { return 0; }
  /// Whether the device runs slower than its clocks promise right now (heat, power brake), as far as it says.
  virtual bool slowed() { return false; }
  /// Clock of the device's cores right now; NaN where it does not say.
  virtual double clock_mhz() { return std::numeric_limits<double>::quiet_NaN(); }
  /// False once a kernel has broken the device for this process: only another process can go on.
  virtual bool usable() { return true; }
};

/// Those of the CPU.
Instruments& host_instruments() noexcept;

/// A backend that brings instruments: one whose memory is not the CPU's.
class MeasuredBackend : public Backend {
 public:
  virtual Instruments& instruments() = 0;
};
/// Those of a MeasuredBackend; of another backend in the CPU's memory, the CPU's. Throws unsupported for the
/// rest.
Instruments& instruments_of(Backend& backend);

/// How many bytes an element takes in memory; throws unsupported for types that cannot be made.
std::size_t element_bytes(DType dtype);

/// Spreads an index over 32 bits (the finaliser of MurmurHash3, public domain): what operands are made of.
constexpr std::uint32_t scatter(std::uint32_t x) noexcept {
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}
/// Element i of an operand is made of scatter of (operand, i mod kFillBlock) with the bits of its block's
/// flips changed, so that no two blocks are equal.
inline constexpr std::int64_t kFillBlock = 1 << 16;
std::uint32_t fill_flips(Operand operand, std::uint64_t seed, std::int64_t block);

// ---- Instruments for a device without kernels of ours: operands are made on the CPU and copied there,
// results are copied back and summed on the CPU. Slow beside a kernel (a transfer per operand and check), the
// same numbers.
//
//     class HipInstruments final : public CopyingInstruments { ... };   // adds clock and caches

class CopyingInstruments : public Instruments {
 public:
  explicit CopyingInstruments(Memory& memory) : memory_(memory) {}

  Memory& memory() override { return memory_; }
  std::byte* map(std::size_t bytes) override;
  void unmap(std::byte* mapped, std::size_t bytes) noexcept override;
  std::size_t stagger() const noexcept override { return 0; }
  /// A GPU's memory cannot be protected from its kernels.
  void protect(std::byte*, std::size_t, bool) override {}
  void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) override;
  void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
              std::span<double> out) override;
  Product multiply(const MatrixView& view, const void* data, std::int64_t items, std::span<const double> x,
                   Squares squares) override;

 private:
  /// Elements [first, first + count) in the CPU's memory.
  std::vector<std::byte> fetch(DType dtype, const void* data, std::int64_t first, std::int64_t count);

  Memory& memory_;
};

}  // namespace kscout
