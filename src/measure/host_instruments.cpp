
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <sys/mman.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/thread_limit.h"
#include "instruments/elements.h"
#include "instruments/freivalds.h"
#include "measure/measured_backend.h"
#include "measure/timing.h"

namespace kscout {

namespace {

/// kFillBlock hashed numbers, computed once because multiplying 32-bit lanes is slow on plain x86-64.
const std::vector<std::uint32_t>& scattered(Operand operand) {
  static const auto tables = [] {
    std::array<std::vector<std::uint32_t>, 4> out;  // one per Operand
    for (std::uint32_t t = 0; t < out.size(); ++t) {
      out[t].resize(kFillBlock);
      for (std::uint32_t i = 0; i < out[t].size(); ++i) out[t][i] = scatter((t << 16) + i + 1);
    }
    return out;
  }();
  return tables[static_cast<std::size_t>(operand)];
}

template <class E>
void fill_with(void* data, std::int64_t count, Operand operand, std::uint64_t seed) {
  const std::uint32_t* const table = scattered(operand).data();
  for (std::int64_t begin = 0; begin < count; begin += kFillBlock) {
    const std::uint32_t flips = fill_flips(operand, seed, begin);
    const std::int64_t size = std::min(kFillBlock, count - begin);
    if constexpr (std::is_same_v<E, Float32>) {
      float* const out = static_cast<float*>(data) + begin;
      for (std::int64_t i = 0; i < size; ++i) {
        out[i] = static_cast<float>(static_cast<std::int32_t>(table[i] ^ flips)) * 0x1p-31f;
      }
    } else {
      constexpr double scale = E::round_off == 0 ? 0x1p-28 : 0x1p-31;
      for (std::int64_t i = 0; i < size; ++i) {
        E::store(data, begin + i, static_cast<std::int32_t>(table[i] ^ flips) * scale);
      }
    }
  }
}

template <class E>
void multiply_item(const MatrixView& view, const typename E::stored* base, const double* x, Squares squares,
                   double* value, double* square) {
  const auto squared = [](double v) { return v * v; };
  for (std::int64_t l = 0; l < view.lines(); ++l) {
    const auto* const line = base + l * view.leading;
    if (view.row_major) {
      value[l] = lane_sum(view.columns, [&](std::int64_t c) { return E::load(line, c) * x[c]; });
      if (squares == Squares::plain)
        square[l] = lane_sum(view.columns, [&](std::int64_t c) { return squared(E::load(line, c)); });
      if (squares == Squares::scaled)
        square[l] = lane_sum(view.columns, [&](std::int64_t c) { return squared(E::load(line, c) * x[c]); });
    } else {
      const double scale = x[l], square_scale = squares == Squares::scaled ? scale * scale : 1;
      for (std::int64_t r = 0; r < view.rows; ++r) {
        const double element = E::load(line, r);
        value[r] += scale * element;
        if (squares != Squares::none) square[r] += square_scale * squared(element);
      }
    }
  }
}

/// Maps zeroed pages, as huge pages for large sizes where the system supports them. With small pages, the
/// physical pages that a process happens to get decide which lines collide in a cache, and the same call may
/// take longer in one process than in another. Null when there is no memory.
std::byte* map_pages(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t spare = bytes >= kHugePage ? kHugePage : 0;
  void* const memory =
      mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  if (spare == 0) return begin;
  const std::size_t head = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (head > 0) munmap(begin, head);
  munmap(begin + head + bytes, spare - head);
  madvise(begin + head, bytes, MADV_HUGEPAGE);  // a hint: if refused, the pages are small
  return begin + head;
}

class HostInstruments final : public Instruments {
 public:
  Memory& memory() override { return host_memory(); }

  double memory_bytes() override {
    static const double bytes = [] {
      const double physical =
          static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
      return 0.75 * std::min(physical, memory_quota(read_text_file));
    }();
    return bytes;
  }

