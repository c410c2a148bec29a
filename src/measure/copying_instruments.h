#pragma once
/// \file
/// Instruments for a device without kernels of ours: operands are made on the CPU and copied there, results
/// are copied back and summed on the CPU. Slow beside a kernel (a transfer per operand and check), the same
/// numbers.
///
///     class HipInstruments final : public CopyingInstruments { ... };   // adds clock and caches
#include "measure/instruments.h"

namespace kscout {

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
