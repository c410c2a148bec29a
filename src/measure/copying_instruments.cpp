#include "measure/copying_instruments.h"

#include <algorithm>

namespace kscout {

std::byte* CopyingInstruments::map(std::size_t bytes) {
  return static_cast<std::byte*>(memory_.allocate(bytes));
}
void CopyingInstruments::unmap(std::byte* mapped, std::size_t) noexcept { memory_.release(mapped); }

std::vector<std::byte> CopyingInstruments::fetch(DType dtype, const void* data, std::int64_t first,
                                                 std::int64_t count) {
  const auto bytes = static_cast<std::int64_t>(element_bytes(dtype));
  std::vector<std::byte> copy(static_cast<std::size_t>(count * bytes));
  memory_.read(copy.data(), static_cast<const std::byte*>(data) + first * bytes, copy.size(), {});
  return copy;
}

void CopyingInstruments::fill(DType dtype, void* data, std::int64_t count, Operand operand,
                              std::uint64_t seed) {
  std::vector<std::byte> made(static_cast<std::size_t>(count) * element_bytes(dtype));
  host_instruments().fill(dtype, made.data(), count, operand, seed);
  memory_.write(data, made.data(), made.size(), {});
}

/// One transfer of all that lies between the first and the last.
void CopyingInstruments::gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
                                std::span<double> out) {
  if (indices.empty()) return;
  const auto [first, last] = std::minmax_element(indices.begin(), indices.end());
  const std::int64_t begin = *first;
  const auto copy = fetch(dtype, data, begin, *last - begin + 1);
  std::vector<std::int64_t> shifted(indices.begin(), indices.end());
  for (std::int64_t& index : shifted) index -= begin;
  host_instruments().gather(dtype, copy.data(), shifted, out);
}

Product CopyingInstruments::multiply(const MatrixView& view, const void* data, std::int64_t items,
                                     std::span<const double> x, Squares squares) {
  const std::int64_t of_item = (view.lines() - 1) * view.leading + view.length();
  const std::int64_t count =
      view.rows == 0 || view.columns == 0 || items == 0 ? 0 : (items - 1) * view.batch_stride + of_item;
  const auto copy = fetch(view.dtype, data, 0, count);
  return host_instruments().multiply(view, copy.data(), items, x, squares);
}

}  // namespace kscout