  std::byte* map(std::size_t bytes) override {
    std::byte* const memory = map_pages(bytes);
    if (!memory) fail(Errc::device_failure, "a buffer of {} bytes: {}", bytes, std::strerror(errno));
    return memory;
  }

  void unmap(std::byte* memory, std::size_t bytes) noexcept override { munmap(memory, bytes); }

  std::size_t stagger() const noexcept override { return 1024 + 64; }

  void protect(std::byte* memory, std::size_t bytes, bool read_only) override {
    if (mprotect(memory, bytes, read_only ? PROT_READ : PROT_READ | PROT_WRITE) != 0) {
      fail(Errc::device_failure, "cannot protect a buffer: {}", std::strerror(errno));
    }
  }

  void fill(DType dtype, void* data, std::int64_t count, Operand operand, std::uint64_t seed) override {
    with_element(dtype, [&]<class E>() { fill_with<E>(data, count, operand, seed); });
  }

  void gather(DType dtype, const void* data, std::span<const std::int64_t> indices,
              std::span<double> out) override {
    with_element(dtype, [&]<class E>() {
      for (std::size_t i = 0; i < indices.size(); ++i) out[i] = E::load(data, indices[i]);
    });
  }

  Product multiply(const MatrixView& view, const void* data, std::int64_t items, std::span<const double> x,
                   Squares squares) override {
    const auto rows = static_cast<std::size_t>(view.rows), columns = static_cast<std::size_t>(view.columns);
    const auto count = static_cast<std::size_t>(items);
    Product out;
    out.value.resize(count * rows);
    if (squares != Squares::none) out.squares.resize(count * rows);
    with_element(view.dtype, [&]<class E>() {
      for (std::size_t item = 0; item < count; ++item) {
        const auto* const base = static_cast<const typename E::stored*>(data) +
                                 static_cast<std::int64_t>(item) * view.batch_stride;
        const double* const x_of_item = x.data() + (x.size() == columns ? 0 : item * columns);
        multiply_item<E>(view, base, x_of_item, squares, out.value.data() + item * rows,
                         squares == Squares::none ? nullptr : out.squares.data() + item * rows);
      }
    });
    return out;
  }

  void evict(std::span<const Region> operands) override {
    for (const Region& one : operands) flush_from_caches(one.data, one.bytes);
    finish_flushes();
  }

  double time_us(Launch& launch, const Buffers& buffers, void* workspace, int calls) override {
    return mean_us([&] { launch.run(buffers, workspace); }, calls);
  }

  double batch_us() const noexcept override { return kBatchUs; }
};

}  // namespace

Instruments& host_instruments() noexcept {
  static HostInstruments instance;
  return instance;
}

double Instruments::pack_us(Launch& launch, const void* b, void* packed) {
  const std::int64_t begin = now_ns();
  launch.pack(b, packed);
  std::byte first{};
  if (memory().space().kind != MemoryKind::host && launch.packed_bytes() > 0)
    memory().read(&first, packed, 1, {});  // waits until it is packed
  return static_cast<double>(now_ns() - begin) / 1e3;
}

MeasuredBackend* measured_backend(std::string_view name) {
  return dynamic_cast<MeasuredBackend*>(&backend(name));
}

Instruments& instruments_of(Backend& backend) {
  if (auto* measured = dynamic_cast<MeasuredBackend*>(&backend)) return measured->instruments();
  if (&backend.memory() == &host_memory()) return host_instruments();
  fail(Errc::unsupported,
       "backend {} cannot be measured: its operands are in a device's memory, and it has "
       "no instruments for that device",
       backend.name());
}

std::size_t element_bytes(DType dtype) {
  return with_element(dtype, []<class E>() { return sizeof(typename E::stored); });
}

std::uint32_t fill_flips(Operand operand, std::uint64_t seed, std::int64_t block) {
  const std::uint64_t own = mix_hash(seed, static_cast<std::uint64_t>(operand));
  return static_cast<std::uint32_t>(mix_hash(own, static_cast<std::uint64_t>(block)));
}

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

/// Reads the range from the first to the last element at once.
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
