#include "measure/operands.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include <unistd.h>

#include "core/fail.h"
#include "measure/cache_flush.h"
#include "measure/elements.h"

namespace kscout {

namespace {

/// Spreads an index over 32 bits (the finaliser of MurmurHash3, public domain); vectorises.
constexpr std::uint32_t scatter(std::uint32_t x) noexcept {
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}

constexpr std::int64_t kBlock = 1 << 16;

/// Which operand: each has numbers of its own. Were A and B made of the same ones, rows and columns would be
/// correlated, and sums would grow with k instead of its root, and their rounding errors with them.
enum Operand : std::uint32_t { kA, kB, kC };

/// kBlock scattered numbers: computed once, since multiplying 32-bit lanes is slow on plain x86-64.
const std::vector<std::uint32_t>& scattered(Operand operand) {
  static const auto tables = [] {
    std::array<std::vector<std::uint32_t>, 3> out;
    for (std::uint32_t t = 0; t < out.size(); ++t) {
      out[t].resize(kBlock);
      for (std::uint32_t i = 0; i < out[t].size(); ++i) out[t][i] = scatter((t << 16) + i + 1);
    }
    return out;
  }();
  return tables[operand];
}

/// Each block is the operand's table with other bits flipped, so that no two lines are equal.
template <class E>
void fill(void* data, std::int64_t count, Operand operand, std::uint64_t seed) {
  const std::uint32_t* const table = scattered(operand).data();
  seed = mix_hash(seed, operand);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const auto flips = static_cast<std::uint32_t>(mix_hash(seed, static_cast<std::uint64_t>(begin)));
    const std::int64_t size = std::min(kBlock, count - begin);
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

std::size_t element_bytes(DType dtype) {
  return with_element(dtype, []<class E>() { return sizeof(typename E::stored); });
}

/// Calls fn(first byte, bytes) for each gap between the lines of a matrix, all batch items.
template <class F>
void for_each_gap(const MatrixView& view, std::int64_t items, F&& fn) {
  if (view.leading == view.length()) return;
  const std::size_t bytes = element_bytes(view.dtype);
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t line = 0; line < view.lines(); ++line) {
      const std::int64_t first = item * view.batch_stride + line * view.leading + view.length();
      fn(static_cast<std::size_t>(first) * bytes,
         static_cast<std::size_t>(view.leading - view.length()) * bytes);
    }
  }
}

void fill_matrix(GuardedBuffer& buffer, const MatrixView& view, std::int64_t items, Operand operand,
                 std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(buffer.size() / element_bytes(view.dtype));
  with_element(view.dtype, [&]<class E>() { fill<E>(buffer.data(), count, operand, seed); });
  for_each_gap(view, items, [&](std::size_t at, std::size_t bytes) {
    std::fill_n(buffer.data() + at, bytes, std::byte{0xFF});
  });
}

}  // namespace

MatrixView view_a(const GemmProblem& p) noexcept {
  const bool row = row_major_a(p.layout);
  const std::int64_t ld = leading_dimensions(p).a;
  return {p.dtype_a, p.m, p.k, ld, ld * (row ? p.m : p.k), row};
}

MatrixView view_b(const GemmProblem& p) noexcept {
  const bool row = row_major_b(p.layout);
  const std::int64_t ld = leading_dimensions(p).b;
  return {p.dtype_b, p.k, p.n, ld, ld * (row ? p.k : p.n), row};
}

MatrixView view_c(const GemmProblem& p) noexcept {
  const std::int64_t ld = leading_dimensions(p).c;
  return {p.dtype_c, p.m, p.n, ld, ld * p.m, true};
}

void GemmOperands::make(const GemmProblem& problem, std::uint64_t seed) {
  check(problem);
  if (problem.epilogue != Epilogue::none) {
    fail(Errc::unsupported, "epilogue {}: only 'none' can be verified", word(problem.epilogue));
  }
  problem_ = problem;
  const auto elements = operand_elements(problem);
  const auto bytes_of = [](std::int64_t count, DType dtype) {
    return static_cast<double>(count) * static_cast<double>(element_bytes(dtype));
  };
  const double a = bytes_of(elements.a, problem.dtype_a), b = bytes_of(elements.b, problem.dtype_b),
               c = bytes_of(elements.c, problem.dtype_c);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (a + b + 2 * c > 0.75 * memory) {
    fail(Errc::unsupported, "operands of {:.1f} GB: this machine has {:.1f} GB of memory", (a + b + c) / 1e9,
         memory / 1e9);
  }
  a_.resize(static_cast<std::size_t>(a));
  b_.resize(static_cast<std::size_t>(b));
  c_.resize(static_cast<std::size_t>(c));
  fill_matrix(a_, view_a(problem), problem.batch, kA, seed);
  fill_matrix(b_, view_b(problem), problem.batch, kB, seed);
  a_.make_read_only();
  b_.make_read_only();
  initial_c_.clear();
  if (problem.accumulate) {
    fill_matrix(c_, view_c(problem), problem.batch, kC, seed);
    initial_c_.assign(c_.data(), c_.data() + c_.size());
  } else {
    c_.poison();
  }
}

void GemmOperands::reset_c() {
  if (initial_c_.empty()) {
    c_.poison();
  } else {
    std::ranges::copy(initial_c_, c_.data());
  }
}

void GemmOperands::repair() { c_.resize(c_.size()); }

GemmBuffers GemmOperands::buffers() noexcept {
  return {.a = a_.data(), .b = b_.data(), .c = c_.data(), .alpha = alpha(), .beta = beta(), .bias = nullptr};
}

std::string GemmOperands::damage() const {
  if (const std::string text = c_.damage(); !text.empty()) return "C was written " + text;
  std::string text;
  for_each_gap(view_c(problem_), problem_.batch, [&](std::size_t at, std::size_t bytes) {
    const auto changed = [](std::byte b) { return b != std::byte{0xFF}; };
    if (text.empty() && std::any_of(c_.data() + at, c_.data() + at + bytes, changed)) {
      text = fmt::format("C was written between its lines, {} bytes from its start", at);
    }
  });
  return text;
}

void GemmOperands::evict_from_caches() const noexcept {
  flush_from_caches(a_.data(), a_.size());
  flush_from_caches(b_.data(), b_.size());
  flush_from_caches(c_.data(), c_.size());
  finish_flushes();
}

}  // namespace kscout
